"""Convolutions: Conv, ConvInteger."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jitopt.errors import ModelError
from jitopt.ir.dims import Dim, Shape
from jitopt.ir.graph import Node
from jitopt.ops import cases
from jitopt.ops.geometry import SLIDING, Window, ints, kernel_of, padded, taps, window
from jitopt.ops.operator import Array, Attribute, Attrs, Kind, Param, Sample
from jitopt.ops.rules import require, same, shape_of, shape_or_none, show
from jitopt.ops.signature import BYTES, REALS, declare, dtypes

GROUP = Attribute("int", 1, check=lambda g: g >= 1)
CONV_ATTRIBUTES = {**SLIDING, "group": GROUP}


# Conv ---------------------------------------------------------------------------------------------------------------
def conv_shape(attrs: Attrs, x: Shape, w: Shape, bias: Shape | None) -> Shape:
    """[N, C, spatial], [M, C/group, kernel] and [M] give [N, M, out]. Raises ShapeError where they do not fit."""
    require(len(x) >= 3 and len(x) == len(w), f"input {show(x)} and weights {show(w)} need one rank, at least 3")
    _check_groups(attrs.group, x[1], w[1] * attrs.group, w[0], w)
    if bias is not None:
        require(len(bias) == 1, f"the bias must be 1-D, not {show(bias)}")
        same(bias[0], w[0], "bias and output channels differ")
    return (x[0], w[0], *window(attrs, x[2:], kernel_of(attrs, w[2:])).out)


def _check_groups(group: int, channels: Dim, wanted: Dim, outputs: Dim, w: Shape) -> None:
    if isinstance(outputs, int) and outputs % group:
        raise ModelError(f"{outputs} output channels do not divide into {group} groups")
    same(channels, wanted, f"input channels and those of weights {show(w)} with {group} groups differ")


def _conv_rule(node: Node, attrs: Attrs) -> Sequence[Shape]:
    return [conv_shape(attrs, shape_of(node, 0), shape_of(node, 1), shape_or_none(node, 2))]


def convolve(x: Array, w: Array, win: Window, group: int) -> Array:
    """The grouped convolution [N, C, ...] * [M, C/group, kernel] in the arrays' own type."""
    n, m, xs, out = x.shape[0], w.shape[0], padded(x, win, 0), ints(win.out)
    if w.shape[1] == 1 and m == group:
        total = np.zeros((n, m, *out), x.dtype)
        for index, view in taps(xs, win):
            tap: tuple[Any, ...] = (slice(None), 0, *index)
            total += w[tap].reshape(-1, *(1,) * len(out)) * view
        return total
    patches = xs.reshape(n, group, w.shape[1], *xs.shape[2:])
    windows = _windows(patches, win)
    weights = w.reshape(group, m // group, -1)
    result = np.empty((n, group, m // group, *out), x.dtype)
    row = max(1, w[0].size * int(np.prod(out[1:])) * group * n)
    step = max(1, _PATCH_ELEMENTS // row)
    for low in range(0, out[0] if result.size else 0, step):
        columns = windows[(slice(None),) * (3 + len(out)) + (slice(low, low + step),)]
        part = np.matmul(weights, columns.reshape(n, group, weights.shape[2], -1))
        result[:, :, :, low : low + step] = part.reshape(n, group, m // group, -1, *out[1:])
    return result.reshape(n, m, *out)


_PATCH_ELEMENTS = 1 << 21  # patches are copied for so many elements at a time


def _windows(x: Array, win: Window) -> Array:
    """A view [N, group, C/group, kernel, out] of padded [N, group, C/group, spatial]: im2col without the copy."""
    count = len(win.out)
    view = np.lib.stride_tricks.sliding_window_view(x, ints(win.reach), axis=tuple(range(3, 3 + count)))
    places: tuple[Any, ...] = tuple(
        slice(0, (o - 1) * s + 1, s) for o, s in zip(ints(win.out), win.strides, strict=True)
    )
    steps: tuple[Any, ...] = tuple(slice(None, None, d) for d in win.dilations)
    view = view[(slice(None), slice(None), slice(None), *places, *steps)]
    order = (0, 1, 2, *range(3 + count, 3 + 2 * count), *range(3, 3 + count))
    return view.transpose(order)


def _conv(attrs: Attrs, x: Array, w: Array, bias: Array | None = None) -> Array:
    out = convolve(x, w, window(attrs, x.shape[2:], w.shape[2:]), attrs.group)
    return out if bias is None else out + bias.reshape(-1, *(1,) * (x.ndim - 2))


def _conv_samples() -> list[Sample]:
    x, w = cases.floats(2, 3, 7, 9), cases.floats(4, 3, 3, 3, seed=1)
    deep, grouped = cases.floats(1, 6, 8, 8), cases.floats(6, 1, 3, 3, seed=1)
    return [
        cases.sample(x, w),
        cases.sample(x, w, cases.floats(4), pads=[1, 1, 1, 1], strides=[2, 2]),
        cases.sample(x, w, pads=[0, 2, 1, 0], dilations=[2, 1], kernel_shape=[3, 3]),
        cases.sample(x, cases.floats(5, 3, 1, 1), cases.floats(5)),
        cases.sample(deep, grouped, group=6, pads=[1, 1, 1, 1]),
        cases.sample(deep, cases.floats(4, 3, 2, 3), cases.floats(4), group=2, strides=[1, 2]),
        *(cases.sample(x, w, auto_pad=auto, strides=[2, 3]) for auto in ("SAME_UPPER", "SAME_LOWER", "VALID")),
        cases.sample(x, cases.floats(2, 3, 2, 4), auto_pad="SAME_UPPER", dilations=[1, 2]),
        cases.sample(cases.floats(2, 3, 11), cases.floats(4, 3, 4), cases.floats(4), strides=[3], pads=[2, 1]),
        cases.sample(cases.floats(1, 2, 5, 6, 7), cases.floats(3, 2, 2, 3, 2), pads=[1, 0, 1, 0, 1, 0]),
        cases.sample(cases.floats(0, 3, 7, 9), w),
        cases.sample(cases.floats(1, 2, 5, 5, dtype="float64"), cases.floats(3, 2, 3, 3, dtype="float64")),
    ]


declare(
    "Conv", Kind.CONTRACT, (Param("X", REALS), Param("W", REALS), Param("B", REALS, optional=True)),
    (Param("Y", REALS),), _conv_rule, _conv, attributes=CONV_ATTRIBUTES, since=(1, 11, 22), samples=_conv_samples,
)  # fmt: skip


# ConvInteger --------------------------------------------------------------------------------------------------------
def centred(x: Array, zero_point: Array | None, axis: int | None = None) -> Array:
    """x minus its zero point in float64, in which sums of byte products are exact; `axis` of a 1-D zero point."""
    wide = x.astype(np.float64)
    if zero_point is None:
        return wide
    if zero_point.ndim and zero_point.size > 1 and axis is not None:
        zero_point = zero_point.reshape([-1 if i == axis else 1 for i in range(x.ndim)])
    return np.asarray(wide - zero_point.astype(np.float64))


def _conv_integer(
    attrs: Attrs, x: Array, w: Array, x_zero: Array | None = None, w_zero: Array | None = None
) -> Array:  # fmt: skip
    win = window(attrs, x.shape[2:], w.shape[2:])
    return convolve(centred(x, x_zero), centred(w, w_zero, 0), win, attrs.group).astype(np.int32)


def _conv_integer_rule(node: Node, attrs: Attrs) -> Sequence[Shape]:
    return [conv_shape(attrs, shape_of(node, 0), shape_of(node, 1), None)]


def _conv_integer_samples() -> list[Sample]:
    x, w = (
        cases.ints(1, 2, 7, 6, low=0, high=255, dtype="uint8"),
        cases.ints(3, 2, 3, 3, low=0, high=255, dtype="uint8"),
    )
    zero, per_channel = cases.scalar(113, "uint8"), cases.vector(3, 128, 200, dtype="uint8")
    return [
        cases.sample(x, w),
        cases.sample(x, w, zero, pads=[1, 1, 1, 1]),
        cases.sample(x, w, zero, cases.scalar(7, "uint8"), strides=[2, 1]),
        cases.sample(x, w, zero, per_channel),
        cases.sample(x, cases.ints(4, 1, 3, 3, dtype="uint8", low=0), None, None, group=2),
    ]


declare(
    "ConvInteger", Kind.CONTRACT,
    (
        Param("x", BYTES, "T1"), Param("w", BYTES, "T2"), Param("x_zero_point", BYTES, "T1", optional=True),
        Param("w_zero_point", BYTES, "T2", optional=True),
    ),
    (Param("y", dtypes("int32"), "T3"),), _conv_integer_rule, _conv_integer, attributes=CONV_ATTRIBUTES, since=(10,),
    samples=_conv_integer_samples,
)  # fmt: skip
