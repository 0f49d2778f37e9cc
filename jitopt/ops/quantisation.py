"""Linear quantisation: QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jitopt.errors import ModelError
from jitopt.ir.dims import Dim, Shape, ceil_div
from jitopt.ir.dtypes import BY_NAME, BY_ONNX_CODE, DType
from jitopt.ir.graph import Node
from jitopt.ops import cases
from jitopt.ops.cast import convert
from jitopt.ops.contents import axis_of
from jitopt.ops.operator import Array, Attribute, Attrs, Kind, Param, Sample
from jitopt.ops.rules import require, same, shape_of, shape_or_none, show
from jitopt.ops.signature import declare, dtypes

_SMALL_FLOATS = "float8e4m3fn float8e4m3fnuz float8e5m2 float8e5m2fnuz float4e2m1 float6e2m3 float6e3m2"
QUANTISED = dtypes(f"int8 uint8 int16 uint16 int4 uint4 int2 uint2 {_SMALL_FLOATS}")
_REAL = dtypes("float16 bfloat16 float32")
_SCALES = _REAL | dtypes("float8e8m0")
_COMMON = {
    "axis": Attribute("int", 1), "block_size": Attribute("int", 0, check=lambda b: b >= 0),
    "output_dtype": Attribute("int", 0),
}  # fmt: skip


# scales along an axis -----------------------------------------------------------------------------------------------
def check_scale(shape: Shape, scale: Shape, zero: Shape | None, attrs: Attrs) -> None:
    """A scale is one number, a vector along the axis, or one number a block of the axis; the zero point alike."""
    if zero is not None:
        require(len(zero) == len(scale), f"scale {show(scale)} and zero point {show(zero)} differ in shape")
        for a, b in zip(scale, zero, strict=True):
            same(a, b, f"scale {show(scale)} and zero point {show(zero)} differ in shape")
    if not attrs.block_size:
        require(len(scale) < 2, f"the scale must be a scalar or 1-D, not {show(scale)}")
        if scale and scale[0] != 1:
            axis = axis_of(attrs.axis, len(shape))
            same(shape[axis], scale[0], f"the scale and axis {axis} of {show(shape)} differ")
        return
    axis = axis_of(attrs.axis, len(shape))
    require(len(scale) == len(shape), f"a blocked scale needs the rank of {show(shape)}, not {show(scale)}")
    for i, (d, s) in enumerate(zip(shape, scale, strict=True)):
        wanted: Dim = ceil_div(d, attrs.block_size) if i == axis else d
        same(wanted, s, f"the blocked scale {show(scale)} does not fit {show(shape)}")


def spread(values: Array, x: Array, attrs: Attrs) -> Array:
    """A scale or zero point shaped to broadcast against x."""
    if values.size == 1 and not attrs.block_size:
        return values.reshape(())
    axis = attrs.axis % x.ndim
    if attrs.block_size:
        index: list[Any] = [slice(None)] * x.ndim
        index[axis] = slice(0, x.shape[axis])
        return np.asarray(np.repeat(values, attrs.block_size, axis=axis)[tuple(index)])
    return values.reshape([-1 if i == axis else 1 for i in range(x.ndim)])


def _rule(node: Node, attrs: Attrs) -> Sequence[Shape]:
    shape = shape_of(node)
    check_scale(shape, shape_of(node, 1), shape_or_none(node, 2), attrs)
    return [shape]


# QuantizeLinear -----------------------------------------------------------------------------------------------------
def quantise(x: Array, scale: Any, zero: Any, dtype: np.dtype[Any]) -> Array:
    """saturate(round(x / scale) + zero), halves to even, in float32."""
    steps = np.rint(x.astype(np.float32) / np.asarray(scale, np.float32)).astype(np.float64)
    return convert(steps + np.asarray(zero, np.float64), dtype)


def _quantised_type(node: Node, attrs: Attrs) -> Mapping[str, DType]:
    if node.input(2) is not None:
        return {"T3": node.arg(2).dtype}
    return {"T3": _declared(attrs) or BY_NAME["uint8"]}


def _declared(attrs: Attrs) -> DType | None:
    if not attrs.output_dtype:
        return None
    found = BY_ONNX_CODE.get(int(attrs.output_dtype))
    if found is None:
        raise ModelError(f"attribute 'output_dtype' is {attrs.output_dtype}, which is no element type")
    return found


def _quantize(attrs: Attrs, x: Array, scale: Array, zero: Array | None = None) -> Array:
    found = zero.dtype if zero is not None else (_declared(attrs) or BY_NAME["uint8"]).numpy
    if found is None or found.kind not in "iu":
        raise ModelError(f"values of type {_declared(attrs)} cannot be computed here")
    return quantise(x, spread(scale, x, attrs), 0 if zero is None else spread(zero, x, attrs), found)


def _quantize_samples() -> list[Sample]:
    x = cases.floats(2, 3, 5, low=-40, high=40)
    scale, scales = cases.scalar(0.25), cases.floats(3, low=0.1, high=0.5)
    code = {name: BY_NAME[name].onnx_code for name in ("int8", "uint16")}
    blocks = cases.floats(2, 2, 5, low=0.1, high=0.5)
    return [
        cases.sample(x, scale, cases.scalar(128, "uint8")),
        cases.sample(x, scale, cases.scalar(-3, "int8")),
        cases.sample(x, scale),
        cases.sample(np.array([0.5, 1.5, 2.5, -0.5, -1.5, 300, -300], np.float32), cases.scalar(1.0)),
        cases.sample(x, scales, cases.vector(3, 128, 200, dtype="uint8"), opset=13),
        cases.sample(x, cases.floats(5, low=0.1, high=0.5), cases.vector(0, 1, -2, 3, -4, dtype="int8"), axis=-1),
        cases.sample(x, scale, cases.scalar(1000, "uint16"), opset=21),
        cases.sample(x, scale, output_dtype=code["int8"], opset=21),
        cases.sample(x, scales, output_dtype=code["uint16"], axis=1, opset=21),
        cases.sample(x, blocks, cases.ints(2, 2, 5, dtype="int8"), axis=1, block_size=2, opset=21),
    ]


declare(
    "QuantizeLinear", Kind.OPAQUE,
    (
        Param("x", _REAL | dtypes("int32"), "T1"), Param("y_scale", _SCALES | dtypes("int32"), "T2"),
        Param("y_zero_point", QUANTISED, "T3", optional=True),
    ),
    (Param("y", QUANTISED, "T3"),), _rule, _quantize, dtype=_quantised_type,
    since=(10, 13, 19, 21, 23, 24, 25, 28), samples=_quantize_samples,
    attributes={**_COMMON, "precision": Attribute("int", 0), "saturate": Attribute("int", 1, choices=(0, 1))},
)  # fmt: skip


# DequantizeLinear ---------------------------------------------------------------------------------------------------
def _real_type(node: Node, attrs: Attrs) -> Mapping[str, DType]:
    return {"T3": _declared(attrs) or node.arg(1).dtype}


def _dequantize(attrs: Attrs, x: Array, scale: Array, zero: Array | None = None) -> Array:
    """(x - zero) * scale, in float32."""
    steps = x.astype(np.float64) - (0 if zero is None else spread(zero, x, attrs).astype(np.float64))
    found = steps.astype(np.float32) * spread(scale, x, attrs).astype(np.float32)
    declared = _declared(attrs)
    return found.astype(scale.dtype if declared is None else declared.numpy)


def _dequantize_samples() -> list[Sample]:
    x, signed = cases.ints(2, 3, 5, low=0, high=255, dtype="uint8"), cases.ints(2, 3, 5, dtype="int8")
    scale, scales = cases.scalar(0.25), cases.floats(3, low=0.1, high=0.5)
    return [
        cases.sample(x, scale, cases.scalar(128, "uint8")),
        cases.sample(signed, scale, cases.scalar(-3, "int8")),
        cases.sample(x, scale),
        cases.sample(cases.ints(4, low=-9999, high=9999, dtype="int32"), scale),
        cases.sample(x, scales, cases.vector(3, 128, 200, dtype="uint8"), opset=13),
        cases.sample(signed, cases.floats(5, low=0.1), axis=-1, opset=13),
        cases.sample(x.astype("int16"), scale, opset=21),
        cases.sample(signed, cases.floats(2, 2, 5), cases.ints(2, 2, 5, dtype="int8"), axis=1, block_size=2, opset=21),
    ]


declare(
    "DequantizeLinear", Kind.OPAQUE,
    (
        Param("x", QUANTISED | dtypes("int32"), "T1"), Param("x_scale", _SCALES, "T2"),
        Param("x_zero_point", QUANTISED | dtypes("int32"), "T1", optional=True),
    ),
    (Param("y", _REAL, "T3"),), _rule, _dequantize, dtype=_real_type, since=(10, 13, 19, 21, 23, 24, 25, 28),
    attributes=_COMMON, samples=_dequantize_samples,
)  # fmt: skip


# DynamicQuantizeLinear ----------------------------------------------------------------------------------------------
def dynamic(x: Array) -> tuple[Array, Array, Array]:
    """uint8 values, scale and zero point such that 0 and the extremes of x are represented."""
    low = np.float32(np.minimum(np.min(x, initial=0), 0))
    high = np.float32(np.maximum(np.max(x, initial=0), 0))
    scale = (high - low) / np.float32(255)
    if scale == 0:
        scale = np.float32(1)
    zero = convert(np.asarray(np.rint(np.clip(-low / scale, 0, 255))), np.dtype(np.uint8))
    return quantise(x, scale, zero, np.dtype(np.uint8)), np.asarray(scale, np.float32), zero


def _dynamic_rule(node: Node, attrs: Attrs) -> Sequence[Shape]:
    shapes: list[Shape] = [shape_of(node), (), ()]
    return shapes[: len(node.outputs)]


def _dynamic_samples() -> list[Sample]:
    arrays = [
        cases.floats(3, 5), cases.floats(3, 5, low=1, high=3), cases.floats(4, low=-3, high=-1), np.zeros(4, np.float32)
    ]  # fmt: skip
    return [cases.sample(x, outputs=3) for x in arrays]


declare(
    "DynamicQuantizeLinear", Kind.OPAQUE, (Param("x", dtypes("float32"), "T1"),),
    (
        Param("y", dtypes("uint8"), "T2"), Param("y_scale", dtypes("float32"), "S"),
        Param("y_zero_point", dtypes("uint8"), "T2"),
    ),
    _dynamic_rule, lambda attrs, x: dynamic(x), since=(11,), samples=_dynamic_samples,
)  # fmt: skip
