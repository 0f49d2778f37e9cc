"""Arithmetic, rounding, bits, conversions and quantisation by ONNX's names.

Integer arithmetic wraps, division truncates toward zero and takes 1 for a divisor of 0, shifts beyond the width give
what shifting bit by bit would.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jitopt_kernels.simd import absolute as abs
from jitopt_kernels.simd import ceil, convert, floor, inlined, maximum, minimum, rint, select, sqrt
from jitopt_kernels.simd import convert as cast
from jitopt_kernels.simd import divide as div
from jitopt_kernels.simd import rint as round

_ONE = np.float32(1)


@inlined
def add(a: Any, b: Any) -> Any:
    """a + b."""
    return a + b


@inlined
def sub(a: Any, b: Any) -> Any:
    """a - b."""
    return a - b


@inlined
def mul(a: Any, b: Any) -> Any:
    """a b."""
    return a * b


@inlined
def neg(x: Any) -> Any:
    """-x."""
    return -x


@inlined
def sign(x: Any) -> Any:
    """-1, 0 or 1; NaN for NaN."""
    return select(x > 0, 1, select(x < 0, -1, x))


@inlined
def identity(x: Any) -> Any:
    """x."""
    return x


@inlined
def square(x: Any) -> Any:
    """x x."""
    return x * x


@inlined
def rsqrt(x: Any) -> Any:
    """1 / sqrt(x), each correctly rounded."""
    return _ONE / sqrt(x)


@inlined
def bitwise_and(a: Any, b: Any) -> Any:
    """a & b."""
    return a & b


@inlined
def bitwise_or(a: Any, b: Any) -> Any:
    """a | b."""
    return a | b


@inlined
def bitwise_xor(a: Any, b: Any) -> Any:
    """a ^ b."""
    return a ^ b


@inlined
def bitwise_not(x: Any) -> Any:
    """Every bit of x inverted."""
    return ~x


@inlined
def shift_left(x: Any, count: Any) -> Any:
    """BitShift to the left."""
    return x << count


@inlined
def shift_right(x: Any, count: Any) -> Any:
    """BitShift to the right; the sign bit fills in."""
    return x >> count


@inlined
def quantize_int8(x: Any, scale: Any, zero_point: Any) -> Any:
    """QuantizeLinear: x / scale rounded to even, plus zero_point, saturated to int8."""
    return convert(rint(x / scale) + zero_point, "int8")


@inlined
def quantize_uint8(x: Any, scale: Any, zero_point: Any) -> Any:
    """QuantizeLinear: x / scale rounded to even, plus zero_point, saturated to uint8."""
    return convert(rint(x / scale) + zero_point, "uint8")


@inlined
def dequantize(x: Any, scale: Any, zero_point: Any) -> Any:
    """DequantizeLinear of int8, uint8 or int32: (x - zero_point) scale in float32."""
    return convert(convert(x, "int32") - zero_point, "float32") * scale


__all__ = [
    "abs",
    "add",
    "bitwise_and",
    "bitwise_not",
    "bitwise_or",
    "bitwise_xor",
    "cast",
    "ceil",
    "dequantize",
    "div",
    "floor",
    "identity",
    "maximum",
    "minimum",
    "mul",
    "neg",
    "quantize_int8",
    "quantize_uint8",
    "round",
    "rsqrt",
    "shift_left",
    "shift_right",
    "sign",
    "square",
    "sub",
]
