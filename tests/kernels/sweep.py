"""The largest error in ulp of every maths function over all float32 exponents, for the target of this process.

`python -m tests.kernels.sweep COUNT` prints {function: [error, argument, got, exact]} as JSON; with NUMBA_CPU_NAME and
NUMBA_CPU_FEATURES set it measures another target than the host's.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

import numpy as np
import scipy.special
from jitopt_kernels import simd

from tests.kernels.registers import every_exponent, mapped, mapped2, ulps

Reference = Callable[[np.ndarray], np.ndarray]


def _sigmoid(x: np.ndarray) -> np.ndarray:
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, 1.0) / (1 + e)


REFERENCES: dict[str, Reference] = {
    "exp": np.exp,
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "tanh": np.tanh,
    "sigmoid": _sigmoid,
    "erf": scipy.special.erf,
    "sqrt": np.sqrt,
    "reciprocal": np.reciprocal,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
}


def worst(name: str, x: np.ndarray) -> tuple[float, float, float, float]:
    """(error in ulp, argument, result, exact result) where a function errs most; its references are float64."""
    got = mapped(getattr(simd, name), "float32")(x)
    with np.errstate(all="ignore"):
        exact = REFERENCES[name](x.astype(np.float64))
    error = ulps(got, exact)
    at = int(np.argmax(error))
    return float(error[at]), float(x[at]), float(got[at]), float(exact[at])


def worst_power(count: int) -> tuple[float, float, float, float]:
    """The same for pow, over random pairs of sizes and signs; the argument given is the base."""
    random = np.random.default_rng(11)
    wide = every_exponent(64)
    base = np.concatenate([random.permutation(wide), np.exp(random.uniform(-9, 9, count))]).astype(np.float32)
    power = np.concatenate([random.permutation(wide), random.standard_normal(count) * 9]).astype(np.float32)
    power[::5] = np.rint(power[::5])
    got = mapped2(simd.pow, "float32")(base, power)
    with np.errstate(all="ignore"):
        exact = np.power(base.astype(np.float64), power.astype(np.float64))
    error = ulps(got, exact)
    at = int(np.argmax(error))
    return float(error[at]), float(base[at]), float(got[at]), float(exact[at])


def main(count: int) -> dict[str, tuple[float, float, float, float]]:
    x = every_exponent(count)
    return {name: worst(name, x) for name in REFERENCES} | {"pow": worst_power(128 * count)}


if __name__ == "__main__":
    print(json.dumps(main(int(sys.argv[1]))))
