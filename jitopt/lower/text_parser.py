"""Reads the text form of programs that `jitopt.lower.text` prints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from jitopt.ir.dims import Dim
from jitopt.ir.dtypes import FLOAT32
from jitopt.ir.graph import Metadata
from jitopt.ir.lexer import Cursor
from jitopt.ir.literals import parse_float
from jitopt.ir.text_dims import parse_dim, parse_int, parse_type
from jitopt.ir.text_parser import GraphParser
from jitopt.ir.types import TensorType
from jitopt.lower.checks import Check
from jitopt.lower.program import (
    CONSTANT,
    HOST,
    INPUT,
    OUTPUT,
    POOL,
    TABLE,
    Address,
    Arg,
    Buffer,
    Float,
    HostStep,
    Port,
    Program,
    Region,
    Segment,
    Step,
)
from jitopt.lower.spec import KernelSpec
from jitopt.lower.text_regions import parse_extent
from jitopt.lower.text_spec import parse_list, parse_spec
from jitopt.lower.text_tables import at_float, parse_call, parse_table
from jitopt.ops.rules import RELATIONS

Array = np.ndarray[Any, Any]
_KINDS = (POOL, CONSTANT, INPUT, OUTPUT, HOST, TABLE)


def parse_program(text: str, constants: Mapping[str, Array] | None = None) -> Program:
    """The program that `print_program` gave this text for; `constants` holds large arrays by digest.

    The program runs as the printed one does, but is not verified (`jitopt.lower.verifier`). Raises ModelError with
    line and column for malformed text, an undefined buffer or kernel, arguments that are not those of the kernel's
    words, or an array that `constants` lacks.
    """
    parser = _Parser(Cursor(text), constants or {})
    try:
        program = parser.program()
    except RecursionError:
        raise parser.cursor.error("nested too deeply") from None
    if parser.cursor.peek.kind != "end":
        raise parser.cursor.error(f"unexpected {parser.cursor.found()} after the program")
    return program


class _Parser:
    def __init__(self, cursor: Cursor, constants: Mapping[str, Array]) -> None:
        self.cursor, self.graphs = cursor, GraphParser(cursor, constants)
        self.buffers: dict[str, Buffer] = {}
        self.kernels: dict[str, KernelSpec] = {}

    def program(self) -> Program:
        cursor = self.cursor
        cursor.expect("program")
        name = cursor.string("the program's name")
        cursor.expect("for")
        out = Program(name, cursor.string("the target's name"), [], [], [], Metadata())
        cursor.expect("{")
        while not cursor.accept("}"):
            if cursor.accept("metadata"):
                out.metadata = self.graphs.metadata()
            elif cursor.accept("buffer"):
                self._buffer()
            elif cursor.accept("input"):
                out.inputs.append(self._port())
            elif cursor.accept("output"):
                out.outputs.append(self._port())
            elif cursor.accept("check"):
                out.checks.append(self._check())
            elif cursor.at("kernel"):
                self._kernel()
            elif cursor.accept("segment"):
                out.parts.append(Segment(self._steps()))
            elif cursor.accept("host"):
                out.parts.append(self._host())
            else:
                raise cursor.error(
                    f"expected buffer, input, output, check, kernel, segment, host or '}}', found {cursor.found()}"
                )
        return out

    # buffers ----------------------------------------------------------------------------------------------------
    def _buffer(self) -> None:
        cursor = self.cursor
        at, name = cursor.peek.at, cursor.label("value", "the buffer's name, such as %x")
        if name in self.buffers:
            raise cursor.error(f"buffer '{name}' is defined twice", at)
        cursor.expect(":")
        kind = cursor.kind("name", "the buffer's kind")
        if kind.text not in _KINDS:
            raise cursor.error(f"unknown kind of buffer '{kind.text}', it is one of {', '.join(_KINDS)}", kind.at)
        cursor.expect(",")
        if kind.text == CONSTANT:
            type = parse_type(cursor)
            cursor.expect("=")
            array = self.graphs.data(type, f"constant '{name}'")
            self.buffers[name] = Buffer(name, CONSTANT, array.nbytes, array)
            return
        buffer = self.buffers[name] = Buffer(name, kind.text, parse_dim(cursor))
        cursor.expect("bytes")
        if cursor.accept(","):
            start, found = cursor.peek.at, parse_type(cursor)
            if not isinstance(found, TensorType):
                raise cursor.error(f"buffer '{name}' holds a tensor or has no type", start)
            buffer.type = found
        if kind.text == TABLE:
            cursor.expect("=")
            buffer.table = parse_table(cursor)

    def _use(self, cursor: Cursor) -> Buffer:
        at, name = cursor.peek.at, cursor.label("value", "a buffer")
        if name not in self.buffers:
            raise cursor.error(f"buffer '{name}' is not defined before its use", at)
        return self.buffers[name]

    def _maybe(self, cursor: Cursor) -> Buffer | None:
        return None if cursor.accept("_") else self._use(cursor)

    # ports ------------------------------------------------------------------------------------------------------
    def _port(self) -> Port:
        name = self.cursor.string("the port's name")
        self.cursor.expect(":")
        type = parse_type(self.cursor)
        self.cursor.expect("=")
        return Port(name, type, self._use(self.cursor))

    def _check(self) -> Check:
        cursor = self.cursor
        node = cursor.label("node", "a node, such as @relu")
        at, relation = cursor.peek.at, cursor.string("a relation")
        if relation not in RELATIONS:
            raise cursor.error(f"unknown relation '{relation}', it is one of {', '.join(RELATIONS)}", at)
        dims = parse_list(cursor, parse_dim)
        if len(dims) != 2:
            raise cursor.error(f"expected two dims, found {len(dims)}", at)
        return Check(relation, dims[0], dims[1], node, cursor.string("what the node asks"))

    # kernels and steps ------------------------------------------------------------------------------------------
    def _kernel(self) -> None:
        at = self.cursor.peek.at
        name, spec = parse_spec(self.cursor)
        if name in self.kernels:
            raise self.cursor.error(f"kernel '{name}' is defined twice", at)
        self.kernels[name] = spec

    def _steps(self) -> list[Step]:
        steps: list[Step] = []
        self.cursor.expect("{")
        while not self.cursor.accept("}"):
            self.cursor.expect("step")
            steps.append(self._step())
        return steps

    def _step(self) -> Step:
        cursor = self.cursor
        at, kernel = cursor.peek.at, cursor.name("a kernel")
        if kernel not in self.kernels:
            raise cursor.error(f"kernel '{kernel}' is not defined before its use", at)
        cursor.expect("nodes")
        members = parse_list(cursor, lambda c: (c.label("node", "a node, such as @relu"), c.name("an operator")))
        nodes, ops = tuple(n for n, _ in members), tuple(op for _, op in members)
        step = Step(self.kernels[kernel], (), (), (), nodes, ops)
        seen: set[str] = set()
        cursor.expect("{")
        while not cursor.accept("}"):
            field = cursor.kind("name", "reads, writes, args, scratch, phases or work")
            if field.text in seen:
                raise cursor.error(f"'{field.text}' is given twice", field.at)
            seen.add(field.text)
            if field.text == "reads":
                step.reads = tuple(parse_list(cursor, self._region))
            elif field.text == "writes":
                step.writes = tuple(parse_list(cursor, self._region))
            elif field.text == "args":
                step.args = self._args(step.spec)
            elif field.text == "scratch":
                step.scratch = parse_dim(cursor)
                cursor.expect("bytes")
            elif field.text == "phases":
                step.phases = parse_int(cursor)
            elif field.text == "work":
                step.work = parse_dim(cursor)
            else:
                raise cursor.error(f"a step has no '{field.text}'", field.at)
        if len(step.args) != len(step.spec.words):
            raise cursor.error(f"the step has no args, kernel '{kernel}' takes {len(step.spec.words)}", at)
        return step

    def _region(self, cursor: Cursor) -> Region:
        return Region(self._use(cursor), *parse_extent(cursor, parse_dim))

    def _args(self, spec: KernelSpec) -> tuple[Arg, ...]:
        words = iter(spec.words)

        def arg(cursor: Cursor) -> Arg:
            at, word, expected = cursor.peek.at, cursor.name("a word's name"), next(words, None)
            if word != expected:
                wanted = "no further word" if expected is None else f"'{expected}'"
                raise cursor.error(f"expected {wanted} of the kernel's words, found '{word}'", at)
            cursor.expect("=")
            return self._arg(cursor)

        at, found = self.cursor.peek.at, parse_list(self.cursor, arg)
        if len(found) != len(spec.words):
            raise self.cursor.error(f"{len(found)} arguments for {len(spec.words)} words", at)
        return tuple(found)

    def _arg(self, cursor: Cursor) -> Arg:
        if cursor.peek.kind == "value":
            buffer = self._use(cursor)
            offset: Dim = parse_dim(cursor) if cursor.accept("+") else 0
            return Address(buffer, offset)
        if at_float(cursor):
            return Float(float(parse_call(cursor, lambda c: parse_float(c, FLOAT32))))
        return parse_dim(cursor)

    def _host(self) -> HostStep:
        cursor = self.cursor
        inputs = parse_list(cursor, self._maybe)
        captures = parse_list(cursor, self._use) if cursor.accept("captures") else []
        cursor.expect("writes")
        outputs = parse_list(cursor, self._maybe)
        cursor.expect("{")
        reason = cursor.string("the reason") if cursor.accept("reason") else ""
        at, graph = cursor.peek.at, self.graphs.graph()
        cursor.expect("}")
        counts = [(len(n.inputs), len(n.captures), len(n.outputs)) for n in graph]
        if counts != [(len(inputs), len(captures), len(outputs))]:
            raise cursor.error("the graph of a host step holds one node, with as many operands as the step", at)
        return HostStep(graph.nodes[0], tuple(inputs), tuple(captures), tuple(outputs), reason)
