"""The verifier of programs: what binding and the driver rely on, checked once after lowering."""

from __future__ import annotations

from collections.abc import Iterable

from jitopt.errors import CompileError
from jitopt.ir.bounds import nonnegative
from jitopt.ir.dims import Dim, Expr, symbols
from jitopt.ir.types import TensorType, Type
from jitopt.lower.program import (
    CONSTANT,
    HOST,
    INPUT,
    OUTPUT,
    POOL,
    TABLE,
    Address,
    Buffer,
    Float,
    HostStep,
    Program,
    Segment,
    Step,
)  # fmt: skip
from jitopt.lower.spec import KernelSpec, Scalar
from jitopt.lower.tables import FILLS
from jitopt.lower.verifier_bytes import contained, empty, inside
from jitopt.lower.verifier_spec import is_address, stored_words, verify_spec
from jitopt.lower.verifier_strides import loops_of

_READ_ONLY = {CONSTANT: "a constant", TABLE: "a table", INPUT: "an input"}


def verify_program(program: Program) -> None:
    """Check a program.

    Specs are sound (`verify_spec`); a step has an argument of the right kind for each of its kernel's words; its reads
    and writes name every buffer it addresses, and what its kernel stores to is among the writes; the bytes they name
    lie within the buffers; buffers are written before they are read; constants, tables and inputs are never written;
    outputs are; sizes and scratch are not negative for all extents; expressions read no symbol that has no value by
    then; pool buffers stay within one segment, and host steps outside the pool; constants have their bytes and tables a
    known kind.

    Raises CompileError naming step, node and buffer.
    """
    try:
        _Verifier(program).run()
    except CompileError as error:
        error.at(model=program.name)
        raise


class _Verifier:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.sound: set[KernelSpec] = set()
        self.seen: set[Buffer] = set()
        self.written: set[Buffer] = set()
        self.home: dict[Buffer, int] = {}
        self.known: set[str] = set()  # symbols that have values
        self.evaluable: set[Expr] = set()

    def run(self) -> None:
        for kind, ports in (("input", self.program.inputs), ("output", self.program.outputs)):
            names = [port.name for port in ports]
            for name in names:
                if names.count(name) > 1:
                    raise CompileError(f"two {kind}s have the name '{name}'")
        for port in self.program.inputs:
            if port.buffer.kind != INPUT:
                raise CompileError(f"input '{port.name}' lies in {port.buffer}")
            self.written.add(port.buffer)
            self.known.update(name for d in _extents(port.type) for name in symbols(d))
        number = 0
        for index, part in enumerate(self.program.parts):
            if isinstance(part, Segment):
                for step in part.steps:
                    try:
                        self._step(step, index)
                    except CompileError as error:
                        message = f"step {number} ({step.spec.template}, {step.label}): {error.message}"
                        raise CompileError(message, node=step.nodes[0] if step.nodes else None) from None
                    number += 1
            else:
                try:
                    self._host(part)
                except CompileError as error:
                    raise CompileError(f"host step: {error.message}", node=part.node.name) from None
        self._outputs()

    def _outputs(self) -> None:
        carried = {port.buffer for port in self.program.outputs}
        for port in self.program.outputs:
            self._read(port.buffer, f"output '{port.name}' is")
            if port.buffer.kind == POOL:
                raise CompileError(f"output '{port.name}' lies in the pool, which the next run writes over")
        for buffer in self.seen:
            if buffer.kind == OUTPUT and buffer not in carried:
                raise CompileError(f"buffer '{buffer.name}' is an output's, but no output carries it")

    # buffers ----------------------------------------------------------------------------------------------------
    def _buffer(self, buffer: Buffer) -> None:
        """A buffer by itself, at first sight."""
        if buffer in self.seen:
            return
        self.seen.add(buffer)
        _not_negative(buffer.size, f"the size of buffer '{buffer.name}'")
        if (buffer.array is None) == (buffer.kind == CONSTANT) or (buffer.table is None) == (buffer.kind == TABLE):
            raise CompileError(f"buffer '{buffer.name}' is {buffer.kind}, but does not hold what that kind holds")
        if buffer.array is not None and buffer.array.nbytes != buffer.size:
            raise CompileError(
                f"constant '{buffer.name}' holds {buffer.array.nbytes} bytes, its size is {buffer.size}"
            )  # fmt: skip
        if buffer.table is not None:
            if buffer.table.kind not in FILLS:
                raise CompileError(f"table '{buffer.name}' is of the unknown kind '{buffer.table.kind}'")
            if any(arg is None for arg in buffer.table.args):
                raise CompileError(f"an argument of table '{buffer.name}' is not known")

    def _read(self, buffer: Buffer, subject: str) -> None:
        self._buffer(buffer)
        if buffer.kind not in (CONSTANT, TABLE) and buffer not in self.written:
            raise CompileError(f"{subject} '{buffer.name}' ({buffer.kind}), which nothing has written before")

    def _write(self, buffer: Buffer) -> None:
        self._buffer(buffer)
        if buffer.kind in _READ_ONLY:
            raise CompileError(f"writes buffer '{buffer.name}', which is {_READ_ONLY[buffer.kind]}")
        self.written.add(buffer)

    # parts ------------------------------------------------------------------------------------------------------
    def _step(self, step: Step, part: int) -> None:
        if step.spec not in self.sound:
            verify_spec(step.spec)
            self.sound.add(step.spec)
        if len(step.args) != len(step.spec.words):
            raise CompileError(f"{len(step.args)} arguments for {len(step.spec.words)} words")
        if not step.nodes or len(step.nodes) != len(step.ops):
            raise CompileError(f"{len(step.nodes)} nodes of {len(step.ops)} operators")
        if step.phases < 1:
            raise CompileError(f"{step.phases} phases")
        _not_negative(step.scratch, "the scratch")
        _arguments(step)
        for arg in step.args:
            self._evaluable(arg.offset if isinstance(arg, Address) else arg)
        regions = (*step.reads, *step.writes)
        for d in (step.scratch, step.work, *(d for r in regions for d in (*r.dims, r.buffer.size))):
            self._evaluable(d)
        for region in step.reads:
            self._read(region.buffer, "reads")
        for region in step.writes:
            self._write(region.buffer)
        for region in regions:
            contained(region)
            if region.buffer.kind == POOL and self.home.setdefault(region.buffer, part) != part:
                raise CompileError(f"pool buffer '{region.buffer.name}' is used by another segment, too")

    def _evaluable(self, d: object) -> None:
        """Refuse an expression whose symbols do not all have values when the segment is bound."""
        if isinstance(d, Expr) and d not in self.evaluable:
            missing = sorted(symbols(d) - self.known)
            if missing:
                raise CompileError(f"the extent '{missing[0]}' in {d} is not known yet")
            self.evaluable.add(d)

    def _host(self, step: HostStep) -> None:
        node = step.node
        if len(node.graph) != 1:
            raise CompileError(f"the node stands in a graph of {len(node.graph)} nodes, not in one of its own")
        given = (len(step.inputs), len(step.captures), len(step.outputs))
        if given != (len(node.inputs), len(node.captures), len(node.outputs)):
            raise CompileError(f"{given} buffers for the node's inputs, captures and outputs")
        for buffer in step.buffers():
            if buffer.kind == POOL:
                raise CompileError(f"uses buffer '{buffer.name}', which lies in the pool")
        for buffer in _present(*step.inputs, *step.captures):
            self._read(buffer, "reads")
        for buffer in _present(*step.outputs):
            self._write(buffer)
            if buffer.kind not in (HOST, OUTPUT):
                raise CompileError(f"writes buffer '{buffer.name}' of kind {buffer.kind}")
        for value in node.outputs:
            self.known.update(str(d) for d in _extents(value.type) if isinstance(d, Expr) and symbols(d) == {str(d)})


