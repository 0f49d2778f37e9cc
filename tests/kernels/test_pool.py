"""Pooling against NumPy: kernels, strides, dilations, asymmetric pads, ceil_mode, both divisors, both layouts."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest
from jitopt_kernels.pool import make_pool, make_pool_rows

from .convolutions import blocked, unblocked
from .guarded import guarded, guarded_like
from .harness import EPS, THREADS, address, caller, store_epilogue


class Case(NamedTuple):
    n: int
    c: int
    size: tuple[int, int]
    kernel: tuple[int, int]
    strides: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    dilations: tuple[int, int] = (1, 1)
    ceil: bool = False

    @property
    def output(self) -> tuple[int, int]:
        return self._extent(0), self._extent(1)

    def _extent(self, i: int) -> int:
        free = self.size[i] + self.pads[i] + self.pads[i + 2] - self.dilations[i] * (self.kernel[i] - 1) - 1
        out = -(-free // self.strides[i]) + 1 if self.ceil else free // self.strides[i] + 1
        if self.ceil and (out - 1) * self.strides[i] >= self.size[i] + self.pads[i]:
            out -= 1
        return out


CASES = [
    Case(1, 8, (9, 30), (3, 3), (2, 2), (1, 1, 1, 1)),
    Case(2, 13, (7, 8), (2, 2), (2, 2)),
    Case(1, 5, (6, 27), (3, 3), (1, 1), (1, 0, 2, 1)),
    Case(1, 8, (10, 11), (3, 3), (2, 2), (0, 0, 1, 1), ceil=True),
    Case(1, 16, (7, 7), (3, 3), (3, 2), (1, 1, 1, 1), ceil=True),
    Case(1, 8, (12, 13), (3, 2), (1, 2), (2, 1, 1, 1), dilations=(2, 3)),
    Case(1, 8, (14, 15), (13, 13), (1, 1), (6, 6, 6, 6)),
    Case(1, 3, (1, 33), (1, 3), (1, 2), (0, 1, 0, 1)),
    Case(1, 8, (1, 1), (1, 1)),
    Case(0, 8, (4, 4), (2, 2)),
]


def reference(case: Case, x: Any, kind: str, include_pad: bool) -> Any:
    oh, ow = case.output
    out = np.empty((case.n, case.c, oh, ow))
    spans = []
    for i, extent in enumerate((oh, ow)):
        starts = [o * case.strides[i] - case.pads[i] for o in range(extent)]
        spans.append([range(s, s + case.kernel[i] * case.dilations[i], case.dilations[i]) for s in starts])
    for r in range(oh):
        for q in range(ow):
            rows = [p for p in spans[0][r] if 0 <= p < case.size[0]]
            cols = [p for p in spans[1][q] if 0 <= p < case.size[1]]
            window = x[:, :, rows][:, :, :, cols].reshape(case.n, case.c, len(rows) * len(cols))
            if kind == "max":
                out[:, :, r, q] = window.max(-1)
                continue
            count = len(rows) * len(cols)
            if include_pad:
                count = sum(p < case.size[0] + case.pads[2] for p in spans[0][r])
                count *= sum(p < case.size[1] + case.pads[3] for p in spans[1][q])
            out[:, :, r, q] = window.astype("f8").sum(-1) / count
    return out


@cache
def blocked_kernel(kind: str, include_pad: bool, unroll: Any, lanes: int) -> Any:
    finish, finish_tail = store_epilogue(lanes, blocked=True)
    options = dict(zip(("kernel", "stride", "dilation"), unroll, strict=True)) if unroll else {}
    return caller(
        make_pool(kind=kind, lanes=lanes, finish=finish, finish_tail=finish_tail, include_pad=include_pad, **options)
    )


@cache
def rows_kernel(kind: str, include_pad: bool) -> Any:
    finish, finish_tail = store_epilogue(8, blocked=False)
    return caller(make_pool_rows(kind=kind, lanes=8, finish=finish, finish_tail=finish_tail, include_pad=include_pad))


def run_blocked(
    case: Case, x: Any, kind: str, include_pad: bool, *, unroll: bool = False, lanes: int = 8, nthreads: int = 1
) -> Any:
    n, c, (h, w), (oh, ow) = case.n, case.c, case.size, case.output
    x_, y = guarded(blocked(x, lanes)), guarded_like((n, -(-c // lanes), oh, ow, lanes))
    words = [address(x_), x_.nbytes // max(n, 1), 4 * lanes * h * w, 4 * lanes * w, h, w, n, c]
    words += [*case.kernel, *case.strides, *case.dilations, *case.pads, oh, ow, 4 * lanes * oh * ow]
    literal = (case.kernel, case.strides[1], case.dilations[1]) if unroll else None
    blocked_kernel(kind, include_pad, literal, lanes)(words, (address(y), y.nbytes // max(n, 1)), nthreads)
    return unblocked(y, c)


def run_rows(case: Case, x: Any, kind: str, include_pad: bool, *, nthreads: int = 1) -> Any:
    n, c, (h, w), (oh, ow) = case.n, case.c, case.size, case.output
    x_, y = guarded(x), guarded_like((n, c, oh, ow))
    words = [address(x_), 4 * h * w, 4 * w, h, w, n * c]
    words += [*case.kernel, *case.strides, *case.dilations, *case.pads, oh, ow]
    rows_kernel(kind, include_pad)(words, (address(y), 4 * oh * ow), nthreads)
    return y


def data(case: Case) -> Any:
    return np.random.default_rng(0).standard_normal((case.n, case.c, *case.size)).astype("f4")


def check(case: Case, kind: str, include_pad: bool, y: Any, x: Any) -> None:
    exact = reference(case, x, kind, include_pad)
    if kind == "max":
        assert np.array_equal(y, exact)
    else:
        bound = EPS * (case.kernel[0] * case.kernel[1] + 2) * np.abs(x).max(initial=0)
        assert np.abs(y - exact).max(initial=0) <= bound


KINDS = [("max", False), ("average", False), ("average", True)]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_blocked(kind: tuple[str, bool]) -> None:
    for case in CASES:
        x = data(case)
        check(case, *kind, run_blocked(case, x, *kind), x)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_row_major(kind: tuple[str, bool]) -> None:
    for case in CASES:
        x = data(case)
        check(case, *kind, run_rows(case, x, *kind), x)


@pytest.mark.parametrize("case", [CASES[0], CASES[2], CASES[5]], ids=str)
@pytest.mark.parametrize("kind", KINDS[:2], ids=str)
def test_unrolled_windows_have_the_same_bits(case: Case, kind: tuple[str, bool]) -> None:
    x = data(case)
    y = run_blocked(case, x, *kind, unroll=True)
    assert np.array_equal(y, run_blocked(case, x, *kind))


@pytest.mark.parametrize("kind", KINDS[:2], ids=str)
def test_bits_do_not_depend_on_threads(kind: tuple[str, bool]) -> None:
    for run in (run_blocked, run_rows):
        for case in CASES[:3]:
            x = data(case)
            first = run(case, x, *kind)
            for nthreads in THREADS[1:]:
                assert np.array_equal(first, run(case, x, *kind, nthreads=nthreads))


def test_nan_propagates_through_its_windows() -> None:
    case = CASES[2]
    x = data(case)
    x[0, 2, 3, 9] = np.nan
    for kind in KINDS:
        expected = np.isnan(reference(case, x, *kind))
        assert expected.any()
        for y in (run_blocked(case, x, *kind), run_rows(case, x, *kind)):
            assert np.array_equal(np.isnan(y), expected)
    assert np.array_equal(np.isnan(run_blocked(case, x, "max", False, unroll=True)), expected)


def test_other_lanes() -> None:
    for lanes in (4, 16):
        x = data(CASES[1])
        check(CASES[1], "max", False, run_blocked(CASES[1], x, "max", False, lanes=lanes), x)


def test_unknown_kind_is_refused() -> None:
    for make in (make_pool, make_pool_rows):
        with pytest.raises(ValueError, match="pooling"):
            make(kind="median", lanes=8, finish=None, finish_tail=None)
