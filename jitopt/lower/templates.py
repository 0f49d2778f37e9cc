"""Importing this module registers every kernel template, in the order they are asked."""

from jitopt.lower import contraction, movement, pointwise, rows

__all__ = ["contraction", "movement", "pointwise", "rows"]
