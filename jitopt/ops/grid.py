"""Sampling at given positions: GridSample, and AffineGrid, which makes them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from jitopt.errors import ModelError
from jitopt.ir.dims import Dim, Shape
from jitopt.ir.graph import Graph, Node
from jitopt.ops import cases
from jitopt.ops.contents import fresh, known_dims
from jitopt.ops.operator import Array, Attribute, Attrs, Kind, Param, Sample
from jitopt.ops.reduction import SWITCH
from jitopt.ops.rules import UnknownRank, require, same, shape_of, show
from jitopt.ops.sampling import cubic
from jitopt.ops.signature import PLAIN, REALS, declare, dtypes

_CUBIC_A = -0.75


# GridSample ---------------------------------------------------------------------------------------------------------
def _rule(node: Node, attrs: Attrs) -> Sequence[Shape]:
    x, grid = shape_of(node, 0), shape_of(node, 1)
    require(len(x) >= 3 and len(x) == len(grid), f"input {show(x)} and grid {show(grid)} need one rank, at least 3")
    same(grid[-1], len(x) - 2, "the grid's last axis and the number of spatial axes differ")
    if attrs.mode == "cubic" and len(x) != 4:
        raise ModelError(f"cubic sampling is defined for two spatial axes, not {len(x) - 2}")
    return [(same(x[0], grid[0], "the batches of input and grid differ"), x[1], *grid[1:-1])]


def _reflected(x: Array, low: float, high: float) -> Array:
    """Positions folded back into [low, high]."""
    if high <= low:
        return np.zeros_like(x)
    span = high - low
    offset = np.mod(x - low, 2 * span)
    return np.asarray(low + np.where(offset > span, 2 * span - offset, offset))


def _bounds(extent: int, corners: bool) -> tuple[float, float]:
    """The ends of an axis: the centres of the outermost elements, or their outer edges."""
    return (0.0, extent - 1.0) if corners else (-0.5, extent - 0.5)


def _position(grid: Array, extent: int, attrs: Attrs) -> Array:
    """Positions in elements from positions in [-1, 1]; reflected where the node says so."""
    corners = bool(attrs.align_corners)
    at = (grid + 1) / 2 * (extent - 1) if corners else ((grid + 1) * extent - 1) / 2
    at = np.asarray(np.rint(at) if attrs.mode == "nearest" else at)
    return _reflected(at, *_bounds(extent, corners)) if attrs.padding_mode == "reflection" else at


def _axis_taps(at: Array, extent: int, attrs: Attrs) -> list[tuple[Array, Array]]:
    """(index, weight) of every tap along one axis; a tap outside has weight 0 under zero padding."""
    base = np.floor(at)
    offsets = {"nearest": (0,), "linear": (0, 1), "cubic": (-1, 0, 1, 2)}[attrs.mode]
    taps = []
    for offset in offsets:
        place = at if attrs.mode == "nearest" else base + offset
        distance = np.abs(at - place)
        if attrs.mode == "nearest":
            weight = np.ones_like(at)
        else:
            weight = cubic(distance, _CUBIC_A) if attrs.mode == "cubic" else np.clip(1 - distance, 0, None)
        if attrs.padding_mode == "zeros":
            weight = np.where((place >= 0) & (place <= extent - 1), weight, 0.0)
        elif attrs.padding_mode == "reflection":
            place = _reflected(place, *_bounds(extent, bool(attrs.align_corners)))
        taps.append((np.clip(np.nan_to_num(place), 0, extent - 1).astype(np.int64), weight))
    return taps


def _grid_sample(attrs: Attrs, x: Array, grid: Array) -> Array:
    count = x.ndim - 2
    wide = grid.astype(np.float64)
    along = [
        _axis_taps(_position(wide[..., count - 1 - i], x.shape[2 + i], attrs), x.shape[2 + i], attrs)
        for i in range(count)
    ]
    batch = np.arange(x.shape[0]).reshape(-1, *(1,) * count)
    total = np.zeros((*grid.shape[:-1], x.shape[1]), np.float64)
    for taps in product(*along):
        index: tuple[Any, ...] = (batch, slice(None), *(place for place, _ in taps))
        weight = np.prod(np.stack([w for _, w in taps]), axis=0)
        total += weight[..., None] * x[index]
    return np.moveaxis(total, -1, 1)


def _modes_renamed(graph: Graph, node: Node) -> None:
    """Before opset 20 the modes were named for two spatial axes."""
    names = {"bilinear": "linear", "bicubic": "cubic"}
    mode = node.attrs.get("mode", "bilinear")
    node.attrs["mode"] = names.get(mode, mode)


def _samples() -> list[Sample]:
    x, grid = cases.floats(2, 3, 5, 6), cases.floats(2, 4, 3, 2, low=-1.4, high=1.4, seed=1)
    out: list[Sample] = []
    for mode, old in (("linear", "bilinear"), ("nearest", "nearest"), ("cubic", "bicubic")):
        for padding in ("zeros", "border", "reflection"):
            for corners in (0, 1):
                rest: dict[str, Any] = {"padding_mode": padding, "align_corners": corners}
                out += [cases.sample(x, grid, mode=mode, **rest), cases.sample(x, grid, mode=old, opset=16, **rest)]
    deep, deep_grid = cases.floats(1, 2, 3, 4, 5), cases.floats(1, 2, 3, 4, 3, low=-1.2, high=1.2)
    return [*out, *(cases.sample(deep, deep_grid, mode=m, align_corners=1) for m in ("linear", "nearest"))]


declare(
    "GridSample", Kind.WINDOW, (Param("X", PLAIN | REALS, "T1"), Param("grid", REALS, "T2")),
    (Param("Y", PLAIN | REALS, "T1"),), _rule, _grid_sample, since=(16, 20, 22), upgrades=((20, _modes_renamed),),
    samples=_samples,
    attributes={
        "align_corners": SWITCH, "mode": Attribute("string", "linear", choices=("linear", "nearest", "cubic")),
        "padding_mode": Attribute("string", "zeros", choices=("zeros", "border", "reflection")),
    },
)  # fmt: skip


# AffineGrid ---------------------------------------------------------------------------------------------------------
def _affine_rule(node: Node, attrs: Attrs) -> Sequence[Shape]:
    theta, size = shape_of(node, 0), known_dims(node, 1)
    require(len(theta) == 3, f"theta must be [N, 2, 3] or [N, 3, 4], not {show(theta)}")
    axes = theta[1]
    count = len(size) - 2 if size is not None else axes if isinstance(axes, int) else None
    if count is None:
        raise UnknownRank
    require(count in (2, 3), f"{count} spatial axes, 2 or 3 are defined")
    same(axes, count, "theta and size differ in spatial axes")
    dims: list[Dim] = list(size[2:]) if size is not None else [fresh(node, i) for i in range(1, count + 1)]
    return [(theta[0], *dims, count)]


def _affine_grid(attrs: Attrs, theta: Array, size: Array) -> Array:
    """theta times the homogeneous positions of an even grid over [-1, 1], x first."""
    extents = [int(d) for d in size[2:]]
    axes = []
    for extent in extents:
        steps = np.arange(extent, dtype=np.float64)
        axes.append(steps * 2 / max(extent - 1, 1) - 1 if attrs.align_corners else (2 * steps + 1) / extent - 1)
    mesh = np.meshgrid(*axes, indexing="ij")
    points = np.stack([*mesh[::-1], np.ones(extents)], axis=-1).reshape(-1, len(extents) + 1)
    found = np.matmul(points, theta.astype(np.float64).transpose(0, 2, 1))
    return np.reshape(found, (-1, *extents, len(extents)))


def _affine_samples() -> list[Sample]:
    flat, deep = cases.floats(2, 2, 3), cases.floats(1, 3, 4)
    return [
        cases.sample(theta, cases.vector(*size), align_corners=corners)
        for theta, size in ((flat, (2, 3, 4, 5)), (deep, (1, 2, 3, 4, 5)))
        for corners in (0, 1)
    ]


declare(
    "AffineGrid", Kind.OPAQUE, (Param("theta", REALS, "T1"), Param("size", dtypes("int64"), "T2")),
    (Param("grid", REALS, "T1"),), _affine_rule, _affine_grid, since=(20,), attributes={"align_corners": SWITCH},
    samples=_affine_samples,
)  # fmt: skip
