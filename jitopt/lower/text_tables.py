"""Text of tables, both ways: `elements("int64", n, 12)`, with dimensions, strings and floats as `float(0.5)`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from jitopt.ir.dims import Dim
from jitopt.ir.lexer import Cursor, bare, quote
from jitopt.ir.literals import float_text, parse_float
from jitopt.ir.text_dims import dim_text, parse_dim
from jitopt.lower.tables import FILLS, Table
from jitopt.lower.text_spec import parse_list

T = TypeVar("T")


def table_text(table: Table) -> str:
    """The table as a call of its kind."""
    return f"{bare(table.kind)}({', '.join(map(_arg_text, table.args))})"


def _arg_text(arg: Any) -> str:
    if isinstance(arg, str):
        return quote(arg)
    if isinstance(arg, (float, np.floating)):
        return f"float({float_text(float(arg))})"
    text = plain_dim_text(arg)
    return f"({text})" if text.startswith('"') else text  # a quoted symbol is no string


def plain_dim_text(d: Dim) -> str:
    """A dimension; contents of shape tensors hold NumPy's integers and truth values, too."""
    return dim_text(int(d) if isinstance(d, (bool, np.bool_, np.integer)) else d)


def parse_table(cursor: Cursor) -> Table:
    """What `table_text` prints. Raises ModelError with line and column, also for an unknown kind."""
    at, kind = cursor.peek.at, cursor.name("a kind of table")
    if kind not in FILLS:
        raise cursor.error(f"unknown kind of table '{kind}', it is one of {', '.join(FILLS)}", at)
    return Table(kind, tuple(parse_list(cursor, _parse_arg)))


def _parse_arg(cursor: Cursor) -> Any:
    if cursor.peek.kind == "string":
        return cursor.string()
    return float(parse_call(cursor, parse_float)) if at_float(cursor) else parse_dim(cursor)


def at_float(cursor: Cursor) -> bool:
    """Whether `float(...)` comes next; a symbol may have the name, too."""
    return cursor.at("float") and cursor.before("(")


def parse_call(cursor: Cursor, item: Callable[[Cursor], T]) -> T:
    """The one argument of a call."""
    cursor.take()
    cursor.expect("(")
    found = item(cursor)
    cursor.expect(")")
    return found
