"""Operators: one declaration each, grouped by theme; importing the package fills the table."""

from jitopt.ops import elementwise
from jitopt.ops.registry import find, operator_of, operators, register

__all__ = ["elementwise", "find", "operator_of", "operators", "register"]
