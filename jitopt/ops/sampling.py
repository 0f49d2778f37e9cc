"""Resampling of one axis: where every output position falls on the input, and the taps it is interpolated from.

Coordinates are computed in float32, as ONNX Runtime does: at a tie a wider type would choose another pixel.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from jitopt.ops.operator import Array


@dataclass(frozen=True)
class Axis:
    """One axis to resample: extents, scale factor (out / in, as the model states it), region of interest."""

    extent: int
    out: int
    scale: float
    roi: tuple[float, float] = (0.0, 1.0)


@dataclass(frozen=True)
class Taps:
    """`index` and `weight` are [out, taps]; `outside` tells the positions that take the extrapolation value."""

    index: Array
    weight: Array
    outside: Array


def coordinates(axis: Axis, mode: str) -> Array:
    """Positions on the input (float32, may lie outside it) of the centres of the output's elements."""
    x = np.arange(axis.out, dtype=np.float32)
    scale, half, last = np.float32(axis.scale), np.float32(0.5), np.float32(axis.extent - 1)
    if mode == "asymmetric":
        return np.asarray(x / scale)
    if mode == "align_corners":
        return x * np.float32(0) if axis.out == 1 else np.asarray(x * last / np.float32(axis.out - 1))
    if mode == "tf_half_pixel_for_nn":
        return np.asarray((x + half) / scale)
    if mode == "tf_crop_and_resize":
        start, end = np.float32(axis.roi[0]), np.float32(axis.roi[1])
        if axis.out == 1:
            return np.full(1, half * (start + end) * last, np.float32)
        return np.asarray(start * last + x * (end - start) * last / np.float32(axis.out - 1))
    if mode == "pytorch_half_pixel" and axis.out == 1:
        return np.zeros(1, np.float32)
    found = (x + half) / scale - half
    if mode == "half_pixel_symmetric":
        exact = scale * np.float32(axis.extent)
        found = found + np.float32(axis.extent / 2) * (1 - np.float32(axis.out) / exact)
    return np.asarray(found)


def nearest(x: Array, mode: str, extent: int) -> Array:
    """The element each position takes, within the input."""
    half = np.float32(0.5)
    rounded = {
        "round_prefer_floor": lambda: np.ceil(x - half),
        "round_prefer_ceil": lambda: np.floor(x + half),
        "floor": lambda: np.floor(x),
        "ceil": lambda: np.ceil(x),
    }[mode]()
    return np.clip(rounded, 0, extent - 1).astype(np.int64)


def linear_taps(x: Array, axis: Axis) -> Taps:
    """The two elements on either side; beyond the ends the last one."""
    inside = np.clip(x, 0, axis.extent - 1)
    low = np.minimum(np.floor(inside).astype(np.int64), axis.extent - 1)
    share = (inside - low).astype(np.float64)
    index = np.stack([low, np.minimum(low + 1, axis.extent - 1)], axis=1)
    return Taps(index, np.stack([1 - share, share], axis=1), _outside(x, axis))


def cubic(x: Array, a: float) -> Array:
    """The cubic convolution kernel of Keys (1981) with parameter a, 0 beyond distance 2."""
    d = np.abs(x)
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0.0))


def filter_taps(x: Array, axis: Axis, mode: str, a: float, *, antialias: bool, exclude: bool) -> Taps:
    """Taps of a linear or cubic filter, widened by 1 / scale where the axis shrinks and `antialias` is set.

    `exclude`: taps outside the input get no weight and the others are scaled to sum 1; else they repeat the edge.
    """
    stretch = min(axis.scale, 1.0) if antialias else 1.0
    support = (2 if mode == "cubic" else 1) / stretch
    base = np.floor(x.astype(np.float64))
    first = int(np.floor(-support)) + 1
    offsets = np.arange(first, 2 - first)
    position = base[:, None] + offsets
    distance = (position - x[:, None].astype(np.float64)) * stretch
    weight = cubic(distance, a) if mode == "cubic" else np.clip(1 - np.abs(distance), 0, None)
    if exclude:
        weight = np.where((position >= 0) & (position < axis.extent), weight, 0.0)
    total = weight.sum(axis=1, keepdims=True)
    weight = weight / np.where(total == 0, 1, total)
    return Taps(np.clip(position, 0, axis.extent - 1).astype(np.int64), weight, _outside(x, axis))


def _outside(x: Array, axis: Axis) -> Array:
    return np.asarray((x < 0) | (x > axis.extent - 1))


def apply(values: Array, taps: Taps, axis: int) -> Array:
    """Resample one axis of float values."""
    shape = [1] * values.ndim
    shape[axis] = -1
    total: Array = np.zeros((), values.dtype)
    for index, weight in zip(taps.index.T, taps.weight.T, strict=True):
        total = total + np.take(values, index, axis=axis) * weight.reshape(shape)
    return total
