"""Operators: one declaration each, grouped by theme; importing the package fills the table."""

from jitopt.ops import arrange, elementwise, views
from jitopt.ops.registry import find, operator_of, operators, register

__all__ = ["arrange", "elementwise", "find", "operator_of", "operators", "register", "views"]
