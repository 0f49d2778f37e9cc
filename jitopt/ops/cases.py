"""Arrays for sample cases: small, odd shapes, the same on every run."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitopt.ops.operator import Array, Sample


def floats(*shape: int, low: float = -2.0, high: float = 2.0, dtype: str = "float32", seed: int = 0) -> Array:
    """Uniform values in [low, high)."""
    generator = np.random.default_rng([seed, *shape])
    return np.asarray(generator.uniform(low, high, shape)).astype(dtype)


def ints(*shape: int, low: int = -9, high: int = 10, dtype: str = "int64", seed: int = 0) -> Array:
    """Uniform integers in [low, high)."""
    generator = np.random.default_rng([seed, *shape])
    return np.asarray(generator.integers(low, high, shape)).astype(dtype)


def bools(*shape: int, seed: int = 0) -> Array:
    return ints(*shape, low=0, high=2, seed=seed).astype(bool)


def counting(*shape: int, dtype: str = "float32") -> Array:
    """0, 1, 2, ... in row-major order: every element tells where it came from."""
    return np.arange(int(np.prod(shape, dtype=np.int64))).reshape(shape).astype(dtype)


def specials(dtype: str = "float32") -> Array:
    """Both zeros, ones, halves, infinities, NaN, a denormal and numbers near the ends of float32's range."""
    values = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.5, -2.5, np.inf, -np.inf, np.nan, 1e-40, 88.0, -104.0, 3e38, -3e38]
    with np.errstate(over="ignore"):
        return np.array(values).astype(dtype)


def vector(*values: Any, dtype: str = "int64") -> Array:
    """A 1-D tensor: axes, sizes, pads."""
    return np.array(values, dtype)


def scalar(value: Any, dtype: str = "float32") -> Array:
    return np.array(value, dtype)


def sample(*inputs: Any, opset: int | None = None, outputs: int = 1, **attrs: Any) -> Sample:
    """A case with its attributes as keywords."""
    return Sample(inputs, attrs, opset, outputs)