def _extents(type: Type | None) -> tuple[Dim, ...]:
    return (type.shape or ()) if isinstance(type, TensorType) else ()


def _present(*buffers: Buffer | None) -> Iterable[Buffer]:
    return (b for b in buffers if b is not None)


def _not_negative(d: Dim, what: str) -> None:
    """Refuse what is negative for certain; an expression that can be either is taken."""
    if nonnegative(-1 - d):
        raise CompileError(f"{what} is negative: {d}")


def _arguments(step: Step) -> None:
    """Kinds of the arguments, and that reads and writes name all buffers."""
    spec = step.spec
    written = {r.buffer for r in step.writes}
    known = {*(r.buffer for r in step.reads), *written}
    touched = {r.buffer for r in (*step.reads, *step.writes) if not empty(r)}
    words = dict(zip(spec.words, step.args, strict=True))
    stored = set(stored_words(spec))
    scalars = {f"{s.name}_word": s for s in spec.body.scalars}
    for word, arg in zip(spec.words, step.args, strict=True):
        if isinstance(arg, Address):
            if word in scalars:
                raise CompileError(f"scalar '{word}' is given the address of '{arg.buffer.name}'")
            if arg.buffer not in known:
                raise CompileError(f"argument '{word}' addresses '{arg.buffer.name}', which it does not say it reads")
            if word in stored and arg.buffer not in written:
                raise CompileError(f"stores to '{arg.buffer.name}' by '{word}', but does not say it writes it")
            if arg.buffer in touched and all(loop.extent != 0 for loop in loops_of(word, words)):
                inside(word, arg)
        elif is_address(word):
            raise CompileError(f"argument '{word}' must be an address, it is {arg!r}")
        elif word in scalars:
            _scalar(word, scalars[word], arg)
        elif not (isinstance(arg, Float) or type(arg) is int or isinstance(arg, Expr)):
            raise CompileError(f"argument '{word}' is {arg!r}, neither a dimension nor an address")


def _scalar(word: str, scalar: Scalar, arg: object) -> None:
    if isinstance(arg, Float) != (scalar.dtype == "float32"):
        raise CompileError(f"argument '{word}' of a {scalar.dtype} scalar is {arg!r}")
