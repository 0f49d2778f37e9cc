"""Loop nests over broadcast operands: which axes a kernel loops over, and how each operand moves along them.

Everything is computed on strides in elements, symbolically: an axis an operand does not vary along has stride 0, and
two neighbouring axes become one loop where every operand's strides allow it. So broadcasting, views and blocked
layouts need no cases of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jitopt.ir.dims import Dim, Shape, ceil_div, select_eq
from jitopt.ir.graph import Value

Strides = tuple[Dim, ...]


def physical_shape(shape: Shape, block: int) -> Shape:
    """The shape memory has: [N, C, spatial...] becomes [N, ceil(C/c), spatial..., c] for a blocked layout."""
    if not block:
        return shape
    return (shape[0], ceil_div(shape[1], block), *shape[2:], block)


def value_shape(value: Value) -> Shape:
    """Physical shape of a value under its layout."""
    return physical_shape(value.shape, value.layout.block)


def contiguous_strides(shape: Shape) -> Strides:
    """Strides in elements of a row-major array."""
    strides: list[Dim] = []
    step: Dim = 1
    for extent in reversed(shape):
        strides.append(step)
        step = step * extent
    return tuple(reversed(strides))


def placed_strides(shape: Shape, image: Dim | None) -> Strides:
    """Strides in elements of a row-major array whose images (along the first axis) lie `image` elements apart.

    None: they follow one another.
    """
    strides = contiguous_strides(shape)
    return strides if image is None else (image, *strides[1:])


def broadcast_strides(shape: Shape, domain: Shape, image: Dim | None = None) -> Strides:
    """Strides of an operand of `shape` seen over `domain` (NumPy's rule: right-aligned, 1 repeats).

    Its images lie `image` elements apart, as in `placed_strides`. Where it cannot be known whether an extent is 1, the
    stride is an expression that decides when shapes are bound.
    """
    padding = len(domain) - len(shape)
    strides: list[Dim] = [0] * padding
    for extent, full, stride in zip(shape, domain[padding:], placed_strides(shape, image), strict=True):
        if extent == full:
            strides.append(stride)
        else:
            strides.append(select_eq(extent, 1, 0, stride))
    return tuple(strides)


@dataclass(frozen=True, slots=True)
class Nest:
    """Merged loops: `extents` outermost first, per operand the strides (in elements) along them, and `first`, the axis
    each loop begins with."""

    extents: Shape
    strides: tuple[Strides, ...]
    first: tuple[int, ...]


def merge_axes(extents: Shape, strides: Sequence[Strides]) -> Nest:
    """Drop axes of extent 1 and join neighbours wherever every operand's stride continues."""
    out_extents: list[Dim] = []
    out_strides: list[list[Dim]] = [[] for _ in strides]
    first: list[int] = []
    for axis, extent in enumerate(extents):
        if extent == 1:
            continue
        here = [s[axis] for s in strides]
        joined = bool(out_extents) and all(
            outer[-1] == inner * extent for outer, inner in zip(out_strides, here, strict=True)
        )
        if joined:
            out_extents[-1] = out_extents[-1] * extent
            for outer, inner in zip(out_strides, here, strict=True):
                outer[-1] = inner
        else:
            out_extents.append(extent)
            first.append(axis)
            for outer, inner in zip(out_strides, here, strict=True):
                outer.append(inner)
    return Nest(tuple(out_extents), tuple(tuple(s) for s in out_strides), tuple(first))


def inner_kind(stride: Dim) -> str:
    """How an operand varies along a vectorised axis of that stride: "unit", "splat" or "strided"."""
    if stride == 1:
        return "unit"
    return "splat" if stride == 0 else "strided"
