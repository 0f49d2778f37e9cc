"""Operators: one declaration each, grouped by theme; importing the package fills the table."""

from jitopt.ops import (
    activation,
    arrange,
    binary,
    cast,
    contrib,
    convolution,
    elementwise,
    gather,
    repeat,
    scatter,
    select,
    shape,
    slicing,
    suppression,
    variadic,
    views,
)
from jitopt.ops.registry import find, operator_of, operators, register

__all__ = [
    "activation",
    "arrange",
    "binary",
    "cast",
    "contrib",
    "convolution",
    "elementwise",
    "find",
    "gather",
    "operator_of",
    "operators",
    "register",
    "repeat",
    "scatter",
    "select",
    "shape",
    "slicing",
    "suppression",
    "variadic",
    "views",
]
