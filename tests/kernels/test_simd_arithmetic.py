"""Operators on registers against NumPy: every dtype, scalars on either side, integers that would trap or overflow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from jitopt_kernels.simd import DTYPES, quotient, remainder
from numba import njit
from numba.core.errors import TypingError

from tests.kernels.registers import FLOATS, INTEGERS, evaluate, special_floats, special_integers

QUIET: dict[str, Any] = {"all": "ignore"}


@njit
def in_place(x: Any, y: Any) -> Any:
    """(x + y) * 3 by statements that look like changes of x."""
    z = x
    z += y
    z *= 3
    return z


@pytest.mark.parametrize("name", FLOATS)
def test_float_operators(name: str) -> None:
    cases = ["x + y", "x - y", "x * y", "x / y", "divide(x, y)", "-x", "x + 1", "2.5 - x", "x * f32(0.5)", "1 / x"]
    a, b = special_floats(name), special_floats(name)[::-1].copy()
    with np.errstate(**QUIET):
        want = [a + b, a - b, a * b, a / b, a / b, -a, a + 1, a.dtype.type(2.5) - a, a / 2, 1 / a, (a + b) * 3]
    rows = evaluate([*cases, "in_place(x, y)"], a, b, names={"in_place": in_place})
    np.testing.assert_array_equal(rows, want)


@pytest.mark.parametrize("name", INTEGERS)
def test_integer_operators_wrap_and_never_trap(name: str) -> None:
    cases = ["x + y", "x - y", "x * y", "x // y", "x % y", "quotient(x, y)", "remainder(x, y)", "x & y", "x | y"]
    cases += ["x ^ y", "~x", "-x", "x // 7", "100 % y", "divide(x, 3)"]
    a = special_integers(name)
    b = np.resize(np.concatenate([np.arange(-9 if name[0] == "i" else 0, 10).astype(name), a[::3]]), len(a))
    with np.errstate(**QUIET):
        truncated = [_truncated(int(p), int(q)) for p, q in zip(a, b, strict=True)]
        wrapped = np.array([v & (2 ** DTYPES[name].bits - 1) for v in truncated], np.uint64).astype(name)
        left = (a - wrapped * np.where(b == 0, np.ones_like(b), b)).astype(name)
        want = [a + b, a - b, a * b, a // b, a % b, wrapped, left, a & b, a | b, a ^ b, ~a, -a, a // 7]
        want += [a.dtype.type(100) % b, np.array([_truncated(int(v), 3) for v in a]).astype(name)]
    np.testing.assert_array_equal(evaluate(cases, a, b), want)
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
    inside = np.where(outside, 0, counts).astype(name)
    left = np.where(outside, np.zeros_like(a), a << inside)
    right = np.where(outside, np.where(a < 0, -1, 0).astype(name), a >> inside)
    np.testing.assert_array_equal(evaluate(["x << y", "x >> y"], a, counts), [left, right])


@pytest.mark.parametrize("name", [*FLOATS, *INTEGERS])
def test_comparisons(name: str) -> None:
    cases = [
        "x < y",
        "x <= y",
        "x > y",
        "x >= y",
        "x == y",
        "x != y",
        "3 < x",
        "(x < y) & (x != 0) | ~(x == 5) ^ (y > 1)",
    ]
    a = special_floats(name) if name in FLOATS else special_integers(name)
    b = np.where(np.arange(len(a)) % 3 == 0, a, np.roll(a, 5))
    want = [a < b, a <= b, a > b, a >= b, a == b, a != b, a > 3, (a < b) & (a != 0) | ~(a == 5) ^ (b > 1)]
    np.testing.assert_array_equal(evaluate(cases, a, b, "bool"), want)


def test_masks_are_compared_and_combined() -> None:
    random = np.random.default_rng(0)
    a, b = (random.integers(0, 2, 64).astype(bool) for _ in range(2))
    rows = evaluate(["x & y", "x | y", "x ^ y", "x == y", "x != y", "(x & True) | False", "~x"], a, b)
    np.testing.assert_array_equal(rows, [a & b, a | b, a ^ b, a == b, a != b, a, ~a])


@pytest.mark.parametrize("name", FLOATS)
def test_classes_of_floats(name: str) -> None:
    x = special_floats(name)
    np.testing.assert_array_equal(evaluate(["isnan(x)", "isinf(x)"], x, x, "bool"), [np.isnan(x), np.isinf(x)])


@pytest.mark.parametrize("expression", ["x + 0.5", "x < 1.5", "x + True", "x / x", "x + select(x > 0, 1.5, 2.5)"])
def test_what_has_no_meaning_for_integers_is_refused(expression: str) -> None:
    x = np.zeros(8, np.int32)
    with pytest.raises(TypingError):
        evaluate([expression], x, x)
