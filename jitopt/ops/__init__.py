"""Operators: one declaration each, grouped by theme; importing the package fills the table."""

from jitopt.ops import activation, arrange, binary, cast, contrib, elementwise, gather, shape, slicing, views
from jitopt.ops.registry import find, operator_of, operators, register

__all__ = [
    "activation",
    "arrange",
    "binary",
    "cast",
    "contrib",
    "elementwise",
    "find",
    "gather",
    "operator_of",
    "operators",
    "register",
    "shape",
    "slicing",
    "views",
]
