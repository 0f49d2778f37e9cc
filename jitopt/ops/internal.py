"""Operators of our own, which the choice of layouts introduces and no model file contains."""

from __future__ import annotations

from jitopt.ops.operator import Array, Attribute, Attrs, Kind, Param
from jitopt.ops.rules import same_as_first
from jitopt.ops.signature import declare


def _same(attrs: Attrs, x: Array) -> Array:
    return x


def _shuffled(attrs: Attrs, x: Array) -> Array:
    n, channels, *spatial = x.shape
    return x.reshape(n, attrs.groups, channels // attrs.groups, *spatial).swapaxes(1, 2).reshape(x.shape)


# The same tensor in another memory layout: that of the output value (`Value.layout`).
declare("jitopt.Reorder", Kind.MOVE, [Param("X")], [Param("Y")], same_as_first, _same)
# Channel i * C / groups + j becomes channel j * groups + i.
declare(
    "jitopt.ChannelShuffle", Kind.MOVE, [Param("X")], [Param("Y")], same_as_first, _shuffled,
    attributes={"groups": Attribute("int", required=True)},
)  # fmt: skip
