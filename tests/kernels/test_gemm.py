"""GEMM against NumPy in float64: odd shapes, batches, both forms of B that are not constant, guard pages, shares."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from jitopt_kernels.gemm import make_gemm
from jitopt_kernels.packing import CHAIN, ONE_CHAIN, best_tile, gemm_scratch, pack_b
from jitopt_kernels.tiling import chain_terms

from .guarded import guarded, guarded_like
from .harness import THREADS, address, assert_close, bias_epilogue, caller

TILES = {4: ((2, 1), 4), 8: ((4, 3, 2, 1), 3), 16: ((8, 4, 2, 1), 3)}
SHAPES = [
    (1, 1, 1),
    (1, 200, 33),
    (2, 24, 7),
    (3, 25, 16),
    (5, 23, 1),
    (7, 48, 31),
    (13, 50, 17),
    (40, 101, 29),
    (33, 100, 72),
]
EMPTY = [(0, 5, 3), (4, 0, 3), (3, 9, 0)]


@cache
def kernel(layout: str, lanes: int = 8, tall: bool = False) -> Any:
    heights, panel = ((6, 4, 3, 2, 1), 2) if tall else TILES[lanes]
    finish, finish_tail = bias_epilogue(lanes, blocked=False)
    template = make_gemm(
        lanes=lanes, heights=heights, panel=panel, finish=finish, finish_tail=finish_tail, layout=layout
    )
    return caller(template), heights, panel


def run(a: Any, b: Any, bias: Any, layout: str, *, lanes: int = 8, tall: bool = False, nthreads: int = 1) -> Any:
    """max(a @ b + bias, 0) by the kernel; a [outer, inner, m, k], b [outer, inner, k, n], each extent 1 or full."""
    call, heights, panel = kernel(layout, lanes, tall)
    outer, inner = (max(a.shape[i], b.shape[i]) for i in (0, 1))
    m, k, n = a.shape[2], a.shape[3], b.shape[3]
    stored = {"packed": lambda: pack_b(b, lanes, panel), "rows": lambda: b, "columns": lambda: b.swapaxes(2, 3)}
    a_, b_ = guarded(a), guarded(stored[layout]())
    y = guarded_like((outer, inner, m, n))
    scratch = guarded_like((gemm_scratch(k, lanes, heights, panel, layout) // 4,))
    strides = [0 if x.shape[i] == 1 else x.strides[i] for x in (a_, b_) for i in (0, 1)]
    words = [address(a_), *strides[:2], 4 * k, address(b_), *strides[2:], b_.strides[2] if layout != "packed" else 0]
    words += [outer, inner, m, n, k, 4 * m * n, 4 * n, address(scratch)]
    call(words, (address(y), 4 * inner * m * n, address(bias)), nthreads)
    return y


def data(m: int, n: int, k: int, outer: int = 1, inner: int = 1, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    a, b = rng.standard_normal((outer, inner, m, k)), rng.standard_normal((outer, inner, k, n))
    return a.astype("f4"), b.astype("f4"), guarded(rng.standard_normal(n).astype("f4"))


def check(a: Any, b: Any, bias: Any, y: Any) -> None:
    exact = np.maximum(a.astype("f8") @ b.astype("f8") + bias, 0)
    assert_close(y, exact, np.abs(a) @ np.abs(b) + np.abs(bias), a.shape[-1])


@pytest.mark.parametrize("layout", ["packed", "rows", "columns"])
@pytest.mark.parametrize("shape", SHAPES + EMPTY, ids=str)
def test_odd_shapes(layout: str, shape: tuple[int, int, int]) -> None:
    a, b, bias = data(*shape)
    check(a, b, bias, run(a, b, bias, layout))


@pytest.mark.parametrize("layout", ["packed", "rows", "columns"])
def test_batches_broadcast_either_operand(layout: str) -> None:
    a, b, bias = data(5, 26, 9, 2, 3)
    for x, w in ((a, b), (a[:, :1], b), (a, b[:1, :1]), (a[:1], b), (a, b[:, :1])):
        check(x, w, bias, run(x, w, bias, layout, nthreads=2))


@pytest.mark.parametrize("layout", ["packed", "rows", "columns"])
def test_bits_do_not_depend_on_threads_or_tiles(layout: str) -> None:
    a, b, bias = data(37, 77, 130, 1, 2)
    first = run(a, b, bias, layout)
    for nthreads in THREADS[1:]:
        assert np.array_equal(first, run(a, b, bias, layout, nthreads=nthreads))
    for m in (1, 5, 36):
        assert np.array_equal(first[:, :, :m], run(a[:, :, :m], b, bias, layout))
    if layout == "packed":
        assert np.array_equal(first, run(a, b, bias, layout, tall=True))


@pytest.mark.parametrize("layout", ["packed", "rows", "columns"])
def test_long_sums_are_cut_into_even_chains(layout: str) -> None:
    """A chain of ones survives next to chains of 2**24 and -2**24, in which each of them would be rounded away."""
    a, b, bias = (
        np.ones((1, 1, 5, 3 * CHAIN), "f4"),
        np.zeros((1, 1, 3 * CHAIN, 130), "f4"),
        guarded(np.zeros(130, "f4")),
    )
    b[:, :, 0], b[:, :, CHAIN : 2 * CHAIN], b[:, :, 2 * CHAIN] = 2**24, 1, -(2**24)
    for m in (1, 4, 5):
        assert np.array_equal(run(a[:, :, :m], b, bias, layout), np.full((1, 1, m, 130), CHAIN))


def test_chains_are_even_and_start_at_whole_steps() -> None:
    assert [chain_terms.py_func(k, 4) for k in (0, 3, 256, 257, 288, 1024, 1025, 1152)] == [
        0,
        4,
        256,
        132,
        144,
        512,
        344,
        384,
    ]


def test_long_sums_of_any_length() -> None:
    for k in (ONE_CHAIN, ONE_CHAIN + 1, 2 * CHAIN, 2 * CHAIN + 3):
        a, b, bias = data(6, 25, k)
        first = run(a, b, bias, "packed")
        check(a, b, bias, first)
        assert np.array_equal(first, run(a, b, bias, "rows"))
        assert np.array_equal(first, run(a, b, bias, "packed", tall=True))


def test_whole_panels_need_no_tail() -> None:
    finish, _ = bias_epilogue(8, blocked=False)
    call = caller(make_gemm(lanes=8, heights=(2, 1), panel=2, finish=finish, finish_tail=None, whole=True))
    a, b, bias = data(5, 32, 9)
    a_, b_, y = guarded(a), guarded(pack_b(b, 8, 2)), guarded_like((5, 32))
    call([address(a_), 0, 0, 36, address(b_), 0, 0, 0, 1, 1, 5, 32, 9, 0, 128, 0], (address(y), 0, address(bias)))
    check(a, b, bias, y)


def test_threads_share_one_row() -> None:
    a, b, bias = data(1, 333, 64)
    first = run(a, b, bias, "packed")
    check(a, b, bias, first)
    for nthreads in THREADS[1:]:
        assert np.array_equal(first, run(a, b, bias, "packed", nthreads=nthreads))


@pytest.mark.parametrize("layout", ["packed", "columns"])
@pytest.mark.parametrize("lanes", [4, 16])
def test_other_lanes(lanes: int, layout: str) -> None:
    for shape in SHAPES:
        a, b, bias = data(*shape)
        check(a, b, bias, run(a, b, bias, layout, lanes=lanes))


def test_strided_operands_and_output() -> None:
    """Attention's shapes: A, B and the output are slices of [rows, heads, width] arrays."""
    rng = np.random.default_rng(1)
    rows, heads, width, keys = 9, 3, 10, 26
    call, heights, panel = kernel("columns", 8, False)
    q, k = (guarded(rng.standard_normal((n, heads, width)).astype("f4")) for n in (rows, keys))
    bias, y = guarded(np.zeros(keys, "f4")), guarded_like((rows, heads, keys))
    scratch = guarded_like((gemm_scratch(width, 8, heights, panel, "columns") // 4,))
    step = 4 * width
    words = [address(q), 0, step, heads * step, address(k), 0, step, heads * step, 1, heads, rows, keys, width]
    call([*words, 4 * keys, 4 * heads * keys, address(scratch)], (address(y), 0, address(bias)))
    exact = np.maximum(np.einsum("rhw,khw->rhk", q.astype("f8"), k.astype("f8")), 0)
    assert_close(y, exact, np.einsum("rhw,khw->rhk", np.abs(q), np.abs(k)), width)


def test_special_values_stay_in_their_row_and_column() -> None:
    a, b, bias = data(6, 30, 8)
    a[0, 0, 2, 3], b[0, 0, 5, 7] = np.nan, np.inf
    y = run(a, b, bias, "packed")[0, 0]
    touched = np.zeros((6, 30), bool)
    touched[2], touched[:, 7] = True, True
    assert np.isnan(y[2]).all()
    assert np.isfinite(y[~touched]).all()


def test_unusable_tiles_are_refused() -> None:
    for heights in ((4, 2), (1, 2), (20, 1), (6, 5, 4, 3, 2, 1)):
        with pytest.raises(ValueError, match="tile heights"):
            make_gemm(lanes=8, heights=heights, panel=2, finish=None, finish_tail=None)
    with pytest.raises(ValueError, match="layout"):
        make_gemm(lanes=8, heights=(1,), panel=2, finish=None, finish_tail=None, layout="rowmajor")


def test_single_row_form_is_optional() -> None:
    finish, finish_tail = bias_epilogue(8, blocked=False)
    template = make_gemm(lanes=8, heights=(2, 1), panel=2, finish=finish, finish_tail=finish_tail, single_row=False)
    a, b, bias = data(1, 200, 9)
    a_, b_, y = guarded(a), guarded(pack_b(b, 8, 2)), guarded_like((1, 200))
    words = [address(a_), 0, 0, 36, address(b_), 0, 0, 0, 1, 1, 1, 200, 9, 0, 800, 0]
    caller(template)(words, (address(y), 0, address(bias)))
    check(a, b, bias, y)


def test_best_tile_wastes_least() -> None:
    tiles = (((6, 4, 1), 2), ((4, 3, 1), 3))
    assert [best_tile(n, 8, tiles)[1] for n in (16, 24, 40, 64, 72)] == [2, 3, 2, 2, 3]
