"""Text of dimensions and types, both ways."""

from __future__ import annotations

from collections.abc import Callable

from jitopt.ir.dims import Atom, Dim, Expr, dim_max, dim_min, floor_div, modulo, select_eq, symbol
from jitopt.ir.dtypes import BY_NAME
from jitopt.ir.lexer import Cursor, bare, quote
from jitopt.ir.types import OptionalType, SequenceType, TensorType, Type

_CALLS: dict[str, Callable[..., Dim]] = {"min": dim_min, "max": dim_max, "select_eq": select_eq}
_MARKS = {"floordiv": "//", "mod": "%"}


def dim_text(d: Dim) -> str:
    """A dimension, such that `parse_dim` gives the same object."""
    if isinstance(d, int):
        return str(d)
    atom = _sole(d)
    if atom is not None and atom.op in _MARKS:
        return _atom_text(atom)[1:-1]
    text = ""
    for monomial, coefficient in d.terms:
        factors = [_atom_text(atom) for atom in monomial]
        if not factors or abs(coefficient) != 1:
            factors.insert(0, str(abs(coefficient)))
        sign = (" - " if coefficient < 0 else " + ") if text else ("-" if coefficient < 0 else "")
        text += sign + "*".join(factors)
    return text


def _atom_text(atom: Atom) -> str:
    if atom.op == "symbol":
        name = atom.args[0]
        return quote(name) if name in _CALLS else bare(name)
    if atom.op in _MARKS:
        return f"({_operand(atom.args[0])} {_MARKS[atom.op]} {_operand(atom.args[1])})"
    return f"{atom.op}({', '.join(map(dim_text, atom.args))})"


def _sole(d: Expr) -> Atom | None:
    """The atom an expression consists of, None for products and sums."""
    return d.terms[0][0][0] if len(d.terms) == 1 and d.terms[0][1] == 1 and len(d.terms[0][0]) == 1 else None


def _operand(d: Dim) -> str:
    """Products, sums and negative numbers stand in parentheses."""
    if isinstance(d, int):
        return str(d) if d >= 0 else f"({d})"
    atom = _sole(d)
    return f"({dim_text(d)})" if atom is None else _atom_text(atom)


def parse_dim(cursor: Cursor) -> Dim:
    """sum := product (('+' | '-') product)*"""
    total = parse_product(cursor)
    while cursor.at("+", "-"):
        sign = 1 if cursor.take().text == "+" else -1
        total = total + sign * parse_product(cursor)
    return total


def parse_product(cursor: Cursor) -> Dim:
    """product := factor (('*' | '//' | '%') factor)*"""
    out = _factor(cursor)
    while cursor.at("*", "//", "%"):
        mark = cursor.take()
        right = _factor(cursor)
        if mark.text == "*":
            out = out * right
        elif isinstance(right, int) and right == 0:
            raise cursor.error("division by zero", mark.at)
        else:
            out = floor_div(out, right) if mark.text == "//" else modulo(out, right)
    return out


def _factor(cursor: Cursor) -> Dim:
    if cursor.accept("-"):
        return -_factor(cursor)
    if cursor.accept("("):
        inner = parse_dim(cursor)
        cursor.expect(")")
        return inner
    if cursor.peek.kind == "number":
        return parse_int(cursor)
    quoted = cursor.peek.kind == "string"
    name = cursor.name("a dimension")
    if quoted or name not in _CALLS or not cursor.at("("):
        return symbol(name)
    start = cursor.expect("(")
    args = [parse_dim(cursor)]
    while cursor.accept(","):
        args.append(parse_dim(cursor))
    cursor.expect(")")
    if name == "select_eq" and len(args) != 4:
        raise cursor.error(f"select_eq takes 4 operands, {len(args)} are given", start.at)
    return _CALLS[name](*args)


def parse_int(cursor: Cursor) -> int:
    """An unsigned integer, decimal or hexadecimal."""
    token = cursor.kind("number", "an integer")
    try:
        return int(token.text, 0)
    except ValueError:
        raise cursor.error(f"expected an integer, found '{token.text}'", token.at) from None


def type_text(type: Type) -> str:
    if isinstance(type, TensorType):
        return f"{type.dtype}[{'*' if type.shape is None else ', '.join(map(dim_text, type.shape))}]"
    kind = "seq" if isinstance(type, SequenceType) else "optional"
    return f"{kind}({type_text(type.element)})"


def parse_type(cursor: Cursor) -> Type:
    token = cursor.kind("name", "a type")
    if token.text in ("seq", "optional"):
        cursor.expect("(")
        element = parse_type(cursor)
        cursor.expect(")")
        return SequenceType(element) if token.text == "seq" else OptionalType(element)
    if token.text not in BY_NAME:
        raise cursor.error(f"unknown type '{token.text}'", token.at)
    cursor.expect("[")
    shape: list[Dim] | None = []
    if cursor.accept("*"):
        shape = None
    elif not cursor.at("]"):
        shape = [parse_dim(cursor)]
        while cursor.accept(","):
            shape.append(parse_dim(cursor))
    cursor.expect("]")
    return TensorType(BY_NAME[token.text], None if shape is None else tuple(shape))


def parse_dim_text(text: str) -> Dim:
    """A dimension that stands alone. Raises ModelError with its column."""
    cursor = Cursor(text)
    found = parse_dim(cursor)
    if cursor.peek.kind != "end":
        raise cursor.error(f"unexpected {cursor.found()}")
    return found


def parse_type_text(text: str) -> Type:
    """A type that stands alone."""
    cursor = Cursor(text)
    found = parse_type(cursor)
    if cursor.peek.kind != "end":
        raise cursor.error(f"unexpected {cursor.found()}")
    return found
