"""Activation functions. Parameters are scalars of the tensor's dtype; NaN goes through every one of them.

A formula says what one register of elements becomes; body and masked tail run the same code, and with the JIT off
the same code runs on NumPy arrays. Sources are ONNX's operator definitions unless a docstring names another.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jitopt_kernels.simd import (
    absolute,
    erf,
    exp,
    expm1,
    fma,
    inlined,
    log1p,
    maximum,
    over_one_plus_exp,
    select,
)

_HALF, _ONE, _TWO, _SIXTH = (np.float32(value) for value in (0.5, 1, 2, 1 / 6))
_SQRT_HALF = np.float32(np.sqrt(0.5))
# 2 sqrt(2 / pi), and the same times 0.044715.
_GELU_LINEAR, _GELU_CUBIC = np.float32(1.5957691216057308), np.float32(0.07135481627260025)
_GELU_SIGMOID = np.float32(1.702)
_MISH_LINEAR = np.float32(20.0)  # from here on mish(x) rounds to x


@inlined
def relu(x: Any) -> Any:
    """max(x, 0)."""
    return select(x < 0, 0, x)


@inlined
def leaky_relu(x: Any, alpha: Any) -> Any:
    """x above 0, alpha x below."""
    return select(x < 0, x * alpha, x)


@inlined
def prelu(x: Any, slope: Any) -> Any:
    """x above 0, slope x below."""
    return select(x < 0, x * slope, x)


@inlined
def thresholded_relu(x: Any, alpha: Any) -> Any:
    """x above alpha, else 0; NaN becomes 0, as the comparison says."""
    return select(x > alpha, x, 0)


@inlined
def shrink(x: Any, bias: Any, lambd: Any) -> Any:
    """x + bias below -lambd, x - bias above lambd, 0 between."""
    return select(x < -lambd, x + bias, select(x > lambd, x - bias, 0))


@inlined
def elu(x: Any, alpha: Any) -> Any:
    """x above 0, alpha (e**x - 1) below (Clevert and others, arXiv 1511.07289)."""
    return select(x < 0, alpha * expm1(x), x)


@inlined
def celu(x: Any, alpha: Any) -> Any:
    """x above 0, alpha (e**(x / alpha) - 1) below (Barron, arXiv 1704.07483)."""
    return select(x < 0, alpha * expm1(x / alpha), x)


@inlined
def selu(x: Any, alpha: Any, gamma: Any) -> Any:
    """gamma times elu (Klambauer and others, arXiv 1706.02515)."""
    return gamma * select(x < 0, alpha * expm1(x), x)


@inlined
def clip(x: Any, lo: Any, hi: Any) -> Any:
    """x within [lo, hi]; hi where lo > hi."""
    raised = select(x < lo, lo, x)
    return select(raised > hi, hi, raised)


@inlined
def hardsigmoid(x: Any, alpha: Any, beta: Any) -> Any:
    """alpha x + beta within [0, 1]."""
    y = x * alpha + beta
    y = select(y < 0, 0, y)
    return select(y > 1, 1, y)


@inlined
def hardswish(x: Any) -> Any:
    """x times hardsigmoid(x, 1/6, 1/2) (Howard and others, arXiv 1905.02244)."""
    y = x * _SIXTH + _HALF
    y = select(y < 0, 0, y)
    return x * select(y > 1, 1, y)


@inlined
def silu(x: Any) -> Any:
    """x sigmoid(x) (Hendrycks and Gimpel, arXiv 1606.08415)."""
    return over_one_plus_exp(x, -x)


@inlined
def swish(x: Any, alpha: Any) -> Any:
    """x sigmoid(alpha x)."""
    return over_one_plus_exp(x, -(x * alpha))


@inlined
def softplus(x: Any) -> Any:
    """log(1 + e**x), as max(x, 0) + log1p(e**-|x|)."""
    return maximum(x, 0) + log1p(exp(-absolute(x)))


@inlined
def mish(x: Any) -> Any:
    """x tanh(softplus(x)) (Misra, arXiv 1908.08681): with w = e**x, tanh is w (w + 2) / (w (w + 2) + 2)."""
    w = exp(select(x > _MISH_LINEAR, _MISH_LINEAR, x))
    y = w * (w + _TWO)
    return select(x > _MISH_LINEAR, x, x * (y / (y + _TWO)))


@inlined
def softsign(x: Any) -> Any:
    """x / (1 + |x|)."""
    return x / (_ONE + absolute(x))


@inlined
def gelu_erf(x: Any) -> Any:
    """x times the normal distribution function, exact (Hendrycks and Gimpel, arXiv 1606.08415)."""
    half = x * _HALF
    return half + half * erf(x * _SQRT_HALF)


@inlined
def gelu_tanh(x: Any) -> Any:
    """The tanh approximation of gelu_erf, of the same paper; (1 + tanh(u)) / 2 is sigmoid(2 u). Error below 5e-4."""
    return over_one_plus_exp(x, -x * fma(x * x, _GELU_CUBIC, _GELU_LINEAR))


@inlined
def gelu_sigmoid(x: Any) -> Any:
    """The sigmoid approximation of gelu_erf, of the same paper. Error up to 2e-2."""
    return over_one_plus_exp(x, x * -_GELU_SIGMOID)


__all__ = [
    "celu",
    "clip",
    "elu",
    "gelu_erf",
    "gelu_sigmoid",
    "gelu_tanh",
    "hardsigmoid",
    "hardswish",
    "leaky_relu",
    "mish",
    "prelu",
    "relu",
    "selu",
    "shrink",
    "silu",
    "softplus",
    "softsign",
    "swish",
    "thresholded_relu",
]
