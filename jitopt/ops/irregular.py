"""Windows that do not slide evenly: DeformConv, MaxUnpool."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jitopt.errors import ModelError
from jitopt.ir.dims import Dim, Shape
from jitopt.ir.graph import Node
from jitopt.ops import cases
from jitopt.ops.contents import fresh, known_dims
from jitopt.ops.convolution import CONV_ATTRIBUTES, GROUP, conv_shape
from jitopt.ops.geometry import all_at_least, ints, per_axis, window
from jitopt.ops.operator import Array, Attribute, Attrs, Kind, Param, Sample
from jitopt.ops.rules import require, same, shape_of, shape_or_none, show
from jitopt.ops.signature import REALS, declare, dtypes


# DeformConv ---------------------------------------------------------------------------------------------------------
class _Notset(Attrs):
    """The node's attributes with the automatic padding DeformConv does not have."""

    def __init__(self, attrs: Attrs) -> None:
        super().__init__({**vars(attrs), "auto_pad": "NOTSET"}, outputs=attrs.outputs)


def _deform_rule(node: Node, attrs: Attrs) -> Sequence[Shape]:
    x, w, offset, mask = shape_of(node, 0), shape_of(node, 1), shape_of(node, 2), shape_or_none(node, 4)
    require(len(x) == 4, f"the input must have rank 4, not shape {show(x)}")
    out = conv_shape(_Notset(attrs), x, w, shape_or_none(node, 3))
    taps = w[2] * w[3]
    for shape, each, name in ((offset, 2, "offset"), (mask, 1, "mask")):
        if shape is not None:
            require(len(shape) == 4, f"{name} must have rank 4, not shape {show(shape)}")
            same(shape[1], taps * (attrs.offset_group * each), f"the channels of {name} do not fit the kernel")
            for axis in (2, 3):
                same(shape[axis], out[axis], f"axis {axis} of {name} and of the output differ")
    return [out]


def _bilinear(image: Array, y: Array, x: Array) -> Array:
    """Values of images [N, C, H, W] at positions [N, ...], 0 outside: [N, C, ...]."""
    n, _, height, width = image.shape
    batch = np.arange(n).reshape(-1, *(1,) * (y.ndim - 1))
    total = np.zeros((*y.shape, image.shape[1]))
    for dy in (0, 1):
        for dx in (0, 1):
            row, column = np.floor(y) + dy, np.floor(x) + dx
            weight = (1 - np.abs(y - row)) * (1 - np.abs(x - column))
            inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
            at: tuple[Any, ...] = (
                batch, slice(None), np.clip(row, 0, height - 1).astype(np.int64),
                np.clip(column, 0, width - 1).astype(np.int64),
            )  # fmt: skip
            total += (weight * inside)[..., None] * image[at]
    return np.moveaxis(total, -1, 1)


