"""Comparisons, logic and selection by ONNX's names; bool tensors are Masks in registers."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitopt_kernels.simd import inlined, isnan, select
from jitopt_kernels.simd import select as where

_INFINITY, _NAN = np.float32(np.inf), np.float32(np.nan)


@inlined
def equal(a: Any, b: Any) -> Any:
    """a == b; false for NaN."""
    return a == b


@inlined
def not_equal(a: Any, b: Any) -> Any:
    """a != b; true for NaN."""
    return a != b


@inlined
def less(a: Any, b: Any) -> Any:
    """a < b."""
    return a < b


@inlined
def less_or_equal(a: Any, b: Any) -> Any:
    """a <= b."""
    return a <= b


@inlined
def greater(a: Any, b: Any) -> Any:
    """a > b."""
    return a > b


@inlined
def greater_or_equal(a: Any, b: Any) -> Any:
    """a >= b."""
    return a >= b


@inlined
def logical_and(a: Any, b: Any) -> Any:
    """Both."""
    return a & b


@inlined
def logical_or(a: Any, b: Any) -> Any:
    """Either."""
    return a | b


@inlined
def logical_xor(a: Any, b: Any) -> Any:
    """One of the two."""
    return a ^ b


@inlined
def logical_not(x: Any) -> Any:
    """Not x."""
    return ~x


@inlined
def isinf(x: Any, detect_negative: Any, detect_positive: Any) -> Any:
    """Infinities of the signs whose flag, a scalar, is not 0: x is compared with NaN where the flag is 0."""
    return (x == select(detect_negative != 0, -_INFINITY, _NAN)) | (x == select(detect_positive != 0, _INFINITY, _NAN))


__all__ = [
    "equal",
    "greater",
    "greater_or_equal",
    "isinf",
    "isnan",
    "less",
    "less_or_equal",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "not_equal",
    "where",
]
