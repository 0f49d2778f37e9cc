"""Resize, and Upsample as its older spelling."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from jitopt.errors import ModelError
from jitopt.ir.dims import Dim, Shape, floor_div
from jitopt.ir.graph import Graph, Node, Value
from jitopt.ir.types import TensorType
from jitopt.ops import cases
from jitopt.ops.cast import convert
from jitopt.ops.contents import axes_of, fresh, known
from jitopt.ops.operator import Array, Attribute, Attrs, Kind, Param, Sample
from jitopt.ops.reduction import SWITCH
from jitopt.ops.rules import demand, require, shape_of
from jitopt.ops.sampling import Axis, apply, coordinates, filter_taps, linear_taps, nearest
from jitopt.ops.signature import PLAIN, REALS, declare, dtypes
from jitopt.ops.upgrades import attribute_to_input, take_out

TRANSFORMATIONS = (
    "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_half_pixel_for_nn",
    "tf_crop_and_resize",
)  # fmt: skip


_NEARLY = 2.0**-16  # an integer result this close below a whole number is that number: rounding only took it there


# shapes -------------------------------------------------------------------------------------------------------------
def scaled(extent: Dim, scale: float) -> Dim:
    """floor(extent * scale), rounded as a float32 product is where the extent is known."""
    if isinstance(extent, int):
        return math.floor(np.float32(extent) * np.float32(scale))
    ratio = Fraction(float(scale)).limit_denominator(1000)
    if np.float32(float(ratio)) != np.float32(scale):
        ratio = Fraction(float(scale))
    return floor_div(extent * ratio.numerator, ratio.denominator)


def kept_aspect(extents: Sequence[int], sizes: Sequence[int], policy: str) -> tuple[float, list[int]]:
    """The one scale that fits `sizes` ("not_larger" or "not_smaller") and the extents it gives."""
    pick = min if policy == "not_larger" else max
    scale = pick(float(np.float32(s) / np.float32(e)) for s, e in zip(sizes, extents, strict=True))
    return scale, [math.floor(scale * e + 0.5) for e in extents]


def _given(value: Value | None) -> bool:
    """The operand is there and not an empty placeholder."""
    if value is None:
        return False
    if value.constant is not None:
        return bool(value.constant.size)
    return not (isinstance(value.type, TensorType) and value.type.shape == (0,))


def _rule(node: Node, attrs: Attrs) -> Sequence[Shape]:
    shape = shape_of(node)
    axes = list(range(len(shape))) if attrs.axes is None else axes_of(attrs.axes, len(shape))
    scales, sizes = node.input(2), node.input(3)
    out: list[Dim] = list(shape)
    if _given(scales) == _given(sizes):
        raise ModelError("exactly one of scales and sizes must be given")
    given = _numbers(sizes if _given(sizes) else scales)
    if given is None:
        return [tuple(fresh(node, i) if i in axes else d for i, d in enumerate(shape))]
    require(len(given) == len(axes), f"{len(given)} scales or sizes for {len(axes)} axes")
    if not _given(sizes):
        require(all(not isinstance(s, (int, float)) or s > 0 for s in given), f"scales must be positive: {given}")
        for axis, scale in zip(axes, given, strict=True):
            out[axis] = scaled(shape[axis], scale) if isinstance(scale, (int, float)) else shape[axis] * scale
    elif attrs.keep_aspect_ratio_policy == "stretch":
        for axis, size in zip(axes, given, strict=True):
            out[axis] = size
    else:
        extents = [shape[axis] for axis in axes]
        if all(isinstance(d, int) for d in (*extents, *given)):
            _, found = kept_aspect(extents, given, attrs.keep_aspect_ratio_policy)  # type: ignore[arg-type]
        else:
            found = [fresh(node, axis) for axis in axes]  # type: ignore[misc]
        for axis, size in zip(axes, found, strict=True):
            out[axis] = size
    for axis, (extent, size) in enumerate(zip(shape, out, strict=True)):
        demand("source", extent, size, f"axis {axis} of extent {extent} cannot be resized to {size}")
    return [tuple(out)]


def _numbers(value: Value | None) -> list[Any] | None:
    """Scales as floats, sizes as dims; None where only the run tells."""
    if value is not None and value.constant is not None and value.constant.dtype.kind == "f":
        return [float(s) for s in value.constant.reshape(-1)]
    content = known(value)
    return None if content is None else list(content.reshape(-1))


# reference ----------------------------------------------------------------------------------------------------------
def _axes(attrs: Attrs, x: Array, roi: Array | None, scales: Array | None, sizes: Array | None) -> list[Axis]:
    """What happens to every axis of x."""
    chosen = list(range(x.ndim)) if attrs.axes is None else axes_of(attrs.axes, x.ndim)
    found = [Axis(d, d, 1.0) for d in x.shape]
    extents = [x.shape[axis] for axis in chosen]
    if scales is not None and scales.size:
        factors = [float(s) for s in scales]
        outs = [int(scaled(e, s)) for e, s in zip(extents, factors, strict=True)]
    else:
        require(sizes is not None and sizes.size == len(chosen), "sizes must name every axis")
        outs = [int(s) for s in sizes]  # type: ignore[union-attr]
        factors = [float(np.float32(o) / np.float32(e)) if e else 1.0 for o, e in zip(outs, extents, strict=True)]
        if attrs.keep_aspect_ratio_policy != "stretch":
            scale, outs = kept_aspect(extents, outs, attrs.keep_aspect_ratio_policy)
            factors = [scale] * len(outs)
    crops = [(0.0, 1.0)] * len(chosen)
    if roi is not None and roi.size:
        crops = [(float(roi[i]), float(roi[i + len(chosen)])) for i in range(len(chosen))]
    for axis, out, factor, crop in zip(chosen, outs, factors, crops, strict=True):
        found[axis] = Axis(x.shape[axis], out, factor, crop)
    return found


def _resize(
    attrs: Attrs, x: Array, roi: Array | None = None, scales: Array | None = None, sizes: Array | None = None
) -> Array:  # fmt: skip
    cropping = attrs.coordinate_transformation_mode == "tf_crop_and_resize"
    whole = attrs.mode == "nearest" and not cropping
    out = x if attrs.mode == "nearest" else x.astype(np.float64)
    outside = np.zeros((1,) * x.ndim, bool)
    for i, axis in enumerate(_axes(attrs, x, roi, scales, sizes)):
        if axis.out == axis.extent and axis.scale == 1.0 and not cropping:
            continue
        at = coordinates(axis, attrs.coordinate_transformation_mode)
        if attrs.mode == "nearest":
            out = np.take(out, nearest(at, attrs.nearest_mode, axis.extent), axis=i)
            beyond = (at < 0) | (at > axis.extent - 1)
        else:
            taps = _taps(attrs, at, axis)
            out, beyond = apply(out, taps, i), taps.outside
        outside = outside | np.expand_dims(beyond, [k for k in range(x.ndim) if k != i])
    if cropping:
        out = np.where(outside, np.asarray(attrs.extrapolation_value, out.dtype), out)
    if whole or x.dtype.kind not in "iu":
        return out
    return convert(np.floor(out + _NEARLY), x.dtype)


def _taps(attrs: Attrs, at: Array, axis: Axis) -> Any:
    if attrs.mode == "linear" and not attrs.antialias:
        return linear_taps(at, axis)
    flags = {"antialias": bool(attrs.antialias), "exclude": bool(attrs.exclude_outside)}
    return filter_taps(at, axis, attrs.mode, attrs.cubic_coeff_a, **flags)


# older forms --------------------------------------------------------------------------------------------------------
def _with_scales(graph: Graph, node: Node) -> None:
    """Resize 10 and Upsample: (X, scales), asymmetric coordinates, nearest downwards (upwards where it shrinks)."""
    x, scales = node.arg(0), node.arg(1)
    known_scales = scales.constant
    shrinks = known_scales is not None and bool((known_scales < 1).any())
    attrs = {
        "mode": {"bilinear": "linear"}.get(node.attrs.get("mode", "nearest"), node.attrs.get("mode", "nearest")),
        "coordinate_transformation_mode": "asymmetric",
        "nearest_mode": "ceil" if shrinks else "floor",
    }
    stem = node.name
    graph.add("Resize", [x, None, scales], outputs=take_out(graph, node), name=stem, **attrs)


def _drop_empty(graph: Graph, node: Node) -> None:
    """Before opset 13 an operand that is not given could be an empty tensor."""
    for index in range(1, len(node.inputs)):
        if not _given(node.input(index)):
            node.set_input(index, None)


def _samples() -> list[Sample]:
    x = cases.floats(1, 2, 5, 6, low=0)
    up, down = cases.vector(1, 1, 2, 3, dtype="float32"), cases.vector(1, 1, 0.6, 0.75, dtype="float32")
    out = [cases.sample(x, scales, mode=mode, opset=10) for mode in ("nearest", "linear") for scales in (up,)]
    modes = [m for m in TRANSFORMATIONS if m not in ("tf_crop_and_resize", "tf_half_pixel_for_nn")]
    empty = cases.vector(dtype="float32")
    for kind in ("nearest", "linear", "cubic"):
        for mode in modes:
            for scales in (up, down):
                out.append(_new(x, None, scales, mode=kind, coordinate_transformation_mode=mode))
    for rounding in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"):
        for scales in (up, down):
            out.append(_new(x, None, scales, nearest_mode=rounding))
            out.append(_new(x, empty, scales, nearest_mode=rounding, opset=11))
    sizes = cases.vector(1, 2, 7, 4)
    roi = cases.vector(0, 0, 0.4, 0.1, 1, 1, 1.3, 0.7, dtype="float32")
    crop: dict[str, Any] = {"coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 10.0}
    for kind in ("nearest", "linear", "cubic"):
        out += [_new(x, empty, empty, sizes, mode=kind, opset=11), _new(x, None, None, sizes, mode=kind)]
        out += [_new(x, roi, None, sizes, mode=kind, **crop)]
    out += [_new(x, None, scales, mode="cubic", exclude_outside=1, cubic_coeff_a=-0.5) for scales in (up, down)]
    smooth: dict[str, Any] = {"antialias": 1, "opset": 18}
    for kind in ("linear", "cubic"):
        out += [_new(x, None, scales, mode=kind, exclude_outside=e, **smooth) for scales in (up, down) for e in (0, 1)]
    for policy in ("not_larger", "not_smaller"):
        out.append(_new(x, None, None, cases.vector(7, 8), axes=[2, 3], keep_aspect_ratio_policy=policy, opset=18))
    out += [_new(x, None, cases.vector(2.0, 1.5, dtype="float32"), axes=[3, 2], opset=18)]
    out += [_new(cases.floats(5, 6), None, cases.vector(1.7, 0.7, dtype="float32"), mode="linear")]
    byte = cases.ints(1, 1, 4, 5, low=0, high=255, dtype="uint8")
    return out + [_new(byte, None, scales, mode=kind) for kind in ("nearest", "linear") for scales in (up, down)]


def _new(*inputs: Any, opset: int = 13, **attrs: Any) -> Sample:
    return Sample(inputs, attrs, opset)


_ANY = PLAIN | REALS
declare(
    "Resize", Kind.WINDOW,
    (
        Param("X", _ANY, "T1"), Param("roi", dtypes("float16 float32 float64"), "T2", optional=True),
        Param("scales", dtypes("float32"), "S", optional=True), Param("sizes", dtypes("int64"), "I", optional=True),
    ),
    (Param("Y", _ANY, "T1"),), _rule, _resize, since=(10, 11, 13, 18, 19), samples=_samples,
    upgrades=((11, _with_scales), (13, _drop_empty)),
    attributes={
        "antialias": SWITCH, "axes": Attribute("ints"), "cubic_coeff_a": Attribute("float", -0.75),
        "coordinate_transformation_mode": Attribute("string", "half_pixel", choices=TRANSFORMATIONS),
        "exclude_outside": SWITCH, "extrapolation_value": Attribute("float", 0.0),
        "keep_aspect_ratio_policy": Attribute("string", "stretch", choices=("stretch", "not_larger", "not_smaller")),
        "mode": Attribute("string", "nearest", choices=("nearest", "linear", "cubic")),
        "nearest_mode": Attribute(
            "string", "round_prefer_floor", choices=("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
        ),
    },
)  # fmt: skip


def _no_upsample(node: Node, attrs: Attrs) -> Sequence[Shape]:
    raise ModelError("was removed in opset 10; Resize took its place")


def _upsample_samples() -> list[Sample]:
    x, scales = cases.floats(1, 2, 3, 4), [1.0, 1.0, 2.0, 3.0]
    old = [Sample((x,), {"scales": scales, "mode": mode}, 7) for mode in ("nearest", "linear")]
    return old + [
        Sample((x, cases.vector(*scales, dtype="float32")), {"mode": mode}, 9) for mode in ("nearest", "linear")
    ]


declare(
    "Upsample", Kind.WINDOW, (Param("X", _ANY), Param("scales", dtypes("float32"), "S")), (Param("Y", _ANY),),
    _no_upsample, None, since=(7, 9), samples=_upsample_samples,
    upgrades=((9, attribute_to_input("scales", 1, "float32")), (10, _with_scales)),
    attributes={"mode": Attribute("string", "nearest")},
)  # fmt: skip
