"""Products of quantised tensors: QLinearConv, QLinearMatMul, com.microsoft MatMulIntegerToFloat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jitopt.ir.dims import Shape
from jitopt.ir.dtypes import DType
from jitopt.ir.graph import Node
from jitopt.ops import cases
from jitopt.ops.contraction import integer_matmul, matmul_shape
from jitopt.ops.convolution import CONV_ATTRIBUTES, centred, conv_shape, convolve
from jitopt.ops.geometry import window
from jitopt.ops.operator import Array, Attrs, Kind, Param, Sample
from jitopt.ops.quantisation import quantise
from jitopt.ops.rules import require, shape_of, shape_or_none, show
from jitopt.ops.signature import BYTES, declare, dtypes

# In the samples signed weights keep to 7 bits: without VNNI, ONNX Runtime's sums of two products saturate at int16.
FLOAT = dtypes("float32")
HALF_OR_FLOAT = dtypes("float32 float16")
_REAL = HALF_OR_FLOAT | dtypes("bfloat16")
_EIGHT = BYTES | dtypes("float8e4m3fn float8e4m3fnuz float8e5m2 float8e5m2fnuz")
Types = frozenset[DType]


def quantised(*names: str, allowed: Types = BYTES, scales: Types = FLOAT) -> tuple[Param, ...]:
    """The formal inputs (tensor, scale, zero point) of each operand, those of the result last: quantised("a", "b")."""
    params: list[Param] = []
    for i, name in enumerate((*names, "y"), 1):
        tensor = [Param(name, allowed, f"T{i}")] if name != "y" else []
        params += [*tensor, Param(f"{name}_scale", scales, "TS"), Param(f"{name}_zero_point", allowed, f"T{i}")]
    return tuple(params)


def _single(node: Node, indices: Sequence[int]) -> None:
    """These inputs hold one number each."""
    for index in indices:
        shape = shape_of(node, index)
        require(all(d == 1 for d in shape), f"input {index} must be one number, not of shape {show(shape)}")


# QLinearConv --------------------------------------------------------------------------------------------------------
def _conv_rule(node: Node, attrs: Attrs) -> Sequence[Shape]:
    _single(node, (1, 2, 6, 7))
    return [conv_shape(attrs, shape_of(node, 0), shape_of(node, 3), shape_or_none(node, 8))]


def _qlinear_conv(
    attrs: Attrs, x: Array, x_scale: Array, x_zero: Array, w: Array, w_scale: Array, w_zero: Array, y_scale: Array,
    y_zero: Array, bias: Array | None = None,
) -> Array:  # fmt: skip
    """The exact int32 sums, times x_scale * w_scale / y_scale, rounded; scales of w may be one an output channel."""
    win = window(attrs, x.shape[2:], w.shape[2:])
    sums = convolve(centred(x, x_zero.reshape(())), centred(w, w_zero, 0), win, attrs.group)
    ones = (1,) * (x.ndim - 2)
    if bias is not None:
        sums = sums + bias.reshape(-1, *ones)
    factor = (x_scale.reshape(()) * w_scale / y_scale.reshape(())).astype(np.float32)
    factor = factor.reshape(-1, *ones) if factor.size > 1 else factor.reshape(())
    return quantise(sums.astype(np.float32) * factor, 1, y_zero.reshape(()), y_zero.dtype)


def _conv_samples() -> list[Sample]:
    x, w = (
        cases.ints(1, 2, 7, 6, low=0, high=255, dtype="uint8"),
        cases.ints(4, 2, 3, 3, low=0, high=255, dtype="uint8"),
    )
    signed, bias = (
        cases.ints(4, 2, 3, 3, low=-64, high=64, dtype="int8"),
        cases.ints(4, low=-5000, high=5000, dtype="int32"),
    )
    xs, ws, ys = cases.scalar(0.013), cases.scalar(0.021), cases.scalar(0.17)
    xz, wz, yz = cases.scalar(113, "uint8"), cases.scalar(127, "uint8"), cases.scalar(120, "uint8")
    per_channel = cases.floats(4, low=0.01, high=0.03), np.zeros(4, np.int8)
    grouped: dict[str, Any] = {"group": 2, "pads": [1, 1, 1, 1]}
    return [
        cases.sample(x, xs, xz, w, ws, wz, ys, yz),
        cases.sample(x, xs, xz, w, ws, wz, ys, yz, bias, pads=[1, 0, 1, 0], strides=[2, 1]),
        cases.sample(x, xs, xz, signed, *per_channel, ys, yz, bias),
        cases.sample(x, xs, xz, w[:, :1].copy(), ws, wz, ys, yz, **grouped),
    ]


declare(
    "QLinearConv", Kind.CONTRACT,
    (*quantised("x", "w"), Param("B", dtypes("int32"), "T4", optional=True)), (Param("y", BYTES, "T3"),),
    _conv_rule, _qlinear_conv, since=(10,), attributes=CONV_ATTRIBUTES, samples=_conv_samples,
)  # fmt: skip


# QLinearMatMul ------------------------------------------------------------------------------------------------------
def _matmul_rule(node: Node, attrs: Attrs) -> Sequence[Shape]:
    return [matmul_shape(shape_of(node, 0), shape_of(node, 3))]


def _rows(scale: Array) -> Array:
    """A scale of A: one number, or one a row."""
    return (
        scale[..., None]
        if scale.ndim == 1 and scale.size > 1
        else scale.reshape(() if scale.size == 1 else scale.shape)
    )


def _qlinear_matmul(
    attrs: Attrs, a: Array, a_scale: Array, a_zero: Array, b: Array, b_scale: Array, b_zero: Array, y_scale: Array,
    y_zero: Array,
) -> Array:  # fmt: skip
    sums = integer_matmul(a, b, a_zero, b_zero).astype(np.float32)
    columns = b_scale if b_scale.size > 1 else b_scale.reshape(())
    factor = (_rows(a_scale) * columns / y_scale.reshape(())).astype(np.float32)
    return quantise(sums * factor, 1, y_zero.reshape(()), y_zero.dtype)


def _matmul_samples() -> list[Sample]:
    a, b = cases.ints(3, 5, low=0, high=255, dtype="uint8"), cases.ints(5, 4, low=0, high=255, dtype="uint8", seed=1)
    deep = cases.ints(2, 3, 5, low=0, high=255, dtype="uint8")
    signed = cases.ints(5, 4, low=-64, high=64, dtype="int8")
    xs, ws, ys = cases.scalar(0.013), cases.scalar(0.021), cases.scalar(0.17)
    az, bz, yz = cases.scalar(113, "uint8"), cases.scalar(127, "uint8"), cases.scalar(120, "uint8")
    return [
        cases.sample(a, xs, az, b, ws, bz, ys, yz),
        cases.sample(deep, xs, az, b, ws, bz, ys, yz),
        cases.sample(a, xs, az, signed, ws, cases.scalar(3, "int8"), ys, yz),
        cases.sample(a, xs, az, signed, cases.floats(4, low=0.01, high=0.03), np.zeros(4, np.int8), ys, yz),
    ]


declare(
    "QLinearMatMul", Kind.CONTRACT, quantised("a", "b", allowed=_EIGHT, scales=_REAL), (Param("y", _EIGHT, "T3"),),
    _matmul_rule, _qlinear_matmul, since=(10, 21), samples=_matmul_samples,
)  # fmt: skip


# MatMulIntegerToFloat -----------------------------------------------------------------------------------------------
def _to_float_rule(node: Node, attrs: Attrs) -> Sequence[Shape]:
    return [matmul_shape(shape_of(node, 0), shape_of(node, 1))]


def _to_float(
    attrs: Attrs, a: Array, b: Array, a_scale: Array, b_scale: Array, a_zero: Array | None = None,
    b_zero: Array | None = None, bias: Array | None = None,
) -> Array:  # fmt: skip
    """The exact int32 products times the scales, plus a bias."""
    columns = b_scale if b_scale.size > 1 else b_scale.reshape(())
    out = integer_matmul(a, b, a_zero, b_zero) * (_rows(a_scale) * columns).astype(np.float64)
    return np.asarray((out if bias is None else out + bias).astype(a_scale.dtype))


def _to_float_samples() -> list[Sample]:
    a, b = cases.ints(3, 5, low=0, high=255, dtype="uint8"), cases.ints(5, 4, low=-64, high=64, dtype="int8")
    a_scale, b_scale, scales = cases.scalar(0.013), cases.scalar(0.021), cases.floats(4, low=0.01, high=0.03)
    a_zero, b_zero, bias = cases.scalar(113, "uint8"), cases.scalar(3, "int8"), cases.floats(4)
    deep = cases.ints(2, 3, 5, low=0, high=255, dtype="uint8")
    return [
        cases.sample(a, b, a_scale, b_scale),
        cases.sample(a, b, a_scale, b_scale, a_zero, b_zero, bias),
        cases.sample(deep, b, a_scale, scales, a_zero, cases.vector(1, -2, 3, 0, dtype="int8"), bias),
        cases.sample(a, b, a_scale, scales, a_zero),
    ]


declare(
    "com.microsoft.MatMulIntegerToFloat", Kind.CONTRACT,
    (
        Param("A", BYTES, "T1"), Param("B", BYTES, "T2"), Param("a_scale", HALF_OR_FLOAT, "T3"),
        Param("b_scale", HALF_OR_FLOAT, "T3"), Param("a_zero_point", BYTES, "T1", optional=True),
        Param("b_zero_point", BYTES, "T2", optional=True), Param("bias", HALF_OR_FLOAT, "T3", optional=True),
    ),
    (Param("Y", HALF_OR_FLOAT, "T3"),), _to_float_rule, _to_float, since=(1,), samples=_to_float_samples,
)  # fmt: skip
