"""Pooling: MaxPool, AveragePool, LpPool and their global forms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jitopt.ir.dims import Shape
from jitopt.ir.graph import Node
from jitopt.ops import cases
from jitopt.ops.geometry import SLIDING, Window, all_at_least, ints, padded, per_axis, taps, window
from jitopt.ops.operator import Array, Attribute, Attrs, Kind, Operator, Param, Sample
from jitopt.ops.rules import require, shape_of, show
from jitopt.ops.signature import BYTES, REALS, declare, dtypes

SWITCH = Attribute("int", 0, choices=(0, 1))
POOL_ATTRIBUTES = {
    **SLIDING, "ceil_mode": SWITCH, "kernel_shape": Attribute("ints", required=True, check=all_at_least(1)),
}  # fmt: skip


def pool_window(attrs: Attrs, shape: Shape) -> Window:
    """The window over the spatial axes of an [N, C, spatial] tensor."""
    require(len(shape) >= 3, f"the input needs spatial axes, not {show(shape)}")
    kernel = per_axis(attrs.kernel_shape, 1, len(shape) - 2, "kernel_shape")
    return window(attrs, shape[2:], kernel, ceil=bool(attrs.ceil_mode))


def _rule(node: Node, attrs: Attrs) -> Sequence[Shape]:
    shape = shape_of(node)
    found = (*shape[:2], *pool_window(attrs, shape).out)
    return [found] * len(node.outputs)


# MaxPool ------------------------------------------------------------------------------------------------------------
def _max_pool(attrs: Attrs, x: Array) -> Any:
    win = pool_window(attrs, x.shape)
    lowest = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    xs = padded(x, win, lowest)
    best = np.full((*x.shape[:2], *ints(win.out)), lowest, x.dtype)
    if attrs.outputs == 1:
        for _, view in taps(xs, win):
            np.maximum(best, view, out=best)
        return best
    places = padded(_places(x, bool(attrs.storage_order)), win, -1)
    where = np.full(best.shape, -1, np.int64)
    for (_, view), (_, place) in zip(taps(xs, win), taps(places, win), strict=True):
        better = (view > best) | ((where < 0) & (place >= 0))
        best, where = np.where(better, view, best), np.where(better, place, where)
    return best, where


def _places(x: Array, column_major: bool) -> Array:
    """Index of every element in the whole tensor; `column_major` within its own image."""
    if not column_major:
        return np.arange(x.size, dtype=np.int64).reshape(x.shape)
    pixels = int(np.prod(x.shape[2:]))
    inside = np.arange(pixels, dtype=np.int64).reshape(x.shape[2:][::-1]).T
    images = np.arange(x.shape[0] * x.shape[1], dtype=np.int64) * pixels
    return images.reshape(*x.shape[:2], *(1,) * (x.ndim - 2)) + inside


def _pool_samples(**extra: Any) -> list[Sample]:
    x = cases.floats(2, 3, 7, 9)
    out = [
        cases.sample(x, kernel_shape=[3, 3], **extra),
        cases.sample(x, kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 1], **extra),
        cases.sample(x, kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1, **extra),
        cases.sample(x, kernel_shape=[3, 3], strides=[2, 3], pads=[1, 1, 1, 1], ceil_mode=1, **extra),
        cases.sample(cases.floats(1, 2, 11), kernel_shape=[3], strides=[2], **extra),
        cases.sample(cases.floats(1, 2, 4, 5, 6), kernel_shape=[2, 3, 2], strides=[1, 2, 2], **extra),
        cases.sample(x.astype("float64"), kernel_shape=[2, 2], **extra),
        cases.sample(cases.floats(0, 3, 7, 9), kernel_shape=[3, 3], **extra),
    ]
    for auto in ("SAME_UPPER", "SAME_LOWER", "VALID"):
        out.append(cases.sample(x, kernel_shape=[3, 2], strides=[2, 2], auto_pad=auto, **extra))
    return [*out, cases.sample(x, kernel_shape=[2, 3], dilations=[2, 2], **extra)]


def _max_samples() -> list[Sample]:
    x = cases.floats(2, 3, 7, 9)
    byte = cases.ints(1, 2, 5, 5, low=0, high=255, dtype="uint8")
    return [
        *_pool_samples(),
        cases.sample(x, kernel_shape=[3, 3], pads=[1, 1, 1, 1], outputs=2),
        cases.sample(x, kernel_shape=[2, 3], strides=[2, 2], outputs=2, opset=8),
        cases.sample(x, kernel_shape=[2, 2], storage_order=1, outputs=2),
        cases.sample(byte, kernel_shape=[2, 2]),
        cases.sample(byte.astype("int8"), kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
    ]


declare(
    "MaxPool", Kind.WINDOW, (Param("X", REALS | BYTES),),
    (Param("Y", REALS | BYTES), Param("Indices", dtypes("int64"), "I", optional=True)), _rule, _max_pool,
    since=(1, 8, 10, 11, 12, 22), attributes={**POOL_ATTRIBUTES, "storage_order": SWITCH}, samples=_max_samples,
)  # fmt: skip


# AveragePool, LpPool ------------------------------------------------------------------------------------------------
def _sums(x: Array, win: Window) -> Array:
    """Sums over every window; what lies outside the input counts as 0."""
    total = np.zeros((*x.shape[:2], *ints(win.out)), np.float64)
    for _, view in taps(padded(x, win, 0), win):
        total += view
    return total


def _average_pool(attrs: Attrs, x: Array) -> Array:
    """Means over the elements that lie in the input, or with count_include_pad in the padded input."""
    win = pool_window(attrs, x.shape)
    inside = np.ones((1, 1, *x.shape[2:]))
    if attrs.count_include_pad:
        edges = [(0, 0), (0, 0), *zip(ints(win.begin), ints(win.end), strict=True)]
        inside = np.pad(inside, edges, constant_values=1)
        zero = (0,) * len(win.out)
        win_counts = Window(win.kernel, win.strides, win.dilations, zero, zero, win.out)
        return np.asarray(_sums(x, win) / _sums(inside, win_counts))
    return np.asarray(_sums(x, win) / _sums(inside, win))


def _average_samples() -> list[Sample]:
    return _pool_samples() + _pool_samples(count_include_pad=1)


declare(
    "AveragePool", Kind.WINDOW, (Param("X", REALS),), (Param("Y", REALS),), _rule, _average_pool,
    since=(7, 10, 11, 19, 22), attributes={**POOL_ATTRIBUTES, "count_include_pad": SWITCH}, samples=_average_samples,
)  # fmt: skip


def _lp_pool(attrs: Attrs, x: Array) -> Array:
    win = pool_window(attrs, x.shape)
    return np.asarray(_sums(np.abs(x.astype(np.float64)) ** attrs.p, win) ** (1 / attrs.p))


POWER = Attribute("int", 2, check=lambda p: p >= 1)
declare(
    "LpPool", Kind.WINDOW, (Param("X", REALS),), (Param("Y", REALS),), _rule, _lp_pool, since=(2, 11, 18, 22),
    attributes={**POOL_ATTRIBUTES, "p": POWER}, samples=lambda: _pool_samples() + _pool_samples(p=3),
)  # fmt: skip


# global pools -------------------------------------------------------------------------------------------------------
def _global_rule(node: Node, attrs: Attrs) -> Sequence[Shape]:
    shape = shape_of(node)
    require(len(shape) >= 3, f"the input needs spatial axes, not {show(shape)}")
    return [(*shape[:2], *(1,) * (len(shape) - 2))]


def global_pool(name: str, since: tuple[int, ...], function: Callable[..., Any], **attributes: Attribute) -> Operator:
    """Declare a pool over all spatial axes: `function(x, axes, *attribute values)` keeps them with extent 1."""

    def reference(attrs: Attrs, x: Array) -> Array:
        axes = tuple(range(2, x.ndim))
        return np.asarray(function(x, axes, *(getattr(attrs, key) for key in attributes)))

    def samples() -> list[Sample]:
        xs = (cases.floats(2, 3, 7, 9), cases.floats(1, 2, 5), cases.floats(1, 2, 3, 4, 5))
        return [cases.sample(x) for x in xs] + [cases.sample(xs[0], **{key: 3}) for key in attributes]

    return declare(
        name, Kind.REDUCE, (Param("X", REALS),), (Param("Y", REALS),), _global_rule, reference, since=since,
        attributes=attributes, samples=samples,
    )  # fmt: skip


def _norm(x: Array, axes: tuple[int, ...], p: int) -> Array:
    return np.asarray(np.sum(np.abs(x.astype(np.float64)) ** p, axis=axes, keepdims=True) ** (1 / p))


global_pool("GlobalAveragePool", (1, 22), lambda x, axes: np.mean(x, axis=axes, keepdims=True, dtype=np.float64))
global_pool("GlobalMaxPool", (1, 22), lambda x, axes: np.max(x, axis=axes, keepdims=True))
global_pool("GlobalLpPool", (2, 22), _norm, p=POWER)
