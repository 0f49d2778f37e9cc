"""The first convolution of an image against NumPy in float64: NCHW and NHWC, strides, pads, dilations, tails."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from jitopt_kernels.conv.stem import make_stem
from jitopt_kernels.packing import pack_conv, stem_scratch

from .convolutions import Case, conv_reference, data, unblocked
from .guarded import guarded, guarded_like
from .harness import THREADS, address, assert_close, bias_epilogue, caller

TILES = {4: ((4, 2, 1), 2), 8: ((6, 4, 1), 2), 16: ((7, 4, 1), 2)}
CASES = [
    Case(1, 3, 16, (19, 21), (7, 7), strides=(2, 2), pads=(3, 3, 3, 3)),
    Case(2, 3, 24, (9, 20), (3, 3), pads=(1, 1, 1, 1)),
    Case(1, 1, 5, (7, 29), (5, 3), strides=(1, 2), pads=(2, 0, 1, 1)),
    Case(1, 4, 8, (12, 13), (3, 3), dilations=(2, 2)),
    Case(1, 2, 9, (1, 40), (1, 4), strides=(1, 3), pads=(0, 1, 0, 2)),
    Case(1, 3, 33, (2, 2), (3, 3), pads=(1, 1, 1, 1)),
    Case(0, 3, 8, (4, 4), (3, 3)),
]


@cache
def kernel(lanes: int) -> Any:
    heights, panel = TILES[lanes]
    finish, finish_tail = bias_epilogue(lanes, blocked=True)
    return caller(make_stem(lanes=lanes, heights=heights, panel=panel, finish=finish, finish_tail=finish_tail))


def check(case: Case, *, nhwc: bool = False, lanes: int = 8, nthreads: int = 1, side: str = "end") -> Any:
    heights, panel = TILES[lanes]
    x, w, bias = data(case)
    n, c, h, wd = x.shape
    x_ = guarded(x.transpose(0, 2, 3, 1) if nhwc else x, side)
    strides = (4, 4 * wd * c, 4 * c) if nhwc else (4 * h * wd, 4 * wd, 4)
    w_, bias_ = guarded(pack_conv(w, lanes, panel, 1)), guarded(bias)
    oh, ow = case.output
    y = guarded_like((n, -(-case.oc // lanes), oh, ow, lanes), side=side)
    scratch = guarded_like((stem_scratch(w[0].size, heights) // 4,))
    words = [address(x_), x_.nbytes // max(n, 1), *strides, h, wd, c, address(w_), n, case.oc]
    words += [*case.kernel, *case.strides, *case.dilations, *case.pads[:2], oh, ow]
    words += [4 * lanes * oh * ow, address(scratch)]
    kernel(lanes)(words, (address(y), y.nbytes // max(n, 1), address(bias_)), nthreads)
    out = unblocked(y, case.oc)
    exact, magnitude = conv_reference(case, x, w, bias)
    assert_close(out, np.maximum(exact, 0), magnitude, w[0].size)
    return out


@pytest.mark.parametrize("nhwc", [False, True], ids=["nchw", "nhwc"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_case(case: Case, nhwc: bool) -> None:
    first = check(case, nhwc=nhwc, side="start")
    for nthreads in THREADS[1:]:
        assert np.array_equal(first, check(case, nhwc=nhwc, nthreads=nthreads))


@pytest.mark.parametrize("lanes", [4, 16])
def test_other_lanes(lanes: int) -> None:
    for case in CASES[:3]:
        check(case, lanes=lanes)
