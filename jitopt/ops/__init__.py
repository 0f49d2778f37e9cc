"""Operators: one declaration each, grouped by theme; importing the package fills the table."""

from jitopt.ops.registry import find, operator_of, operators, register

__all__ = ["find", "operator_of", "operators", "register"]
