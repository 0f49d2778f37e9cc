"""Select, minimum and maximum, rounding, conversions, and functions across lanes, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from jitopt_kernels.simd import (
    DTYPES,
    absolute,
    all_lanes,
    any_lane,
    bitcast,
    convert,
    convert_like,
    fma,
    hmax,
    hmin,
    hsum,
    iota,
    like,
    load,
    load_scalar,
    maximum,
    minimum,
    select,
    splat,
    store,
    store_scalar,
)
from numba import njit

from tests.kernels.registers import FLOATS, INTEGERS, NAMES, evaluate, mapped, mapped2, special_floats, special_values


@pytest.mark.parametrize("name", [*FLOATS, *INTEGERS])
def test_extrema_let_nan_through(name: str) -> None:
    a = special_values(name)
    b = np.where(np.arange(len(a)) % 4 == 0, a, np.roll(a, 7))
    rows = evaluate(["minimum(x, y)", "maximum(x, y)", "maximum(x, 3)", "minimum(5, x)"], a, b)
    three, five = a.dtype.type(3), a.dtype.type(5)
    want = [np.minimum(a, b), np.maximum(a, b), np.maximum(a, three), np.minimum(a, five)]
    np.testing.assert_array_equal(rows, want)


@pytest.mark.parametrize("name", NAMES)
def test_select_and_like(name: str) -> None:
    a, b = special_values(name), np.roll(special_values(name), 3)
    lanes = np.arange(len(a)) % 8
    (chosen,) = evaluate(["select(iota('int8', 8) < 3, x, y)"], a, b)
    np.testing.assert_array_equal(chosen, np.where(lanes < 3, a, b))
    if name != "bool":
        (mixed,) = evaluate(["select(x == x, 1, x) + like(x, 2)"], a, b)
        np.testing.assert_array_equal(mixed, np.where(a == a, a.dtype.type(3), a + a.dtype.type(2)))


@pytest.mark.parametrize("name", FLOATS)
def test_float_functions(name: str) -> None:
    x = special_floats(name)
    signs = np.roll(x, 1)
    cases = ["floor(x)", "ceil(x)", "trunc(x)", "rint(x)", "absolute(x)", "sqrt(x)", "copysign(x, y)"]
    rows = evaluate(cases, x, signs)
    with np.errstate(invalid="ignore"):
        want = [np.floor(x), np.ceil(x), np.trunc(x), np.rint(x), np.abs(x), np.sqrt(x), np.copysign(x, signs)]
    np.testing.assert_array_equal(rows, want)
    assert (np.signbit(rows[-1]) == np.signbit(signs)).all()


@pytest.mark.parametrize("name", INTEGERS)
def test_absolute_of_integers_wraps(name: str) -> None:
    x = special_values(name)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(mapped(absolute, name)(x), np.abs(x))


def test_fma_is_a_product_and_a_sum() -> None:
    random = np.random.default_rng(2)
    a, b = (random.standard_normal(512).astype(np.float32) for _ in range(2))
    got = mapped2(njit(lambda p, q: fma(p, q, np.float32(1.5))), "float32")(a, b)
    np.testing.assert_allclose(got, a.astype(np.float64) * b + 1.5, rtol=2e-7, atol=1e-7)


def _converted(x: np.ndarray, name: str) -> np.ndarray:
    """The rules of `convert`, written one element at a time."""
    if name == "bool":
        return x != 0
    if x.dtype.kind != "f" or name in FLOATS:
        with np.errstate(all="ignore"):
            return x.astype(name)
    info = np.iinfo(name)
    whole = [0 if np.isnan(v) else info.max if v >= info.max else info.min if v <= info.min else int(v) for v in x]
    return np.array(whole, name)


@pytest.mark.parametrize("source", NAMES)
def test_conversions(source: str) -> None:
    size = DTYPES[source].size

    @njit(error_model="numpy")
    def kernel(x: int, y: int, count: int) -> None:
        """Each dtype's results in a row of 8-byte elements, packed at its start."""
        row = 8 * count
        for i in range(0, count, 8):
            v = load(x + i * size, source, 8)
            store(y + 4 * i, convert(v, "float32"))
            store(y + row + 8 * i, convert(v, "float64"))
            store(y + 2 * row + i, convert(v, "int8"))
            store(y + 3 * row + 2 * i, convert(v, "int16"))
            store(y + 4 * row + 4 * i, convert(v, "int32"))
            store(y + 5 * row + 8 * i, convert(v, "int64"))
            store(y + 6 * row + i, convert(v, "uint8"))
            store(y + 7 * row + 2 * i, convert(v, "uint16"))
            store(y + 8 * row + 4 * i, convert(v, "uint32"))
            store(y + 9 * row + 8 * i, convert(v, "uint64"))
            store(y + 10 * row + i, convert(v, "bool"))

    x = special_values(source)
    y = np.empty((len(NAMES), len(x)), np.int64)
    kernel(x.ctypes.data, y.ctypes.data, len(x))
    for row, target in zip(y, NAMES, strict=True):
        want = _converted(x, target)
        np.testing.assert_array_equal(row.view(target)[: len(x)], want, err_msg=target)
        np.testing.assert_array_equal(convert(x, target), want, err_msg=f"{target} in Python")


