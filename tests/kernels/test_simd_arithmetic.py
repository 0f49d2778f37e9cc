"""Operators on registers against NumPy: every dtype, scalars on either side, integers that would trap or overflow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from jitopt_kernels.simd import DTYPES, divide, isinf, isnan, load, quotient, remainder, store
from numba import njit
from numba.core.errors import TypingError

from tests.kernels.registers import FLOATS, INTEGERS, LANES, mapped, mapped2, special_floats, special_integers

QUIET: dict[str, Any] = {"all": "ignore"}


def _table(name: str, count: int, rows: list[np.ndarray], kernel: Any, *arrays: np.ndarray) -> None:
    """Run a kernel that stores one row after another, and compare the rows bit by bit (any NaN equals any NaN)."""
    got = np.empty((len(rows), count), name)
    kernel(*(array.ctypes.data for array in arrays), got.ctypes.data, count)
    for i, row in enumerate(rows):
        np.testing.assert_array_equal(got[i], row.astype(name), err_msg=f"row {i}")


@pytest.mark.parametrize("name", FLOATS)
def test_float_operators(name: str) -> None:
    size = DTYPES[name].size

    @njit(error_model="numpy")
    def kernel(a: int, b: int, y: int, count: int) -> None:
        row = count * size
        for i in range(0, row, LANES * size):
            p, q = load(a + i, name, LANES), load(b + i, name, LANES)
            store(y + i, p + q)
            store(y + i + row, p - q)
            store(y + i + 2 * row, p * q)
            store(y + i + 3 * row, p / q)
            store(y + i + 4 * row, divide(p, q))
            store(y + i + 5 * row, -p)
            store(y + i + 6 * row, p + 1)
            store(y + i + 7 * row, 2.5 - p)
            store(y + i + 8 * row, p * np.float32(0.5))
            store(y + i + 9 * row, 1 / p)
            x = p
            x += q
            x *= 3
            store(y + i + 10 * row, x)

    a, b = special_floats(name), special_floats(name)[::-1].copy()
    with np.errstate(**QUIET):
        rows = [a + b, a - b, a * b, a / b, a / b, -a, a + 1, a.dtype.type(2.5) - a, a / 2, 1 / a, (a + b) * 3]
    _table(name, len(a), rows, kernel, a, b)


@pytest.mark.parametrize("name", INTEGERS)
def test_integer_operators_wrap_and_never_trap(name: str) -> None:
    size = DTYPES[name].size

    @njit(error_model="numpy")
    def kernel(a: int, b: int, y: int, count: int) -> None:
        row = count * size
        for i in range(0, row, LANES * size):
            p, q = load(a + i, name, LANES), load(b + i, name, LANES)
            store(y + i, p + q)
            store(y + i + row, p - q)
            store(y + i + 2 * row, p * q)
            store(y + i + 3 * row, p // q)
            store(y + i + 4 * row, p % q)
            store(y + i + 5 * row, quotient(p, q))
            store(y + i + 6 * row, remainder(p, q))
            store(y + i + 7 * row, p & q)
            store(y + i + 8 * row, p | q)
            store(y + i + 9 * row, p ^ q)
            store(y + i + 10 * row, ~p)
            store(y + i + 11 * row, -p)
            store(y + i + 12 * row, p // 7)
            store(y + i + 13 * row, 100 % q)
            store(y + i + 14 * row, divide(p, 3))

    a = special_integers(name)
    b = np.resize(np.concatenate([np.arange(-9 if name[0] == "i" else 0, 10).astype(name), a[::3]]), len(a))
    with np.errstate(**QUIET):
        floor, modulo = a // b, a % b
        truncated = np.array([_truncated(int(p), int(q)) for p, q in zip(a, b, strict=True)], object)
        wrapped = np.array([int(v) & (2 ** (8 * size) - 1) for v in truncated], np.uint64).astype(name)
        left = (a - wrapped * np.where(b == 0, 1, b)).astype(name)
        rows = [a + b, a - b, a * b, floor, modulo, wrapped, left, a & b, a | b, a ^ b, ~a, -a, a // 7]
        rows += [a.dtype.type(100) % b, np.array([_truncated(int(v), 3) for v in a]).astype(name)]
    _table(name, len(a), rows, kernel, a, b)
    np.testing.assert_array_equal(quotient(a, b), wrapped)
    np.testing.assert_array_equal(remainder(a, b), left)


def _truncated(a: int, b: int) -> int:
    """a / b toward zero, a where b is 0."""
    if b == 0:
        return a
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


@pytest.mark.parametrize("name", INTEGERS)
def test_shifts_by_any_count(name: str) -> None:
    bits = DTYPES[name].bits
    a = special_integers(name)
    counts = np.resize(np.array([0, 1, 3, bits - 1, bits, bits + 1, 100]), len(a)).astype(name)
    if name[0] == "i":
        counts[::5] = -1
    outside = (counts < 0) | (counts >= bits)
    counts_in = np.where(outside, 0, counts).astype(name)
    left = np.where(outside, 0, a << counts_in)
    right = np.where(outside, np.where(a < 0, -1, 0).astype(name), a >> counts_in)
    np.testing.assert_array_equal(mapped2(njit(lambda p, q: p << q), name)(a, counts), left.astype(name))
    np.testing.assert_array_equal(mapped2(njit(lambda p, q: p >> q), name)(a, counts), right)


@pytest.mark.parametrize("name", [*FLOATS, *INTEGERS])
def test_comparisons(name: str) -> None:
    size = DTYPES[name].size

    @njit(error_model="numpy")
    def kernel(a: int, b: int, y: int, count: int) -> None:
        for i in range(0, count, LANES):
            p, q = load(a + i * size, name, LANES), load(b + i * size, name, LANES)
            store(y + i, p < q)
            store(y + i + count, p <= q)
            store(y + i + 2 * count, p > q)
            store(y + i + 3 * count, p >= q)
            store(y + i + 4 * count, p == q)
            store(y + i + 5 * count, p != q)
            store(y + i + 6 * count, 3 < p)  # noqa: SIM300
            store(y + i + 7 * count, (p < q) & (p != 0) | ~(p == 5) ^ (q > 1))

    a = special_floats(name) if name in FLOATS else special_integers(name)
    b = np.where(np.arange(len(a)) % 3 == 0, a, np.roll(a, 5))
    rows = [a < b, a <= b, a > b, a >= b, a == b, a != b, a > 3, (a < b) & (a != 0) | ~(a == 5) ^ (b > 1)]
    _table("bool", len(a), rows, kernel, a, b)


def test_masks_are_compared_and_combined() -> None:
    random = np.random.default_rng(0)
    a, b = (random.integers(0, 2, 64).astype(bool) for _ in range(2))
    cases = {
        "and": (njit(lambda p, q: p & q), a & b),
        "or": (njit(lambda p, q: p | q), a | b),
        "xor": (njit(lambda p, q: p ^ q), a ^ b),
        "equal": (njit(lambda p, q: p == q), a == b),
        "different": (njit(lambda p, q: p != q), a != b),
        "constant": (njit(lambda p, q: (p & True) | False), a),
    }
    for name, (function, want) in cases.items():
        np.testing.assert_array_equal(mapped2(function, "bool")(a, b), want, err_msg=name)


@pytest.mark.parametrize("name", FLOATS)
def test_classes_of_floats(name: str) -> None:
    x = special_floats(name)
    np.testing.assert_array_equal(mapped(isnan, name, "bool")(x), np.isnan(x))
    np.testing.assert_array_equal(mapped(isinf, name, "bool")(x), np.isinf(x))


@pytest.mark.parametrize(
    "function",
    [lambda x: x + 0.5, lambda x: x / x, lambda x: x + True, lambda x: x < 1.5],
    ids=["float", "/", "bool", "<"],
)
def test_what_has_no_meaning_is_refused(function: Any) -> None:
    with pytest.raises(TypingError):
        mapped(njit(function), "int32")(np.zeros(8, np.int32))
