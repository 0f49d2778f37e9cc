"""Sliding windows: output extents and paddings of convolutions and pools, symbolic, and views of the taps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from jitopt.errors import ModelError
from jitopt.ir.bounds import larger, smaller
from jitopt.ir.dims import Dim, Shape, ceil_div, floor_div
from jitopt.ops.operator import Array, Attribute, Attrs
from jitopt.ops.rules import demand, differ, show


def all_at_least(low: int) -> Any:
    return lambda values: all(v >= low for v in values)


PADDING = ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")
SLIDING = {
    "auto_pad": Attribute("string", "NOTSET", choices=PADDING),
    "dilations": Attribute("ints", check=all_at_least(1)),
    "kernel_shape": Attribute("ints", check=all_at_least(1)),
    "pads": Attribute("ints", check=all_at_least(0)),
    "strides": Attribute("ints", check=all_at_least(1)),
}


@dataclass(frozen=True)
class Window:
    """How a kernel slides over the spatial axes; one entry an axis. `begin` and `end` are paddings."""

    kernel: Shape
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    begin: Shape
    end: Shape
    out: Shape

    @property
    def reach(self) -> Shape:
        """Extent of the dilated kernel."""
        return tuple((k - 1) * d + 1 for k, d in zip(self.kernel, self.dilations, strict=True))


def per_axis(values: Sequence[int] | None, default: int, count: int, name: str) -> tuple[int, ...]:
    """An attribute with one entry (or, for pads, two) a spatial axis. Raises ModelError for another number."""
    if values is None:
        return (default,) * count
    if len(values) != count:
        raise ModelError(f"attribute '{name}' has {len(values)} entries where {count} are needed")
    return tuple(int(v) for v in values)


def kernel_of(attrs: Attrs, weights: Shape) -> Shape:
    """Kernel extents from the weights' spatial axes; `kernel_shape`, where given, must say the same."""
    if attrs.kernel_shape is not None:
        given = per_axis(attrs.kernel_shape, 1, len(weights), "kernel_shape")
        if any(differ(a, b) for a, b in zip(given, weights, strict=True)):
            raise ModelError(f"kernel_shape {show(given)} is not that of the weights, {show(weights)}")
        return given
    return weights


def window(attrs: Attrs, spatial: Shape, kernel: Shape, *, ceil: bool = False, dilated: bool = True) -> Window:
    """The window over `spatial` extents. Raises ShapeError where the kernel is larger than the padded input.

    `ceil`: a last window that starts inside the input or its leading padding counts even where it ends outside.
    """
    count = len(spatial)
    strides = per_axis(attrs.strides, 1, count, "strides")
    dilations = per_axis(attrs.dilations if dilated else None, 1, count, "dilations")
    pads = per_axis(attrs.pads, 0, 2 * count, "pads")
    begin, end, out = [], [], []
    for axis, (extent, k, stride, dilation) in enumerate(zip(spatial, kernel, strides, dilations, strict=True)):
        reach = (k - 1) * dilation + 1
        lead, trail = _padding(attrs.auto_pad, extent, reach, stride, pads[axis], pads[axis + count])
        room = extent + lead + trail - reach
        text = (
            f"the kernel reaches over {reach} elements where axis {axis + 2} has {extent} and paddings {lead}, {trail}"
        )
        demand("at least", room, 0, text)
        if ceil:
            steps = smaller(ceil_div(room, stride) + 1, ceil_div(extent + lead, stride))
        else:
            steps = floor_div(room, stride) + 1
        begin.append(lead)
        end.append(trail)
        out.append(steps)
    return Window(tuple(kernel), strides, dilations, tuple(begin), tuple(end), tuple(out))


def _padding(auto: str, extent: Dim, reach: Dim, stride: int, lead: int, trail: int) -> tuple[Dim, Dim]:
    if auto == "NOTSET":
        return lead, trail
    if auto == "VALID":
        return 0, 0
    total = larger((ceil_div(extent, stride) - 1) * stride + reach - extent, 0)
    half = floor_div(total, 2)
    return (half, total - half) if auto == "SAME_UPPER" else (total - half, half)


# the arrays' side: all extents are ints -----------------------------------------------------------------------------
def ints(dims: Shape) -> tuple[int, ...]:
    """Extents that are all known, as a reference sees them."""
    return tuple(int(d) for d in dims)


def padded(x: Array, win: Window, value: Any) -> Array:
    """`x` with its spatial axes padded with `value`, far enough for every window."""
    widths = [(0, 0)] * (x.ndim - len(win.out))
    spatial = x.shape[x.ndim - len(win.out) :]
    for extent, reach, stride, begin, end, out in zip(
        spatial, ints(win.reach), win.strides, ints(win.begin), ints(win.end), ints(win.out), strict=True
    ):
        widths.append((begin, max(end, (out - 1) * stride + reach - extent - begin, 0)))
    return np.pad(x, widths, constant_values=value) if any(map(any, widths)) else x


def taps(x: Array, win: Window) -> Iterator[tuple[tuple[int, ...], Array]]:
    """For every kernel position: its index, and the view of padded `x` that it meets at each output position."""
    for index in product(*map(range, ints(win.kernel))):
        cut: tuple[Any, ...] = tuple(
            slice(i * d, i * d + (out - 1) * s + 1, s)
            for i, d, s, out in zip(index, win.dilations, win.strides, ints(win.out), strict=True)
        )
        yield index, x[(..., *cut)]
