"""Activation functions: maps of one tensor, with parameters as attributes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from jitopt.ir.dims import Shape
from jitopt.ir.graph import Node
from jitopt.ops import cases
from jitopt.ops.elementwise import unary
from jitopt.ops.operator import Array, Attribute, Attrs, Kind, Param, Sample
from jitopt.ops.rules import require, same, shape_of, show
from jitopt.ops.signature import NUMERIC, REALS, SIGNED, declare

ALPHA = Attribute("float", 1.0)
_STEP = 1 / 64
_GRID = np.array([math.erf(i * _STEP) for i in range(int(6 / _STEP) + 2)])


def erf(x: Array) -> Array:
    """The error function in float64, within 1e-15: Taylor's series about the nearest multiple of 1/64.

    Its derivatives are Hermite polynomials times the Gaussian (Abramowitz and Stegun, 7.1.19); beyond 6 it is 1.
    """
    wide = np.asarray(x, np.float64)
    size = np.minimum(np.abs(wide), 6.0)
    nearest = np.rint(np.where(np.isnan(size), 0.0, size) / _STEP).astype(np.int64)
    node = nearest * _STEP
    h = size - node
    slope = 2 / math.sqrt(math.pi) * np.exp(-node * node)
    before, term = np.zeros_like(node), np.ones_like(node)  # Hermite polynomials, divided by factorials
    total, power = np.zeros_like(node), h
    for k in range(7):
        total = total + term * power / (k + 1)
        before, term = term, -2 * (node * term + before) / (k + 1)
        power = power * h
    return np.asarray(np.copysign(_GRID[nearest] + slope * total, wide))


def sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def softplus(x: Array) -> Array:
    return np.asarray(np.logaddexp(x, np.zeros((), x.dtype)))


def gelu(x: Array, approximate: str = "none") -> Array:
    """x * Phi(x), with the normal distribution exact or through tanh (Hendrycks and Gimpel, arXiv 1606.08415)."""
    wide = x.astype(np.float64)
    if approximate == "tanh":
        inner = math.sqrt(2 / math.pi) * (wide + 0.044715 * wide**3)
        return np.asarray(0.5 * wide * (1 + np.tanh(inner)))
    return np.asarray(0.5 * wide * (1 + erf(wide / math.sqrt(2))))


def _relu(x: Array) -> Array:
    return np.where(x < 0, np.zeros((), x.dtype), x)


def _celu(x: Array, alpha: float) -> Array:
    return np.where(x < 0, alpha * np.expm1(x / alpha), x)


def _shrink(x: Array, bias: float, lambd: float) -> Array:
    wide = x.astype(np.float64)
    return np.where(wide < -lambd, wide + bias, np.where(wide > lambd, wide - bias, 0.0))


def _with(*values: Any, name: str = "alpha") -> Any:
    """Samples at the default and at other values of one attribute."""
    x = cases.floats(3, 5, 7, low=-4, high=4)

    def build() -> list[Sample]:
        out = [cases.sample(x), cases.sample(cases.floats(2, 0, 3))]
        return out + [cases.sample(x, **{name: value}) for value in values]

    return build


unary("Erf", (9, 13), erf)
unary("Relu", (6, 13, 14), _relu, allowed=REALS | SIGNED)
unary("Sigmoid", (6, 13), sigmoid)
unary("Softplus", (1, 22), softplus)
unary("Softsign", (1, 22), lambda x: x / (1 + np.abs(x)))
unary("HardSwish", (14, 22), lambda x: x * np.clip(x / 6 + 0.5, 0, 1))
unary("Mish", (18, 22), lambda x: x * np.tanh(softplus(x)))
unary(
    "LeakyRelu", (6, 16), lambda x, alpha: np.where(x < 0, alpha * x, x), formula="leaky_relu",
    attributes={"alpha": Attribute("float", 0.01)}, samples=_with(0.3, -1.5),
)  # fmt: skip
unary(
    "Elu", (6, 22), lambda x, alpha: np.where(x < 0, alpha * np.expm1(x), x),
    attributes={"alpha": ALPHA}, samples=_with(0.3),
)  # fmt: skip
unary("Celu", (12, 28), _celu, attributes={"alpha": ALPHA}, samples=_with(0.3, 2.0))
unary(
    "Selu", (6, 22), lambda x, alpha, gamma: gamma * np.where(x > 0, x, alpha * np.expm1(x)),
    attributes={"alpha": Attribute("float", 1.67326319), "gamma": Attribute("float", 1.05070102)}, samples=_with(0.3),
)  # fmt: skip
unary(
    "ThresholdedRelu", (10, 22), lambda x, alpha: np.where(x > alpha, x, 0), formula="thresholded_relu",
    attributes={"alpha": ALPHA}, samples=_with(0.3, -0.5),
)  # fmt: skip
unary(
    "HardSigmoid", (6, 22), lambda x, alpha, beta: np.clip(alpha * x + beta, 0, 1),
    attributes={"alpha": Attribute("float", 0.2), "beta": Attribute("float", 0.5)}, samples=_with(1 / 6, 0.7),
)  # fmt: skip
unary("Swish", (24,), lambda x, alpha: x * sigmoid(alpha * x), attributes={"alpha": ALPHA}, samples=_with(1.702))
unary(
    "Gelu", (20,), gelu, formula="gelu_erf", samples=_with("none", "tanh", name="approximate"),
    attributes={"approximate": Attribute("string", "none", choices=("none", "tanh"))},
)  # fmt: skip
unary(
    "Shrink", (9,), _shrink, allowed=NUMERIC, samples=_with(0.9, name="lambd"),
    attributes={"bias": Attribute("float", 0.0), "lambd": Attribute("float", 0.5)},
)  # fmt: skip


# SwiGLU -------------------------------------------------------------------------------------------------------------
def _swiglu_shape(node: Node, attrs: Attrs) -> Sequence[Shape]:
    gate, value = shape_of(node, 0), shape_of(node, 1)
    require(len(gate) == len(value), f"gate {show(gate)} and value {show(value)} differ in shape")
    return [tuple(same(a, b, "gate and value differ in shape") for a, b in zip(gate, value, strict=True))]


declare(
    "SwiGLU", Kind.MAP, (Param("A", REALS), Param("B", REALS)), (Param("Y", REALS),), _swiglu_shape,
    lambda attrs, gate, value: gate * sigmoid(attrs.alpha * gate) * value, since=(28,), attributes={"alpha": ALPHA},
    samples=lambda: [cases.sample(cases.floats(3, 5), cases.floats(3, 5, seed=1), alpha=a) for a in (1.0, 1.702)],
)  # fmt: skip