def _deform_conv(
    attrs: Attrs, x: Array, w: Array, offset: Array, bias: Array | None = None, mask: Array | None = None
) -> Array:  # fmt: skip
    """A convolution whose taps read at shifted positions (Dai et al., arXiv 1703.06211; masks: arXiv 1811.11168)."""
    win = window(_Notset(attrs), x.shape[2:], w.shape[2:])
    (rows, columns), (kh, kw) = ints(win.out), w.shape[2:]
    n, m, parts = x.shape[0], w.shape[0], attrs.offset_group
    shifts = offset.reshape(n, parts, kh, kw, 2, rows, columns).astype(np.float64)
    scales = None if mask is None else mask.reshape(n, parts, kh, kw, rows, columns)
    share = x.shape[1] // parts
    y0 = np.arange(rows)[:, None] * win.strides[0] - int(win.begin[0])
    x0 = np.arange(columns)[None, :] * win.strides[1] - int(win.begin[1])
    total = np.zeros((n, attrs.group, m // attrs.group, rows * columns))
    weights = w.reshape(attrs.group, m // attrs.group, w.shape[1], kh, kw)
    for i, j in np.ndindex(kh, kw):
        sampled = []
        for part in range(parts):
            dy, dx = shifts[:, part, i, j, 0], shifts[:, part, i, j, 1]
            image = x[:, part * share : (part + 1) * share].astype(np.float64)
            values = _bilinear(image, y0 + i * win.dilations[0] + dy, x0 + j * win.dilations[1] + dx)
            sampled.append(values if scales is None else values * scales[:, None, part, i, j])
        columns_of_tap = np.concatenate(sampled, axis=1).reshape(n, attrs.group, w.shape[1], -1)
        total += np.matmul(weights[..., i, j], columns_of_tap)
    out = total.reshape(n, m, rows, columns)
    return out if bias is None else out + bias.reshape(-1, 1, 1)


def _deform_samples() -> list[Sample]:
    x, w = cases.floats(1, 4, 6, 7), cases.floats(3, 4, 2, 3, seed=1)
    offset, mask = cases.floats(1, 12, 5, 5, seed=2), cases.floats(1, 6, 5, 5, low=0, seed=3)
    grouped = cases.floats(4, 2, 2, 3, seed=1), cases.floats(1, 24, 3, 4, seed=2)
    return [
        cases.sample(x, w, offset),
        cases.sample(x, w, offset, cases.floats(3), mask),
        cases.sample(x, *grouped, group=2, offset_group=2, strides=[2, 2], pads=[0, 1, 0, 1]),
    ]


declare(
    "DeformConv", Kind.OPAQUE,
    (
        Param("X", REALS), Param("W", REALS), Param("offset", REALS), Param("B", REALS, optional=True),
        Param("mask", REALS, optional=True),
    ),
    (Param("Y", REALS),), _deform_rule, _deform_conv, since=(19, 22), samples=_deform_samples,
    attributes={
        **{key: value for key, value in CONV_ATTRIBUTES.items() if key != "auto_pad"}, "offset_group": GROUP,
    },
)  # fmt: skip


# MaxUnpool ----------------------------------------------------------------------------------------------------------
def _unpool_rule(node: Node, attrs: Attrs) -> Sequence[Shape]:
    shape = shape_of(node)
    require(len(shape) >= 3, f"the input needs spatial axes, not {show(shape)}")
    if node.input(2) is not None:
        given = known_dims(node, 2)
        require(given is None or len(given) == len(shape), "output_shape must name every axis")
        return [tuple(fresh(node, i) for i in range(len(shape))) if given is None else tuple(given)]
    return [_unpooled(attrs, shape)]


def _unpooled(attrs: Attrs, shape: Shape) -> Shape:
    count = len(shape) - 2
    kernel = per_axis(attrs.kernel_shape, 1, count, "kernel_shape")
    strides, pads = per_axis(attrs.strides, 1, count, "strides"), per_axis(attrs.pads, 0, 2 * count, "pads")
    sizes: list[Dim] = [
        (d - 1) * strides[i] + kernel[i] - pads[i] - pads[i + count] for i, d in enumerate(shape[2:])
    ]  # fmt: skip
    return (*shape[:2], *sizes)


def _unpool(attrs: Attrs, x: Array, places: Array, output_shape: Array | None = None) -> Array:
    """Zeros but for the pooled values, each at its index in the smallest output it could come from."""
    smallest = ints(_unpooled(attrs, x.shape))
    out = np.zeros(int(np.prod(smallest)), x.dtype)
    if places.size and not (places.min() >= 0 and places.max() < out.size):
        raise ModelError(f"an index lies outside the {out.size} elements of the output")
    out[places.reshape(-1)] = x.reshape(-1)
    out = out.reshape(smallest)
    if output_shape is None:
        return out
    whole = np.zeros(tuple(int(d) for d in output_shape), x.dtype)
    whole[tuple(slice(0, d) for d in smallest)] = out
    return whole


def _unpool_samples() -> list[Sample]:
    x, places = cases.floats(1, 2, 2, 2), np.array([[[[5, 7], [13, 15]], [[16, 18], [24, 26]]]])
    one: Any = x[:, :1], places[:, :1], cases.vector(1, 1, 5, 5)
    two: dict[str, Any] = {"kernel_shape": [2, 2], "strides": [2, 2]}
    return [cases.sample(x, places, **two), cases.sample(*one, **two)]


_INT64 = dtypes("int64")
_AT_LEAST_ONE = Attribute("ints", check=all_at_least(1))
declare(
    "MaxUnpool", Kind.OPAQUE,
    (Param("X", REALS, "T1"), Param("I", _INT64, "T2"), Param("output_shape", _INT64, "T2", optional=True)),
    (Param("output", REALS, "T1"),), _unpool_rule, _unpool, since=(9, 11, 22), samples=_unpool_samples,
    attributes={
        "kernel_shape": Attribute("ints", required=True, check=all_at_least(1)), "pads": CONV_ATTRIBUTES["pads"],
        "strides": _AT_LEAST_ONE,
    },
)  # fmt: skip
