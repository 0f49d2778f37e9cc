"""Text of kernel specs, both ways, and what the text forms of programs, groups and plans have in common.

kernel k1: rows, 8 lanes {
  constants (axes = 1, direction = "horizontal")
  words (n0, length, x0_at, x0_0, s0_word, y0_at, y0_0)
  load x0: float32 unit
  load x1: float32 splat per row
  scalar s0: float32
  v0: float32 = reduce_sum(x0)
  v1: int64 = cast(x0, "int64")
  store y0: float32 unit per row = v0
}
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from jitopt.ir.dtypes import BY_NAME
from jitopt.ir.lexer import Cursor, bare, quote
from jitopt.ir.literals import float_text, parse_float
from jitopt.ir.text_dims import parse_int
from jitopt.lower.spec import Body, Constant, Instruction, KernelSpec, Operand, Scalar, Store

T = TypeVar("T")
WIDTH = 112
_PER_ROW = " per row"


# lists --------------------------------------------------------------------------------------------------------------
def list_lines(head: str, items: Iterable[str], tail: str = "") -> list[str]:
    """`head (a, b, c)tail`, on as many lines as it takes."""
    lines, line = [], f"{head} ("
    parts = list(items)
    for index, item in enumerate(parts):
        piece = item if index == len(parts) - 1 else f"{item},"
        if len(line) + len(piece) > WIDTH and not line.endswith("("):
            lines.append(line.rstrip())
            line = "  "
        line += piece + ("" if index == len(parts) - 1 else " ")
    return [*lines, f"{line}){tail}"]


def parse_list(cursor: Cursor, item: Callable[[Cursor], T]) -> list[T]:
    """What `list_lines` prints in parentheses."""
    found: list[T] = []
    cursor.expect("(")
    while not cursor.at(")"):
        found.append(item(cursor))
        if not cursor.accept(","):
            break
    cursor.expect(")")
    return found


def indented(lines: Iterable[str]) -> list[str]:
    return [f"  {line}" for line in lines]


def parse_pair(cursor: Cursor, item: Callable[[Cursor], T]) -> tuple[str, T]:
    """`name = item`"""
    name = cursor.name("a name")
    cursor.expect("=")
    return name, item(cursor)


# printing -----------------------------------------------------------------------------------------------------------
def spec_lines(name: str, spec: KernelSpec) -> list[str]:
    """The spec's text under a name that steps call it by."""
    lines: list[str] = []
    if spec.constants:
        lines += list_lines("constants", (f"{bare(k)} = {constant_text(v)}" for k, v in spec.constants))
    if spec.words:
        lines += list_lines("words", map(bare, spec.words))
    body = spec.body
    lines += [f"load {_operand_text(o)}" for o in body.loads]
    lines += [f"scalar {bare(s.name)}: {s.dtype}" for s in body.scalars]
    lines += [_instruction_text(i) for i in body.instructions]
    lines += [f"store {_operand_text(s.target)} = {bare(s.source)}" for s in body.stores]
    return [f"kernel {bare(name)}: {bare(spec.template)}, {spec.lanes} lanes {{", *indented(lines), "}"]


def constant_text(value: Constant) -> str:
    """A compiled-in constant."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return f"[{', '.join(map(constant_text, value))}]"
    if isinstance(value, str):
        return quote(value)
    return float_text(value) if isinstance(value, float) else str(int(value))


def _operand_text(operand: Operand) -> str:
    return f"{bare(operand.name)}: {operand.dtype} {bare(operand.inner)}{'' if operand.along else _PER_ROW}"


def _instruction_text(i: Instruction) -> str:
    args = ", ".join(a if a.startswith('"') else bare(a) for a in i.args)
    return f"{bare(i.result)}: {i.dtype} = {bare(i.formula)}({args})"


# parsing ------------------------------------------------------------------------------------------------------------
def parse_spec(cursor: Cursor) -> tuple[str, KernelSpec]:
    """A spec and its name; the next token is `kernel`. Raises ModelError with line and column."""
    cursor.expect("kernel")
    name = cursor.name("the kernel's name")
    cursor.expect(":")
    template = cursor.name("a template")
    cursor.expect(",")
    lanes = parse_int(cursor)
    cursor.expect("lanes")
    constants: list[tuple[str, Constant]] = []
    words: list[str] = []
    loads: list[Operand] = []
    scalars: list[Scalar] = []
    instructions: list[Instruction] = []
    stores: list[Store] = []
    cursor.expect("{")
    while not cursor.accept("}"):
        plain = not cursor.before(":")  # an instruction's result may have any name
        if plain and cursor.accept("constants"):
            constants += parse_list(cursor, lambda c: parse_pair(c, parse_constant))
        elif plain and cursor.accept("words"):
            words += parse_list(cursor, lambda c: c.name("a word's name"))
        elif plain and cursor.accept("load"):
            loads.append(_parse_operand(cursor))
        elif plain and cursor.accept("scalar"):
            scalars.append(Scalar(*_parse_typed(cursor, "a scalar")))
        elif plain and cursor.accept("store"):
            target = _parse_operand(cursor)
            cursor.expect("=")
            stores.append(Store(target, cursor.name("a value of the body")))
        else:
            instructions.append(_parse_instruction(cursor))
    body = Body(tuple(loads), tuple(scalars), tuple(instructions), tuple(stores))
    return name, KernelSpec(template, lanes, tuple(constants), body, tuple(words))


def parse_constant(cursor: Cursor) -> Any:
    """What `constant_text` prints."""
    if cursor.at("true", "false"):
        return cursor.take().text == "true"
    if cursor.peek.kind == "string":
        return cursor.string()
    if cursor.accept("["):
        items: list[Any] = []
        while not cursor.at("]"):
            items.append(parse_constant(cursor))
            if not cursor.accept(","):
                break
        cursor.expect("]")
        return tuple(items)
    negative = cursor.accept("-")
    written = cursor.peek.text
    if cursor.peek.kind == "number" and not any(c in written for c in ".e"):
        return -parse_int(cursor) if negative else parse_int(cursor)
    if cursor.peek.kind != "number" and not cursor.at("inf", "nan"):
        raise cursor.error(f"expected a constant, found {cursor.found()}")
    value = float(parse_float(cursor))
    return -value if negative else value


def _parse_typed(cursor: Cursor, what: str) -> tuple[str, str]:
    """`name: dtype`"""
    name = cursor.name(what)
    cursor.expect(":")
    token = cursor.kind("name", "an element type")
    if token.text not in BY_NAME:
        raise cursor.error(f"unknown element type '{token.text}'", token.at)
    return name, token.text


def _parse_operand(cursor: Cursor) -> Operand:
    name, dtype = _parse_typed(cursor, "an operand")
    inner = cursor.name("how the operand varies (unit, splat, strided)")
    along = not cursor.accept("per")
    if not along:
        cursor.expect("row")
    return Operand(name, dtype, inner, along)


def _parse_instruction(cursor: Cursor) -> Instruction:
    result, dtype = _parse_typed(cursor, "constants, words, load, scalar, store or an instruction's result")
    cursor.expect("=")
    formula = cursor.name("a formula")
    args = parse_list(cursor, lambda c: c.take().text if c.peek.kind == "string" else c.name("an argument"))
    return Instruction(result, formula, tuple(args), dtype)
