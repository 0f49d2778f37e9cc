"""Transposed convolution against a scatter in float64: strides, pads, output padding, dilations, groups, shares."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest
from jitopt_kernels.conv.transposed import make_conv_transposed
from jitopt_kernels.packing import conv_scratch, pack_conv_transposed, tile_bytes

from .convolutions import blocked, unblocked
from .guarded import guarded, guarded_like
from .harness import THREADS, address, assert_close, bias_epilogue, caller

HEIGHTS, PANEL = (4, 2, 1), 2


class Case(NamedTuple):
    n: int
    c: int
    oc: int
    size: tuple[int, int]
    kernel: tuple[int, int]
    strides: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    dilations: tuple[int, int] = (1, 1)
    groups: int = 1
    extra: tuple[int, int] = (0, 0)

    @property
    def output(self) -> tuple[int, int]:
        h, w = (
            (self.size[i] - 1) * self.strides[i]
            + self.dilations[i] * (self.kernel[i] - 1)
            + 1
            + self.extra[i]
            - self.pads[i]
            - self.pads[i + 2]
            for i in (0, 1)
        )
        return h, w


CASES = [
    Case(1, 8, 16, (5, 6), (2, 2), (2, 2)),
    Case(2, 13, 9, (4, 7), (3, 3), (2, 2), (1, 1, 1, 1), extra=(1, 1)),
    Case(1, 8, 24, (6, 5), (4, 4), (2, 2), (1, 1, 1, 1)),
    Case(1, 16, 8, (7, 9), (3, 3), (1, 1), (1, 1, 1, 1)),
    Case(1, 8, 8, (3, 5), (2, 2), (3, 4), extra=(2, 1)),
    Case(1, 8, 8, (5, 4), (3, 3), (2, 3), (0, 2, 1, 0), dilations=(2, 2)),
    Case(1, 32, 16, (4, 5), (3, 3), (2, 2), (1, 1, 1, 1), groups=2),
    Case(1, 8, 5, (1, 19), (1, 5), (1, 2), (0, 1, 0, 2)),
    Case(1, 3, 8, (1, 1), (1, 1)),
]


@cache
def kernel(block: int) -> Any:
    finish, finish_tail = bias_epilogue(8, blocked=True)
    return caller(
        make_conv_transposed(lanes=8, heights=HEIGHTS, panel=PANEL, block=block, finish=finish, finish_tail=finish_tail)
    )


def scatter(case: Case, x: Any, w: Any) -> Any:
    """The definition: every input times the filter, added where it lands."""
    n, groups, (oh, ow), k = case.n, case.groups, case.output, case.kernel
    whole = [oh + case.pads[0] + case.pads[2], ow + case.pads[1] + case.pads[3]]
    out = np.zeros((n, groups, case.oc // groups, *whole))
    xg = x.astype("f8").reshape(n, groups, case.c // groups, *case.size)
    wg = w.astype("f8").reshape(groups, case.c // groups, case.oc // groups, *k)
    for i in range(k[0]):
        for j in range(k[1]):
            rows = slice(
                i * case.dilations[0], i * case.dilations[0] + (case.size[0] - 1) * case.strides[0] + 1, case.strides[0]
            )
            cols = slice(
                j * case.dilations[1], j * case.dilations[1] + (case.size[1] - 1) * case.strides[1] + 1, case.strides[1]
            )
            out[..., rows, cols] += np.einsum("ngchw,gco->ngohw", xg, wg[..., i, j])
    out = out.reshape(n, case.oc, *whole)
    return out[:, :, case.pads[0] : case.pads[0] + oh, case.pads[1] : case.pads[1] + ow]


def run(case: Case, x: Any, w: Any, bias: Any, *, row_major: bool = False, nthreads: int = 1) -> Any:
    lanes, block = 8, 1 if row_major else 8
    n, c, h, wd = x.shape
    x_ = guarded(x if row_major else blocked(x, lanes))
    strides = (4 * h * wd, 4 * wd, 4) if row_major else (4 * lanes * h * wd, 4 * lanes * wd, 4 * lanes)
    w_, bias_ = guarded(pack_conv_transposed(w, lanes, PANEL, block, case.groups)), guarded(bias)
    oh, ow = case.output
    y = guarded_like((n, -(-case.oc // lanes), oh, ow, lanes))
    table = conv_scratch(case.kernel[0] * case.kernel[1], HEIGHTS)
    scratch = guarded_like(((tile_bytes(HEIGHTS, PANEL, lanes) + table) // 4,))
    words = [address(x_), x_.nbytes // n, *strides, h, wd, -(-c // case.groups // block), address(w_), n, case.groups]
    words += [case.oc // case.groups, *case.kernel, *case.strides, *case.dilations, *case.pads[:2], oh, ow]
    words += [4 * lanes * oh * ow, address(scratch)]
    kernel(block)(words, (address(y), y.nbytes // n, address(bias_)), nthreads)
    return unblocked(y, case.oc)


def check(case: Case, **options: Any) -> Any:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((case.n, case.c, *case.size)).astype("f4")
    w = rng.standard_normal((case.c, case.oc // case.groups, *case.kernel)).astype("f4")
    bias = rng.standard_normal(case.oc).astype("f4")
    y = run(case, x, w, bias, **options)
    exact = np.maximum(scatter(case, x, w) + bias[:, None, None], 0)
    terms = case.c // case.groups * case.kernel[0] * case.kernel[1]
    assert_close(y, exact, scatter(case, np.abs(x), np.abs(w)) + np.abs(bias)[:, None, None], terms)
    return y


@pytest.mark.parametrize("case", CASES, ids=str)
def test_blocked(case: Case) -> None:
    check(case)


def test_row_major_input() -> None:
    for case in CASES[:3]:
        check(case, row_major=True)


def test_bits_do_not_depend_on_threads() -> None:
    for case in CASES[:6]:
        first = check(case)
        for nthreads in THREADS[1:]:
            assert np.array_equal(first, check(case, nthreads=nthreads))
