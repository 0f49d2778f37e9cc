"""Importing this module registers every kernel template, in the order they are asked."""

from jitopt.lower import contraction, convolution, lrn, movement, pointwise, pooling, resizing, rows

__all__ = ["contraction", "convolution", "lrn", "movement", "pointwise", "pooling", "resizing", "rows"]
