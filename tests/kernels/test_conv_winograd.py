"""Winograd convolution against NumPy in float64: the matrices, odd shapes, edges, tails, shares."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from jitopt_kernels.conv.winograd import make_winograd
from jitopt_kernels.tiling import CHAIN, chain_terms
from jitopt_kernels.winograd_packing import POINTS, TAPS, matrices, pack_winograd, tiles_at_once, winograd_scratch

from .convolutions import Case, blocked, conv_reference, data, unblocked
from .guarded import guarded, guarded_like
from .harness import EPS, THREADS, address, bias_epilogue, caller

HEIGHTS, PANEL = (4, 2, 1), 2
SAME = (1, 1, 1, 1)
CASES = [
    Case(1, 8, 16, (4, 4), (3, 3), pads=SAME),
    Case(1, 8, 8, (3, 3), (3, 3)),
    Case(2, 16, 24, (7, 13), (3, 3), pads=SAME),
    Case(1, 11, 5, (9, 6), (3, 3), pads=SAME),
    Case(1, 24, 40, (5, 17), (3, 3), pads=(0, 2, 1, 0)),
    Case(1, 8, 8, (6, 6), (3, 3), pads=(5, 6, 7, 8)),
    Case(3, 1, 1, (8, 8), (3, 3), pads=SAME),
    Case(1, 16, 16, (1, 1), (3, 3), pads=SAME),
    Case(1, 40, 72, (14, 14), (3, 3), pads=SAME),
    Case(1, 8, 16, (33, 31), (3, 3), pads=SAME),
    Case(1, 264, 24, (6, 9), (3, 3), pads=SAME),
    Case(1, 520, 16, (5, 5), (3, 3), pads=SAME),
]


@cache
def kernel(outputs: int, lanes: int) -> Any:
    finish, finish_tail = bias_epilogue(lanes, blocked=True)
    return caller(
        make_winograd(
            lanes=lanes, heights=HEIGHTS, panel=PANEL, outputs=outputs, finish=finish, finish_tail=finish_tail
        )
    )


def run(
    case: Case, x: Any, w: Any, bias: Any, outputs: int, *, lanes: int = 8, nthreads: int = 1, most: int = 0
) -> Any:
    n, c, h, wd = x.shape
    most = most or tiles_at_once(c, case.oc, outputs)
    x_, w_, bias_ = guarded(blocked(x, lanes)), guarded(pack_winograd(w, lanes, PANEL, outputs)), guarded(bias)
    oh, ow = case.output
    y = guarded_like((n, -(-case.oc // lanes), oh, ow, lanes))
    scratch = guarded_like((winograd_scratch(outputs, most, c, case.oc, lanes, HEIGHTS, PANEL) // 4,))
    vec = lanes * 4
    words = [address(x_), x_.nbytes // n, vec * h * wd, vec * wd, h, wd, -(-c // lanes), address(w_), n, case.oc]
    words += [*case.pads[:2], oh, ow, vec * oh * ow, most, address(scratch)]
    kernel(outputs, lanes)(words, (address(y), y.nbytes // n, address(bias_)), nthreads)
    return unblocked(y, case.oc)


def magnitudes(case: Case, x: Any, w: Any, bias: Any, outputs: int) -> Any:
    """The algorithm in float64 on absolute values: what bounds every partial sum of an output."""
    a, b, g = (np.abs(m) for m in matrices(outputs))
    oh, ow = case.output
    rows, columns = -(-oh // outputs), -(-ow // outputs)
    top, left = case.pads[:2]
    padded = np.zeros((case.n, case.c, rows * outputs + 2, columns * outputs + 2))
    h, wd = min(case.size[0], padded.shape[2] - top), min(case.size[1], padded.shape[3] - left)
    padded[:, :, top : top + h, left : left + wd] = np.abs(x[:, :, :h, :wd])
    u = np.einsum("ia,ocab,jb->ijoc", g, np.abs(w), g)
    out = np.zeros((case.n, case.oc, rows * outputs, columns * outputs))
    for p in range(0, rows * outputs, outputs):
        for q in range(0, columns * outputs, outputs):
            tile = padded[:, :, p : p + outputs + 2, q : q + outputs + 2]
            v = np.einsum("ia,ncab,jb->ijnc", b, tile, b)
            m = np.einsum("ijnc,ijoc->ijno", v, u)
            out[:, :, p : p + outputs, q : q + outputs] = np.einsum("ia,ijno,jb->noab", a, m, a)
    return out[:, :, :oh, :ow] + np.abs(bias)[:, None, None]


def check(case: Case, outputs: int, **options: Any) -> Any:
    x, w, bias = data(case)
    y = run(case, x, w, bias, outputs, **options)
    exact, _ = conv_reference(case, x, w, bias)
    # Roundings of one output: 4 a line, two lines deep on the way in and out; the weights' own; one a product.
    bound = (case.c + 4 * 2 * 2 + 2) * EPS * magnitudes(case, x, w, bias, outputs)
    error = np.abs(y - np.maximum(exact, 0))
    assert (error <= bound).all(), f"{(error - bound).max()} above the bound"
    return y


@pytest.mark.parametrize("outputs", sorted(POINTS))
def test_the_matrices_convolve(outputs: int) -> None:
    a, b, g = matrices(outputs)
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal(outputs + TAPS - 1), rng.standard_normal(TAPS)
    assert np.allclose(a.T @ ((g @ w) * (b @ x)), np.correlate(x, w), rtol=0, atol=1e-14)
    assert (a.astype(np.float32) == a).all()  # what the kernel multiplies by is exact
    assert (b.astype(np.float32) == b).all()


@pytest.mark.parametrize("outputs", sorted(POINTS))
@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_shape(case: Case, outputs: int) -> None:
    first = check(case, outputs)
    for nthreads in THREADS[1:]:
        assert np.array_equal(first, check(case, outputs, nthreads=nthreads))
    for most in (1, 5):
        assert np.array_equal(first, check(case, outputs, most=most))


@pytest.mark.parametrize("lanes", [4, 16])
@pytest.mark.parametrize("outputs", sorted(POINTS))
def test_other_vector_widths(outputs: int, lanes: int) -> None:
    for case in (CASES[2], CASES[3]):
        check(case, outputs, lanes=lanes)


def test_many_threads_and_few_tiles() -> None:
    case = CASES[8]
    first = check(case, 4)
    for nthreads in (4, 5, 16):
        assert np.array_equal(first, check(case, 4, nthreads=nthreads))


@pytest.mark.parametrize("outputs", sorted(POINTS))
def test_long_sums_are_cut_into_even_chains(outputs: int) -> None:
    """A chain of ones survives next to chains of 2**24 and -2**24, in which each of them would be rounded away."""
    depth = 3 * CHAIN
    chain = chain_terms.py_func(depth, 8)
    terms = np.zeros(depth, "f4")
    terms[0], terms[chain : 2 * chain], terms[2 * chain] = 2**24, 1, -(2**24)
    w = np.zeros((16, depth, 3, 3), "f4")
    w[:, :, 1, 1] = terms  # one tap: at some positions of the tile the transformed weight is a power of two of it
    case = Case(1, depth, 16, (4, 4), (3, 3), pads=SAME)
    y = run(case, np.ones((1, depth, 4, 4), "f4"), w, np.zeros(16, "f4"), outputs)
    assert np.abs(y - chain).max() < chain / 2


def test_images_do_not_meet() -> None:
    case = CASES[2]
    x, w, bias = data(case)
    x[0, 3, 2, 2] = np.nan
    y = run(case, x, w, bias, 4)
    assert np.isnan(y[0]).any()
    assert np.isfinite(y[1]).all()


def test_the_points_in_use_err_less_than_the_usual_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """In float32 NumPy, so that the claim of the module is checked and not believed."""

    def error() -> float:
        a, b, g = matrices(4)
        rng = np.random.default_rng(1)
        x = np.maximum(rng.standard_normal((200, 64, 6, 6)), 0).astype("f4")
        w = (rng.standard_normal((8, 64, 3, 3)) / 24).astype("f4")
        u = np.einsum("ia,ocab,jb->ijoc", g, w, g).astype("f4")
        b32, a32 = b.astype("f4"), a.astype("f4")
        v = np.einsum("ia,ncaj->incj", b32, x)
        v = np.einsum("jb,incb->ijnc", b32, v)
        m = np.einsum("ijnc,ijoc->ijno", v, u)
        y = np.einsum("jb,ajno->noab", a32, np.einsum("ia,ijno->ajno", a32, m))
        exact = sum(
            np.einsum("ncij,oc->noij", x[:, :, i : i + 4, j : j + 4].astype("f8"), w[:, :, i, j].astype("f8"))
            for i in range(3)
            for j in range(3)
        )
        return float(np.sqrt(np.mean((y - exact) ** 2)))

    ours = error()
    monkeypatch.setitem(POINTS, 4, (1.0, 2.0))
    matrices.cache_clear()
    usual = error()
    matrices.cache_clear()
    assert ours < 0.7 * usual
