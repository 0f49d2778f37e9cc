"""Grouped convolution with groups that are no multiple of the lanes, against NumPy in float64."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from jitopt_kernels.conv.grouped import make_grouped
from jitopt_kernels.packing import conv_scratch, grouped_slots, pack_grouped

from .convolutions import Case, blocked, conv_reference, data, unblocked
from .guarded import guarded, guarded_like
from .harness import THREADS, address, assert_close, bias_epilogue, caller

HEIGHTS, PANEL = (4, 2, 1), 2
SAME = (1, 1, 1, 1)
CASES = [
    Case(1, 12, 20, (5, 7), (1, 1), groups=4),
    Case(2, 68, 34, (3, 5), (1, 1), groups=2),
    Case(1, 16, 16, (6, 5), (3, 3), pads=SAME, groups=4),
    Case(1, 6, 18, (7, 4), (3, 3), strides=(2, 1), pads=(1, 0, 0, 1), groups=6),
    Case(1, 9, 3, (4, 9), (3, 2), dilations=(1, 2), groups=3),
    Case(1, 8, 16, (5, 5), (3, 3), pads=SAME, groups=8),
    Case(1, 40, 24, (7, 7), (1, 1), groups=2),
    Case(1, 10, 10, (5, 4), (3, 3), pads=SAME),
]


@cache
def kernel(block: int) -> Any:
    finish, finish_tail = bias_epilogue(8, blocked=True)
    return caller(
        make_grouped(lanes=8, heights=HEIGHTS, panel=PANEL, block=block, finish=finish, finish_tail=finish_tail)
    )


def run(case: Case, x: Any, w: Any, bias: Any, *, row_major: bool = False, nthreads: int = 1) -> Any:
    n, c, h, wd = x.shape
    x_ = guarded(x if row_major else blocked(x, 8))
    strides = (4 * h * wd, 4 * wd, 4) if row_major else (32 * h * wd, 32 * wd, 32)
    w_, bias_ = guarded(pack_grouped(w, 8, PANEL, case.groups)), guarded(bias)
    oh, ow = case.output
    y, scratch = (
        guarded_like((n, -(-case.oc // 8), oh, ow, 8)),
        guarded_like((conv_scratch(w[0, 0].size, HEIGHTS) // 4,)),
    )
    channels = case.oc // case.groups
    words = [address(x_), x_.nbytes // n, *strides, h, wd, c // case.groups, address(w_)]
    words += [grouped_slots(channels, case.groups, 8 * PANEL), n, case.groups, channels]
    words += [*case.kernel, *case.strides, *case.dilations, *case.pads[:2], oh, ow, 32 * oh * ow, address(scratch)]
    kernel(1 if row_major else 8)(words, (address(y), y.nbytes // n, address(bias_)), nthreads)
    return unblocked(y, case.oc)


def check(case: Case, **options: Any) -> Any:
    x, w, bias = data(case)
    y = run(case, x, w, bias, **options)
    exact, magnitude = conv_reference(case, x, w, bias)
    assert_close(y, np.maximum(exact, 0), magnitude, w[0].size)
    return y


@pytest.mark.parametrize("row_major", [False, True])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_grouping(case: Case, row_major: bool) -> None:
    first = check(case, row_major=row_major)
    for nthreads in THREADS[1:]:
        assert np.array_equal(first, check(case, row_major=row_major, nthreads=nthreads))


def test_groups_do_not_meet() -> None:
    case = CASES[2]
    x, w, bias = data(case)
    x[0, 5] = np.inf
    with np.errstate(invalid="ignore"):  # with the JIT off
        y = run(case, x, w, bias)[0]
    assert np.isfinite(y[:4]).all()
    assert np.isfinite(y[8:]).all()
    assert not np.isfinite(y[4:8]).all()
