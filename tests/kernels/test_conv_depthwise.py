"""Depthwise convolution against NumPy in float64: filter sizes, strides, dilations, pads, lane tails, guard pages."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from jitopt_kernels.conv.depthwise import make_depthwise
from jitopt_kernels.packing import ZERO_BYTES, pack_depthwise

from .convolutions import Case, blocked, conv_reference, data, unblocked
from .guarded import guarded, guarded_like
from .harness import THREADS, address, assert_close, bias_epilogue, caller


def depthwise(
    n: int, c: int, size: Any, kernel: Any, *, strides: Any = (1, 1), pads: Any = (0,) * 4, dilations: Any = (1, 1)
) -> Case:
    return Case(n, c, c, size, kernel, strides, pads, dilations, c)


CASES = [
    depthwise(1, 8, (9, 23), (3, 3), pads=(1, 1, 1, 1)),
    depthwise(2, 13, (7, 7), (3, 3), pads=(1, 1, 1, 1)),
    depthwise(1, 3, (1, 1), (3, 3), pads=(1, 1, 1, 1)),
    depthwise(1, 20, (5, 6), (3, 3)),
    depthwise(1, 24, (10, 31), (3, 3), strides=(2, 2), pads=(0, 0, 1, 1)),
    depthwise(1, 16, (14, 27), (5, 5), pads=(2, 2, 2, 2)),
    depthwise(1, 9, (11, 12), (5, 5), strides=(2, 2), pads=(2, 1, 2, 2)),
    depthwise(1, 8, (12, 30), (3, 3), pads=(2, 2, 2, 2), dilations=(2, 2)),
    depthwise(1, 8, (13, 29), (7, 7), pads=(3, 3, 3, 3)),
    depthwise(2, 8, (1, 40), (1, 9), strides=(1, 2), pads=(0, 4, 0, 4)),
    depthwise(1, 8, (3, 3), (3, 3), pads=(4, 5, 3, 4)),
    depthwise(0, 8, (4, 4), (3, 3)),
]


@cache
def kernel(size: tuple[int, int], stride: int, dilation: int, lanes: int) -> Any:
    finish, finish_tail = bias_epilogue(lanes, blocked=True)
    return caller(
        make_depthwise(
            lanes=lanes,
            kernel=size,
            stride=stride,
            dilation=dilation,
            columns=4,
            finish=finish,
            finish_tail=finish_tail,
        )
    )


def run(case: Case, x: Any, w: Any, bias: Any, *, lanes: int = 8, nthreads: int = 1, side: str = "end") -> Any:
    n, c, h, wd = x.shape
    x_, w_, bias_ = guarded(blocked(x, lanes), side), guarded(pack_depthwise(w, lanes)), guarded(bias)
    oh, ow = case.output
    y = guarded_like((n, -(-c // lanes), oh, ow, lanes), side=side)
    scratch = guarded_like((ZERO_BYTES // 4,))
    image = x_.nbytes // n if n else 0
    words = [address(x_), image, 4 * lanes * h * wd, 4 * lanes * wd, h, wd, address(w_), n, c]
    words += [case.strides[0], case.dilations[0], *case.pads[:2], oh, ow, 4 * lanes * oh * ow, address(scratch)]
    call = kernel(case.kernel, case.strides[1], case.dilations[1], lanes)
    call(words, (address(y), y.nbytes // n if n else 0, address(bias_)), nthreads)
    return unblocked(y, c)


def check(case: Case, **options: Any) -> Any:
    x, w, bias = data(case)
    y = run(case, x, w, bias, **options)
    exact, magnitude = conv_reference(case, x, w, bias)
    assert_close(y, np.maximum(exact, 0), magnitude, w[0].size)
    return y


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_window(case: Case) -> None:
    for side in ("start", "end"):
        check(case, side=side)


@pytest.mark.parametrize("lanes", [4, 16])
def test_other_lanes(lanes: int) -> None:
    for case in CASES[:4]:
        check(case, lanes=lanes)


def test_bits_do_not_depend_on_threads() -> None:
    for case in CASES[:5]:
        first = check(case)
        for nthreads in THREADS[1:]:
            assert np.array_equal(first, check(case, nthreads=nthreads))


def test_special_values_stay_in_their_windows_and_channels() -> None:
    case = CASES[0]
    x, w, bias = data(case)
    x[0, 3, 4, 9] = np.nan
    touched = np.zeros((8, 9, 23), bool)
    touched[3, 3:6, 8:11] = True
    y = run(case, x, w, bias)[0]
    assert np.isnan(y[touched]).all()
    assert np.isfinite(y[~touched]).all()
