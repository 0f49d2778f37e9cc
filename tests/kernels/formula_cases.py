"""Every formula as an expression of registers x and y, with what it should give in float64.

`python -m tests.kernels.formula_cases FILE` evaluates all of them as kernels would, loads and stores included, and
saves the results: with NUMBA_DISABLE_JIT=1 the same kernels run in Python on NumPy arrays.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping

import numpy as np
import scipy.special
from jitopt_kernels import formulas

from tests.kernels.registers import evaluate

Reference = Callable[[np.ndarray, np.ndarray], np.ndarray]
COUNT = 256


def _gelu_tanh(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def _softplus(x: np.ndarray) -> np.ndarray:
    return np.logaddexp(x, 0)


FLOATS: dict[str, Reference] = {
    "relu(x)": lambda x, y: np.where(x < 0, 0, x),
    "leaky_relu(x, f32(0.1))": lambda x, y: np.where(x < 0, 0.1 * x, x),
    "prelu(x, y)": lambda x, y: np.where(x < 0, y * x, x),
    "thresholded_relu(x, f32(1))": lambda x, y: np.where(x > 1, x, 0),
    "shrink(x, f32(0.25), f32(0.5))": lambda x, y: np.where(x < -0.5, x + 0.25, np.where(x > 0.5, x - 0.25, 0)),
    "elu(x, f32(0.7))": lambda x, y: np.where(x < 0, 0.7 * np.expm1(x), x),
    "celu(x, f32(2))": lambda x, y: np.where(x < 0, 2 * np.expm1(x / 2), x),
    "selu(x, f32(1.6), f32(1.1))": lambda x, y: 1.1 * np.where(x < 0, 1.6 * np.expm1(x), x),
    "clip(x, f32(-1), f32(6))": lambda x, y: np.clip(x, -1, 6),
    "clip(x, y, y)": lambda x, y: np.where(np.isnan(y), x, np.where(np.isnan(x), x, y)),
    "hardsigmoid(x, f32(0.2), f32(0.5))": lambda x, y: np.clip(0.2 * x + 0.5, 0, 1),
    "hardswish(x)": lambda x, y: x * np.clip(x / 6 + 0.5, 0, 1),
    "sigmoid(x)": lambda x, y: scipy.special.expit(x),
    "silu(x)": lambda x, y: x * scipy.special.expit(x),
    "swish(x, f32(1.5))": lambda x, y: x * scipy.special.expit(1.5 * x),
    "softplus(x)": lambda x, y: _softplus(x),
    "mish(x)": lambda x, y: x * np.tanh(_softplus(x)),
    "softsign(x)": lambda x, y: x / (1 + np.abs(x)),
    "tanh(x)": lambda x, y: np.tanh(x),
    "gelu_erf(x)": lambda x, y: 0.5 * x * (1 + scipy.special.erf(x / math.sqrt(2))),
    "gelu_tanh(x)": _gelu_tanh,
    "gelu_sigmoid(x)": lambda x, y: x * scipy.special.expit(1.702 * x),
    "exp(x)": lambda x, y: np.exp(x),
    "log(x)": lambda x, y: np.log(x),
    "sqrt(x)": lambda x, y: np.sqrt(x),
    "rsqrt(x)": lambda x, y: 1 / np.sqrt(x),
    "reciprocal(x)": lambda x, y: 1 / x,
    "erf(x)": lambda x, y: scipy.special.erf(x),
    "sin(x)": lambda x, y: np.sin(x),
    "cos(x)": lambda x, y: np.cos(x),
    "tan(x)": lambda x, y: np.tan(x),
    "asin(x)": lambda x, y: np.arcsin(x),
    "acos(x)": lambda x, y: np.arccos(x),
    "atan(x)": lambda x, y: np.arctan(x),
    "sinh(x)": lambda x, y: np.sinh(x),
    "cosh(x)": lambda x, y: np.cosh(x),
    "asinh(x)": lambda x, y: np.arcsinh(x),
    "acosh(x)": lambda x, y: np.arccosh(x),
    "atanh(x)": lambda x, y: np.arctanh(x),
    "abs(x)": lambda x, y: np.abs(x),
    "neg(x)": lambda x, y: -x,
    "sign(x)": lambda x, y: np.sign(x),
    "floor(x)": lambda x, y: np.floor(x),
    "ceil(x)": lambda x, y: np.ceil(x),
    "round(x)": lambda x, y: np.rint(x),
    "square(x)": lambda x, y: x * x,
    "identity(x)": lambda x, y: x,
    "add(x, y)": lambda x, y: x + y,
    "sub(x, y)": lambda x, y: x - y,
    "mul(x, y)": lambda x, y: x * y,
    "div(x, y)": lambda x, y: x / y,
    "pow(x, y)": lambda x, y: np.power(x, y),
    "pow(abs(x), cast(y, 'int32'))": lambda x, y: np.power(np.abs(x), _whole(y)),
    "fmod(x, y)": lambda x, y: np.fmod(x, y),
    "mod(x, y)": lambda x, y: np.mod(x, y),
    "minimum(x, y)": lambda x, y: np.minimum(x, y),
    "maximum(x, y)": lambda x, y: np.maximum(x, y),
    "where(less(x, y), x, f32(9))": lambda x, y: np.where(x < y, x, 9),
    "cast(cast(x, 'int32'), 'float32')": lambda x, y: _whole(x),
    "dequantize(quantize_int8(x, f32(0.1), 3), f32(0.5), 3)": lambda x, y: _quantised(x, -128, 127),
    "dequantize(quantize_uint8(x, f32(0.1), 3), f32(0.5), 3)": lambda x, y: _quantised(x, 0, 255),
}  # fmt: skip

TRUTHS: dict[str, Reference] = {
    "equal(x, y)": lambda x, y: x == y,
    "not_equal(x, y)": lambda x, y: x != y,
    "less(x, y)": lambda x, y: x < y,
    "less_or_equal(x, y)": lambda x, y: x <= y,
    "greater(x, y)": lambda x, y: x > y,
    "greater_or_equal(x, y)": lambda x, y: x >= y,
    "isnan(x)": lambda x, y: np.isnan(x),
    "isinf(x, f32(1), f32(1))": lambda x, y: np.isinf(x),
    "isinf(x, f32(0), f32(1))": lambda x, y: np.isposinf(x),
    "isinf(x, f32(1), f32(0))": lambda x, y: np.isneginf(x),
    "logical_and(less(x, y), isnan(x))": lambda x, y: np.zeros(len(x), bool),
    "logical_or(less(x, y), isnan(x))": lambda x, y: (x < y) | np.isnan(x),
    "logical_xor(less(x, y), greater(x, f32(0)))": lambda x, y: (x < y) ^ (x > 0),
    "logical_not(cast(x, 'bool'))": lambda x, y: x == 0,
}

WHOLE: dict[str, Reference] = {
    "relu(x)": lambda x, y: np.maximum(x, 0),
    "clip(x, -3, 5)": lambda x, y: np.clip(x, -3, 5),
    "add(x, y)": lambda x, y: x + y,
    "sub(x, y)": lambda x, y: x - y,
    "mul(x, y)": lambda x, y: x * y,
    "neg(x)": lambda x, y: -x,
    "abs(x)": lambda x, y: np.abs(x),
    "sign(x)": lambda x, y: np.sign(x),
    "minimum(x, y)": lambda x, y: np.minimum(x, y),
    "maximum(x, y)": lambda x, y: np.maximum(x, y),
    "div(x, y)": lambda x, y: np.where(y == 0, x, np.trunc(x / np.where(y == 0, 1, y)).astype(np.int64)),
    "mod(x, y)": lambda x, y: np.where(y == 0, 0, np.mod(x, np.where(y == 0, 1, y))),
    "fmod(x, y)": lambda x, y: np.where(y == 0, 0, np.fmod(x, np.where(y == 0, 1, y))),
    "pow(x, abs(y))": lambda x, y: np.power(x, np.abs(y)),
    "pow(x, cast(abs(y), 'float32'))": lambda x, y: np.power(x, np.abs(y)),
    "bitwise_and(x, y)": lambda x, y: x & y,
    "bitwise_or(x, y)": lambda x, y: x | y,
    "bitwise_xor(x, y)": lambda x, y: x ^ y,
    "bitwise_not(x)": lambda x, y: ~x,
    "shift_left(x, abs(y))": lambda x, y: x << np.abs(y),
    "shift_right(x, abs(y))": lambda x, y: x >> np.abs(y),
    "where(greater(x, y), x, 7)": lambda x, y: np.where(x > y, x, 7),
}

GROUPS: dict[str, tuple[dict[str, Reference], str, str]] = {
    "floats": (FLOATS, "float32", "float32"),
    "truths": (TRUTHS, "float32", "bool"),
    "int32": (WHOLE, "int32", "int32"),
    "int64": (WHOLE, "int64", "int64"),
}


def _whole(x: np.ndarray) -> np.ndarray:
    return np.clip(np.trunc(np.nan_to_num(x, nan=0, posinf=2.0**31, neginf=-(2.0**31))), -(2.0**31), 2.0**31)


def _quantised(x: np.ndarray, low: int, high: int) -> np.ndarray:
    steps = np.rint(np.float32(x) / np.float32(0.1)).astype(np.float64)
    return (np.nan_to_num(np.clip(steps + 3, low, high), nan=0) - 3) * 0.5


def operands(group: str) -> tuple[np.ndarray, np.ndarray]:
    """x and y of a group: values where formulas bend, and special ones; small enough integers not to wrap."""
    random, dtype = np.random.default_rng(4), GROUPS[group][1]
    if dtype != "float32":
        x, y = random.integers(-9, 10, (2, COUNT))
        return x.astype(dtype), y.astype(dtype)
    x, y = (random.standard_normal((2, COUNT)) * 3).astype(np.float32)
    x[:16] = [0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 0.5, -0.5, 1.5, 2.5, -2.5, 88, -88, 3e9, -3e9]
    y[16:32] = x[:16]
    y[32:64] = x[32:64]
    return x, y


def results(group: str, scalars: bool = False) -> dict[str, np.ndarray]:
    """What every expression of a group gives on registers, or on one element after another."""
    cases, _, target = GROUPS[group]
    with np.errstate(all="ignore"):
        rows = evaluate(list(cases), *operands(group), target, vars(formulas), scalars)
    return dict(zip(cases, rows, strict=True))


def expected(group: str) -> Mapping[str, np.ndarray]:
    """What the references give, in float64 or int64."""
    x, y = operands(group)
    wide = np.float64 if x.dtype.kind == "f" else np.int64
    with np.errstate(all="ignore"):
        return {case: reference(x.astype(wide), y.astype(wide)) for case, reference in GROUPS[group][0].items()}


if __name__ == "__main__":
    found = {f"{group}: {case}": row for group in GROUPS for case, row in results(group).items()}
    np.savez(sys.argv[1], **found)
