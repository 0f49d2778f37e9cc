"""Direct convolution against NumPy in float64: kernels, strides, dilations, pads, groups, lane tails, layouts."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from jitopt_kernels.conv.direct import make_conv
from jitopt_kernels.packing import CHAIN, conv_scratch, pack_conv, tile_bytes
from jitopt_kernels.tiling import chain_terms

from .convolutions import Case, blocked, conv_reference, data, unblocked
from .guarded import guarded, guarded_like
from .harness import THREADS, address, assert_close, bias_epilogue, caller

TILES = {4: ((4, 3, 2, 1), 2), 8: ((6, 4, 3, 2, 1), 2), 16: ((14, 7, 4, 2, 1), 2)}
CASES = [
    Case(1, 8, 16, (5, 7), (3, 3), pads=(1, 1, 1, 1)),
    Case(2, 16, 24, (7, 7), (1, 1)),
    Case(1, 5, 3, (6, 5), (3, 3), pads=(1, 1, 1, 1)),
    Case(1, 9, 17, (9, 10), (3, 3), strides=(2, 2), pads=(0, 0, 1, 1)),
    Case(1, 8, 8, (13, 11), (3, 3), dilations=(2, 3), pads=(2, 3, 2, 3)),
    Case(2, 12, 20, (8, 9), (5, 2), strides=(1, 3), pads=(2, 0, 1, 1)),
    Case(1, 8, 40, (1, 1), (3, 3), pads=(1, 1, 1, 1)),
    Case(1, 7, 9, (1, 37), (1, 5), strides=(1, 2), pads=(0, 2, 0, 2)),
    Case(1, 8, 8, (4, 3), (7, 7), pads=(3, 3, 3, 3)),
    Case(1, 8, 8, (3, 3), (2, 2), pads=(3, 4, 5, 2)),
    Case(1, 3, 8, (2, 2), (1, 1), strides=(2, 2)),
    Case(1, 32, 48, (5, 5), (3, 3), groups=2, pads=(1, 1, 1, 1)),
    Case(2, 24, 72, (4, 6), (1, 1), groups=3),
    Case(0, 8, 8, (4, 4), (3, 3)),
    Case(1, 296, 16, (3, 3), (1, 1)),
    Case(1, 72, 9, (5, 5), (3, 3), pads=(1, 1, 1, 1)),
    Case(1, 264, 8, (1, 2), (1, 3), pads=(0, 1, 0, 1)),
]


@cache
def kernel(block: int, lanes: int) -> Any:
    heights, panel = TILES[lanes]
    finish, finish_tail = bias_epilogue(lanes, blocked=True)
    return caller(
        make_conv(lanes=lanes, heights=heights, panel=panel, block=block, finish=finish, finish_tail=finish_tail)
    )


def run(
    case: Case,
    x: Any,
    w: Any,
    bias: Any,
    *,
    layout: str = "blocked",
    lanes: int = 8,
    nthreads: int = 1,
    side: str = "end",
) -> Any:
    """max(conv(x, w) + bias, 0) as [N, C, H, W]; the lanes beyond C are checked to be zero."""
    heights, panel = TILES[lanes]
    block = lanes if layout == "blocked" else 1
    n, c, h, wd = x.shape
    stored = {"blocked": lambda: blocked(x, lanes), "nchw": lambda: x, "nhwc": lambda: x.transpose(0, 2, 3, 1)}
    x_ = guarded(stored[layout](), side)
    strides = {
        "blocked": (4 * lanes * h * wd, 4 * lanes * wd, 4 * lanes),
        "nchw": (4 * h * wd, 4 * wd, 4),
        "nhwc": (4, 4 * wd * c, 4 * c),
    }[layout]
    w_ = guarded(pack_conv(w, lanes, panel, block, case.groups))
    oh, ow = case.output
    y = guarded_like((n, -(-case.oc // lanes), oh, ow, lanes), side=side)
    table = conv_scratch(case.kernel[0] * case.kernel[1], heights)
    scratch = guarded_like(((tile_bytes(heights, panel, lanes) + table) // 4,))
    image = x_.nbytes // n if n else 0
    words = [address(x_), image, *strides, h, wd, -(-c // case.groups // block), address(w_), n, case.groups]
    words += [case.oc // case.groups, *case.kernel, *case.strides, *case.dilations, *case.pads[:2], oh, ow]
    words += [4 * lanes * oh * ow, address(scratch)]
    kernel(block, lanes)(words, (address(y), y.nbytes // n if n else 0, address(bias)), nthreads)
    return unblocked(y, case.oc)


def check(case: Case, **options: Any) -> Any:
    x, w, bias = data(case)
    y = run(case, x, w, guarded(bias), **options)
    exact, magnitude = conv_reference(case, x, w, bias)
    assert_close(y, np.maximum(exact, 0), magnitude, w[0].size)
    return y


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("side", ["start", "end"])
def test_blocked_input(case: Case, side: str) -> None:
    check(case, side=side)


@pytest.mark.parametrize("case", [c for c in CASES if c.groups == 1], ids=str)
@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
def test_single_channels_read_through_strides(case: Case, layout: str) -> None:
    check(case, layout=layout)


@pytest.mark.parametrize("lanes", [4, 16])
def test_other_lanes(lanes: int) -> None:
    for case in CASES:
        if case.groups == 1 or all(c // case.groups % lanes == 0 for c in (case.c, case.oc)):
            check(case, lanes=lanes)


@pytest.mark.parametrize(("depth", "kernel"), [(3 * CHAIN, (1, 1)), (120, (3, 3))])
def test_long_sums_are_cut_into_even_chains(depth: int, kernel: tuple[int, int]) -> None:
    """A chain of ones survives next to chains of 2**24 and -2**24, in which each of them would be rounded away."""
    terms = np.zeros(depth * kernel[0] * kernel[1], "f4")
    chain = chain_terms.py_func(terms.size, 8)
    terms[0], terms[chain : 2 * chain], terms[2 * chain] = 2**24, 1, -(2**24)
    w = np.broadcast_to(terms.reshape(*kernel, depth).transpose(2, 0, 1), (16, depth, *kernel))
    case = Case(1, depth, 16, (6, 5), kernel)
    y = run(case, np.ones((1, depth, 6, 5), "f4"), np.ascontiguousarray(w), guarded(np.zeros(16, "f4")))
    assert np.array_equal(y, np.full((1, 16, *case.output), chain))


def test_bits_do_not_depend_on_threads() -> None:
    for case in (Case(2, 24, 72, (7, 7), (3, 3), pads=(1, 1, 1, 1)), CASES[5], CASES[11]):
        first = check(case)
        for nthreads in THREADS[1:]:
            assert np.array_equal(first, check(case, nthreads=nthreads))


def test_one_image_of_a_batch_has_the_same_bits() -> None:
    case = Case(3, 16, 24, (6, 5), (3, 3), pads=(1, 1, 1, 1))
    x, w, bias = data(case)
    together = run(case, x, w, guarded(bias))
    alone = run(case._replace(n=1), x[1:2], w, guarded(bias))
    assert np.array_equal(together[1:2], alone)


def test_special_values_stay_in_their_windows() -> None:
    case = Case(1, 8, 8, (6, 7), (3, 3), pads=(1, 1, 1, 1))
    x, w, bias = data(case)
    x[0, 3, 2, 5] = np.nan
    y = run(case, x, w, guarded(bias))
    touched = np.zeros((6, 7), bool)
    touched[1:4, 4:7] = True
    assert np.isnan(y[0][:, touched]).all()
    assert np.isfinite(y[0][:, ~touched]).all()
