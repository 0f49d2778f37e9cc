"""Reads the text form of plans that `jitopt.runtime.text` prints."""

from __future__ import annotations

import numpy as np

from jitopt.ir.dtypes import FLOAT32
from jitopt.ir.lexer import Cursor
from jitopt.ir.literals import parse_float
from jitopt.ir.text_dims import parse_int
from jitopt.lower.text_regions import parse_extent
from jitopt.lower.text_spec import parse_list, parse_pair
from jitopt.runtime.text import FLAG_NAMES, Bits, Place, PlanBuffer, PlanRegion, PlanStep, PlanText, Word


def parse_plan(text: str) -> PlanText:
    """The plan that `print_plan` gave this text for, not verified. Raises ModelError with line and column."""
    cursor = Cursor(text)
    cursor.expect("plan")
    cursor.expect("of")
    program = cursor.string("the program's name")
    cursor.expect("segment")
    segment = parse_int(cursor)
    cursor.expect("{")
    cursor.expect("shapes")
    shapes = parse_list(cursor, lambda c: parse_pair(c, parse_int))
    cursor.expect("threads")
    nthreads = parse_int(cursor)
    cursor.expect("pool")
    pool_bytes = parse_int(cursor)
    cursor.expect("bytes")
    cursor.expect(",")
    cursor.expect("bound")
    lower_bound = parse_int(cursor)
    buffers: dict[str, PlanBuffer] = {}
    while cursor.accept("buffer"):
        at, buffer = cursor.peek.at, _buffer(cursor)
        if buffer.name in buffers:
            raise cursor.error(f"buffer '{buffer.name}' is defined twice", at)
        buffers[buffer.name] = buffer
    steps: list[PlanStep] = []
    while cursor.accept("step"):
        at, number = cursor.peek.at, parse_int(cursor)
        if number != len(steps):
            raise cursor.error(f"expected step {len(steps)}, found {number}", at)
        steps.append(_step(cursor, buffers))
    cursor.expect("}")
    if cursor.peek.kind != "end":
        raise cursor.error(f"unexpected {cursor.found()} after the plan")
    return PlanText(
        program, segment, tuple(shapes), nthreads, pool_bytes, lower_bound, tuple(buffers.values()), tuple(steps)
    )


def _buffer(cursor: Cursor) -> PlanBuffer:
    name = cursor.label("value", "the buffer's name, such as %x")
    cursor.expect(":")
    kind = cursor.name("the buffer's kind")
    cursor.expect(",")
    size = parse_int(cursor)
    cursor.expect("bytes")
    if not cursor.accept("at"):
        return PlanBuffer(name, kind, size)
    offset = parse_int(cursor)
    cursor.expect(",")
    cursor.expect("live")
    first = parse_int(cursor)
    cursor.expect("to")
    return PlanBuffer(name, kind, size, offset, (first, parse_int(cursor)))


def _step(cursor: Cursor, buffers: dict[str, PlanBuffer]) -> PlanStep:
    def use(c: Cursor) -> str:
        at, name = c.peek.at, c.label("value", "a buffer")
        if name not in buffers:
            raise c.error(f"buffer '{name}' is not defined before its use", at)
        return name

    def region(c: Cursor) -> PlanRegion:
        return PlanRegion(use(c), *parse_extent(c, parse_int))

    def word(c: Cursor) -> Word:
        if c.peek.kind == "value":
            return Place(use(c), _integer(c) if c.accept("+") else 0)
        return _float(c) if c.at("float") else _integer(c)

    kernel = cursor.name("a kernel")
    phase = parse_int(cursor) if cursor.accept("phase") else 0
    flags = sum(set(parse_list(cursor, _flag))) if cursor.accept("flags") else 0
    cursor.expect("nodes")
    nodes = parse_list(cursor, lambda c: c.label("node", "a node, such as @relu"))
    cursor.expect("{")
    scratch = (0, 0)
    if cursor.accept("scratch"):
        size = parse_int(cursor)
        cursor.expect("bytes")
        cursor.expect("at")
        scratch = parse_int(cursor), size
    cursor.expect("reads")
    reads = parse_list(cursor, region)
    cursor.expect("writes")
    writes = parse_list(cursor, region)
    cursor.expect("words")
    words = parse_list(cursor, lambda c: parse_pair(c, word))
    cursor.expect("}")
    return PlanStep(kernel, phase, flags, tuple(nodes), scratch, tuple(reads), tuple(writes), tuple(words))


def _flag(cursor: Cursor) -> int:
    at, name = cursor.peek.at, cursor.name("a flag")
    for flag, known in FLAG_NAMES.items():
        if name == known:
            return flag
    raise cursor.error(f"unknown flag '{name}', it is one of {', '.join(FLAG_NAMES.values())}", at)


def _integer(cursor: Cursor) -> int:
    return -parse_int(cursor) if cursor.accept("-") else parse_int(cursor)


def _float(cursor: Cursor) -> Bits:
    cursor.expect("float")
    cursor.expect("(")
    value = np.float32(parse_float(cursor, FLOAT32))
    cursor.expect(")")
    return Bits(int(value.view(np.uint32)))
