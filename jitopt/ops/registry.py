"""The table of operators, filled by the modules of this package when `jitopt.ops` is imported."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from jitopt.errors import UnsupportedOperator
from jitopt.ir.graph import Node
from jitopt.ops.operator import Operator

_TABLE: dict[str, Operator] = {}


def register(operator: Operator) -> Operator:
    """Enter an operator under its qualified name ("Relu", "com.microsoft.Gelu"); a name is entered once."""
    if operator.name in _TABLE:
        raise ValueError(f"operator {operator.name} is declared twice")
    _TABLE[operator.name] = operator
    return operator


def find(name: str) -> Operator | None:
    return _TABLE.get(name)


def operator_of(node: Node) -> Operator:
    """The node's operator. Raises UnsupportedOperator with the nearest known names."""
    operator = _TABLE.get(node.op)
    if operator is None:
        near = difflib.get_close_matches(node.op, _TABLE, n=3)
        remedy = f"did you mean {', '.join(near)}?" if near else "see the table of operators in docs/operators.md"
        raise UnsupportedOperator(f"operator '{node.op}' is unknown", node=node.name, remedy=remedy)
    return operator


def operators() -> Iterator[Operator]:
    """All operators, by name."""
    return iter(sorted(_TABLE.values(), key=lambda o: o.name))