def test_bits_and_dtype_of_another_register() -> None:
    x = special_floats("float32")
    np.testing.assert_array_equal(mapped(njit(lambda v: bitcast(v, "int32")), "float32", "int32")(x), x.view(np.int32))
    whole = mapped(njit(lambda v: convert_like(v, iota("int64", 8))), "float32", "int64")(x)
    np.testing.assert_array_equal(whole, _converted(x, "int64"))


@pytest.mark.parametrize("lanes", [4, 8, 16])
def test_reductions_of_one_register(lanes: int) -> None:
    @njit(error_model="numpy")
    def reduce(x: int, y: int) -> None:
        v = load(x, "float32", lanes)
        store_scalar(y, hsum(v))
        store_scalar(y + 4, hmax(v))
        store_scalar(y + 8, hmin(v))
        store_scalar(y + 12, convert(any_lane(v < 0), "float32"))
        store_scalar(y + 16, convert(all_lanes(v < 0), "float32"))
        store_scalar(y + 20, hsum(iota("float32", lanes) + splat(1, "float32", lanes)))

    random = np.random.default_rng(lanes)
    for x in (random.standard_normal(lanes), np.ones(lanes), -np.ones(lanes), np.r_[np.nan, np.ones(lanes - 1)]):
        x, y = x.astype(np.float32), np.zeros(6, np.float32)
        reduce(x.ctypes.data, y.ctypes.data)
        tree = x
        while len(tree) > 1:
            tree = tree[: len(tree) // 2] + tree[len(tree) // 2 :]
        rest = [(x < 0).any(), (x < 0).all(), lanes * (lanes + 1) / 2]
        np.testing.assert_array_equal(y, np.array([tree[0], x.max(), x.min(), *rest], np.float32))
        assert hsum(x) == tree[0] or np.isnan(tree[0])


@pytest.mark.parametrize("name", ["float32", "int32", "int64", "float64"])
def test_scalars_take_the_same_functions(name: str) -> None:
    size = DTYPES[name].size

    @njit(error_model="numpy")
    def kernel(x: int, y: int) -> None:
        for i in range(8):
            v = load_scalar(x + i * size, name)
            bounded = maximum(minimum(v, like(v, 2)), like(v, -1))
            store_scalar(y + i * size, bounded + select(v > 0, v, absolute(v)))

    x, y = np.arange(-4, 4).astype(name), np.zeros(8, name)
    kernel(x.ctypes.data, y.ctypes.data)
    np.testing.assert_array_equal(y, np.clip(x, -1, 2) + np.abs(x))
