"""What the sign prover claims holds for every small value of the symbols, and the clamps decide what they should."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jitopt.ir.bounds import at_most, clamp, from_end, larger, nonnegative, smaller
from jitopt.ir.dims import Dim, Environment, ceil_div, dim_max, dim_min, floor_div, modulo, select_eq, symbol

N, S = symbol("n"), symbol("s")


@pytest.mark.parametrize(
    "dim",
    [
        N, 3 * N * S, N - N // 2, N - 2 * (N // 2), 7 - N % 8, dim_max(N - 3, 0),
        dim_max(N, 4) - 4, N - dim_min(N, S), dim_max(N, S) - S, N + 3 - 3 * (N // 3), select_eq(N, 1, S, N),
        (N + 1) // 2 - N // 2, N - N // 2 // 2,
    ],
    ids=str,
)  # fmt: skip
def test_what_is_provable(dim: Dim) -> None:
    assert nonnegative(dim)


@pytest.mark.parametrize("dim", [N - 1, N - S, -N, dim_min(N, -1), N - 2 * dim_min(N, S)], ids=str)
def test_what_is_not(dim: Dim) -> None:
    assert not nonnegative(dim)


def test_clamps_decide_where_the_sign_is_certain() -> None:
    assert larger(N, 0) is N and smaller(N, N // 2) is N // 2
    assert larger(N - 1, 0) is dim_max(N - 1, 0)
    assert clamp(2**63 - 1, 0, N) is N and clamp(-(2**63), 0, N) == 0
    assert clamp(N + 5, 0, N) is N
    assert from_end(-1, N) is N - 1 and from_end(2, N) == 2
    assert at_most(N, N + S) and not at_most(N, S)


OPERATIONS = (
    lambda a, b: a + b, lambda a, b: a - b, lambda a, b: a * b, lambda a, b: floor_div(a, 2),
    lambda a, b: ceil_div(a, 3), lambda a, b: modulo(a, 4), dim_min, dim_max,
    lambda a, b: select_eq(a, b, b, a), lambda a, b: a - 3,
)  # fmt: skip


@given(st.lists(st.tuples(st.integers(0, len(OPERATIONS) - 1), st.integers(0, 3), st.integers(0, 3)), max_size=7))
def test_claims_hold_for_all_small_values(steps: list[tuple[int, int, int]]) -> None:
    pool: list[Dim] = [N, S, 2, N + 1]
    for operation, i, j in steps:
        pool.append(OPERATIONS[operation](pool[-1 - i], pool[-1 - j]))
    dim, other = pool[-1], pool[-2]
    claimed, low, high, wrapped = nonnegative(dim), smaller(dim, other), larger(dim, other), from_end(dim, S)
    for n, s in itertools.product(range(6), repeat=2):
        at = Environment({"n": n, "s": s})
        assert at(dim) >= 0 or not claimed
        assert at(low) == min(at(dim), at(other)) and at(high) == max(at(dim), at(other))
        assert at(wrapped) == at(dim) + (s if at(dim) < 0 else 0)
