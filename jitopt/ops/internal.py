"""Operators of our own, which passes introduce and no model file contains."""

from __future__ import annotations

from jitopt.ops.operator import Array, Attrs, Kind, Param
from jitopt.ops.rules import same_as_first
from jitopt.ops.signature import declare


def _same(attrs: Attrs, x: Array) -> Array:
    return x


# The same tensor in another memory layout: that of the output value (`Value.layout`).
declare("jitopt.Reorder", Kind.MOVE, [Param("X")], [Param("Y")], same_as_first, _same)
