"""ConvTranspose: every input element adds its multiple of the kernel to the output."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jitopt.errors import ModelError
from jitopt.ir.bounds import larger
from jitopt.ir.dims import Dim, Shape, floor_div
from jitopt.ir.graph import Node
from jitopt.ops import cases
from jitopt.ops.convolution import CONV_ATTRIBUTES
from jitopt.ops.geometry import Window, all_at_least, ints, kernel_of, per_axis
from jitopt.ops.operator import Array, Attribute, Attrs, Kind, Param, Sample
from jitopt.ops.rules import require, same, shape_of, shape_or_none, show
from jitopt.ops.signature import REALS, declare


def transposed_window(attrs: Attrs, spatial: Shape, kernel: Shape) -> Window:
    """The window that slides over the output: `out` is the output's extents, `begin` and `end` what is cut off."""
    count = len(spatial)
    strides = per_axis(attrs.strides, 1, count, "strides")
    dilations = per_axis(attrs.dilations, 1, count, "dilations")
    extra = per_axis(attrs.output_padding, 0, count, "output_padding")
    pads = per_axis(attrs.pads, 0, 2 * count, "pads")
    begin: list[Dim] = []
    end: list[Dim] = []
    out: list[Dim] = []
    wanted = None if attrs.output_shape is None else list(attrs.output_shape)[-count:]
    for axis, extent in enumerate(spatial):
        full = (extent - 1) * strides[axis] + (kernel[axis] - 1) * dilations[axis] + 1 + extra[axis]
        lead: Dim = pads[axis] if attrs.auto_pad == "NOTSET" else 0
        trail: Dim = pads[axis + count] if attrs.auto_pad == "NOTSET" else 0
        size: Dim = full - lead - trail
        if wanted is not None or attrs.auto_pad.startswith("SAME"):
            size = wanted[axis] if wanted is not None else extent * strides[axis]
            total = larger(full - size, 0)
            half = floor_div(total, 2)
            lead, trail = (half, total - half) if attrs.auto_pad == "SAME_UPPER" else (total - half, half)
        require(not isinstance(size, int) or size >= 0, f"axis {axis + 2} of the output would have extent {size}")
        begin.append(lead)
        end.append(trail)
        out.append(size)
    return Window(kernel, strides, dilations, tuple(begin), tuple(end), tuple(out))


def _transposed_rule(node: Node, attrs: Attrs) -> Sequence[Shape]:
    x, w, bias = shape_of(node, 0), shape_of(node, 1), shape_or_none(node, 2)
    require(len(x) >= 3 and len(x) == len(w), f"input {show(x)} and weights {show(w)} need one rank, at least 3")
    if isinstance(x[1], int) and x[1] % attrs.group:
        raise ModelError(f"{x[1]} input channels do not divide into {attrs.group} groups")
    same(x[1], w[0], "input channels and those of the weights differ")
    channels = w[1] * attrs.group
    if bias is not None:
        require(len(bias) == 1, f"the bias must be 1-D, not {show(bias)}")
        same(bias[0], channels, "bias and output channels differ")
    return [(x[0], channels, *transposed_window(attrs, x[2:], kernel_of(attrs, w[2:])).out)]


def _conv_transpose(attrs: Attrs, x: Array, w: Array, bias: Array | None = None) -> Array:
    """Scatters tap by tap, then cuts off the paddings."""
    win = transposed_window(attrs, x.shape[2:], w.shape[2:])
    group, n, m = attrs.group, x.shape[0], w.shape[1]
    lead, out = ints(win.begin), ints(win.out)
    reach = [
        (e - 1) * s + (k - 1) * d + 1
        for e, k, s, d in zip(x.shape[2:], w.shape[2:], win.strides, win.dilations, strict=True)
    ]
    full = np.zeros((n, group, m, *(max(r, b + o) for r, b, o in zip(reach, lead, out, strict=True))), x.dtype)
    parts = x.reshape(n, group, x.shape[1] // group, int(np.prod(x.shape[2:])))
    weights = w.reshape(group, w.shape[0] // group, m, *w.shape[2:])
    every: tuple[Any, ...] = (slice(None),) * 3
    for index in np.ndindex(*w.shape[2:]):
        tap = weights[every + index].transpose(0, 2, 1)
        cut: tuple[Any, ...] = tuple(
            slice(i * d, i * d + (e - 1) * s + 1, s)
            for i, d, s, e in zip(index, win.dilations, win.strides, x.shape[2:], strict=True)
        )
        full[(..., *cut)] += np.matmul(tap, parts).reshape(n, group, m, *x.shape[2:])
    inner: tuple[Any, ...] = tuple(slice(b, b + o) for b, o in zip(lead, out, strict=True))
    kept = full[(..., *inner)].reshape(n, group * m, *out)
    return kept if bias is None else kept + bias.reshape(-1, *(1,) * (x.ndim - 2))


def _transpose_samples() -> list[Sample]:
    x, w, bias = cases.floats(2, 4, 5, 6), cases.floats(4, 3, 3, 2, seed=1), cases.floats(3)
    doubling: dict[str, Any] = {"strides": [2, 2], "kernel_shape": [2, 2]}
    return [
        cases.sample(x, w),
        cases.sample(x, cases.floats(4, 3, 2, 2), bias, **doubling),
        cases.sample(x, w, bias, strides=[2, 3], pads=[1, 0, 1, 1], output_padding=[1, 2]),
        cases.sample(x, w, dilations=[2, 2], pads=[1, 1, 0, 1]),
        cases.sample(x, cases.floats(4, 2, 3, 2), cases.floats(4), group=2, strides=[2, 1]),
        *(cases.sample(x, w, auto_pad=auto, strides=[2, 2]) for auto in ("SAME_UPPER", "SAME_LOWER", "VALID")),
        cases.sample(x, w, output_shape=[10, 12], strides=[2, 2]),
        cases.sample(x, w, output_shape=[11, 12], strides=[2, 2], auto_pad="SAME_UPPER"),
        cases.sample(cases.floats(1, 2, 7), cases.floats(2, 3, 4), strides=[3], pads=[1, 2]),
        cases.sample(cases.floats(1, 2, 3, 3, 2), cases.floats(2, 2, 2, 2, 2), strides=[2, 1, 2]),
    ]


declare(
    "ConvTranspose", Kind.CONTRACT, (Param("X", REALS), Param("W", REALS), Param("B", REALS, optional=True)),
    (Param("Y", REALS),), _transposed_rule, _conv_transpose, since=(1, 11, 22), samples=_transpose_samples,
    attributes={
        **CONV_ATTRIBUTES, "output_padding": Attribute("ints", check=all_at_least(0)),
        "output_shape": Attribute("ints", check=all_at_least(0)),
    },
)  # fmt: skip
