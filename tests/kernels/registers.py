"""What the simd tests share: kernels over arrays, values of every dtype, bit-pattern sweeps, errors in ulp."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from jitopt_kernels import simd
from jitopt_kernels.simd import DTYPES, load, store
from numba import njit

LANES = 8
NAMES = tuple(DTYPES)
INTEGERS = tuple(name for name, dtype in DTYPES.items() if dtype.kind in "iu")
FLOATS = tuple(name for name, dtype in DTYPES.items() if dtype.kind == "f")


def mapped(function: Any, source: str, result: str = "", lanes: int = LANES) -> Callable[[np.ndarray], np.ndarray]:
    """An array function that applies a register function; the length must be a multiple of the lanes."""
    target = result or source
    size, size_out = DTYPES[source].size, DTYPES[target].size

    @njit(error_model="numpy")
    def kernel(x: int, y: int, count: int) -> None:
        for i in range(0, count, lanes):
            store(y + i * size_out, function(load(x + i * size, source, lanes)))

    def run(x: np.ndarray) -> np.ndarray:
        assert x.dtype == source and x.flags.c_contiguous and len(x) % lanes == 0
        y = np.empty(x.shape, target)
        kernel(x.ctypes.data, y.ctypes.data, len(x))
        return y

    return run


def mapped2(function: Any, source: str, result: str = "", lanes: int = LANES) -> Callable[..., np.ndarray]:
    """`mapped` for a function of two registers of one dtype."""
    target = result or source
    size, size_out = DTYPES[source].size, DTYPES[target].size

    @njit(error_model="numpy")
    def kernel(a: int, b: int, y: int, count: int) -> None:
        for i in range(0, count, lanes):
            store(y + i * size_out, function(load(a + i * size, source, lanes), load(b + i * size, source, lanes)))

    def run(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        assert a.dtype == b.dtype == source and len(a) == len(b) and len(a) % lanes == 0
        y = np.empty(a.shape, target)
        kernel(a.ctypes.data, b.ctypes.data, y.ctypes.data, len(a))
        return y

    return run


def evaluate(
    expressions: Sequence[str],
    x: np.ndarray,
    y: np.ndarray,
    result: str = "",
    names: Mapping[str, Any] | None = None,
    scalars: bool = False,
) -> np.ndarray:
    """Rows of what each expression of registers x and y gives, all in one kernel (compiling one costs 0.1 s).

    Expressions may use every public name of simd, `f32` and `names`; their results have dtype `result` (x's if "").
    With `scalars`, x and y are one element each.
    """
    target, count, step = result or x.dtype.name, len(x), 1 if scalars else LANES
    row = count * DTYPES[target].size
    text = ["def kernel(x_, y_, out):", f"    for i in range(0, {count}, {step}):"]
    load_one = "load_scalar({0}, {1!r})" if scalars else "load({0}, {1!r}, {2})"
    text += [f"        {v} = " + load_one.format(f"{v}_ + i * {x.itemsize}", x.dtype.name, LANES) for v in "xy"]
    where = f"i * {DTYPES[target].size}"
    put = "store_scalar" if scalars else "store"
    text += [f"        {put}(out + {k * row} + {where}, {expression})" for k, expression in enumerate(expressions)]
    space: dict[str, Any] = {**vars(simd), "f32": np.float32, **(names or {})}
    exec("\n".join(text), space)
    rows = np.empty((len(expressions), count), target)
    njit(error_model="numpy")(space["kernel"])(x.ctypes.data, y.ctypes.data, rows.ctypes.data)
    return rows


def every_exponent(mantissas: int) -> np.ndarray:
    """float32 of every sign and exponent, `mantissas` of each: the ends, the neighbours of sqrt(2), the rest random.

    Zeros, denormals, infinities and NaNs are among them; one set of random mantissas for each exponent.
    """
    random = np.random.default_rng(7)
    low = random.integers(0, 1 << 23, (512, mantissas), np.uint32)
    low[:, :6] = 0, 1, (1 << 23) - 1, 1 << 22, 0x3504F3, 0x3504F4
    return ((np.arange(512, dtype=np.uint32)[:, None] << 23) | low).ravel().view(np.float32)


def ulps(got: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """|got - exact| in units of float32's spacing at the exact value, given as float64.

    Infinite where one is NaN, or infinite in float32, and the other is not the same.
    """
    with np.errstate(all="ignore"):
        nearest = exact.astype(np.float32)
        spacing = np.spacing(np.abs(nearest)).astype(np.float64)
        error = np.abs(got.astype(np.float64) - exact) / spacing
    same = (got == nearest) | (np.isnan(got) & np.isnan(nearest))
    error = np.where(np.isfinite(nearest) & np.isfinite(got), error, np.where(same, 0.0, np.inf))
    # The largest float and infinity are neighbours: at the border either is within one ulp.
    border = (np.abs(exact) > np.finfo(np.float32).max * (1 - 2.0**-23)) & (np.abs(got) >= np.finfo(np.float32).max)
    return np.where(border & (np.sign(got) == np.sign(exact)), 0.0, error)


def special_integers(name: str, count: int = 512) -> np.ndarray:
    """Integers of a dtype: the ends, small ones of both signs, random ones."""
    info = np.iinfo(name)
    random = np.random.default_rng(count).integers(info.min, info.max, count, dtype=name, endpoint=True)
    small = np.arange(max(info.min, -12), 13).astype(name)
    values = np.concatenate([random, small, np.array([info.min, info.max, info.min + 1, info.max - 1], name)])
    return np.ascontiguousarray(np.resize(values, count))


def special_floats(name: str, count: int = 512) -> np.ndarray:
    """Floats of a dtype: zeros, infinities, NaN, denormals, halves, random ones of many sizes."""
    info = np.finfo(name)
    random = np.random.default_rng(count)
    many = random.standard_normal(count) * 10.0 ** random.integers(-20, 20, count)
    chosen = [0.0, -0.0, np.inf, -np.inf, np.nan, 0.5, -0.5, 1.5, 2.5, -2.5, 1e9, -3e9, 1e19, -1e20, 254.5, 255.5]
    values = np.concatenate([chosen, [info.max, info.tiny, info.smallest_subnormal, -info.smallest_subnormal], many])
    return np.ascontiguousarray(np.resize(values, count).astype(name))


def special_values(name: str, count: int = 512) -> np.ndarray:
    """Values of any table dtype, bool too."""
    if name == "bool":
        return np.random.default_rng(3).integers(0, 2, count).astype(bool)
    return special_floats(name, count) if name.startswith("float") else special_integers(name, count)
