"""Importing this module registers every kernel template, in the order they are asked."""

from jitopt.lower import (
    batchnorm,
    contraction,
    convolution,
    convolution_kinds,
    convolution_winograd,
    lrn,
    movement,
    pointwise,
    pooling,
    resizing,
    rows,
    shuffle,
)

__all__ = [
    "batchnorm",
    "contraction",
    "convolution",
    "convolution_kinds",
    "convolution_winograd",
    "lrn",
    "movement",
    "pointwise",
    "pooling",
    "resizing",
    "rows",
    "shuffle",
]
