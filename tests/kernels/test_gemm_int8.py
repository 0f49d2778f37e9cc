"""Integer GEMM: exact against NumPy in int64, every sign combination, zero points a tensor, a row and a column."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from jitopt_kernels.gemm_int8 import make_gemm_int8

from .guarded import guarded, guarded_like
from .harness import THREADS, address, caller, store_epilogue

SHAPES = [(1, 1, 1), (4, 8, 16), (5, 13, 7), (9, 33, 40), (3, 7, 0), (0, 4, 4)]


@cache
def kernel(a_dtype: str, b_dtype: str) -> Any:
    finish, finish_tail = store_epilogue(8, blocked=False)
    return caller(make_gemm_int8(lanes=8, a_dtype=a_dtype, b_dtype=b_dtype, finish=finish, finish_tail=finish_tail))


@pytest.mark.parametrize("dtypes", [("uint8", "int8"), ("int8", "int8"), ("uint8", "uint8")], ids="-".join)
@pytest.mark.parametrize("each", [False, True], ids=["one_zero", "zeros"])
def test_exact(dtypes: tuple[str, str], each: bool) -> None:
    rng = np.random.default_rng(0)

    def integers(dtype: str, *shape: int) -> Any:
        info = np.iinfo(dtype)
        return guarded(rng.integers(info.min, info.max + 1, shape).astype(dtype))

    for m, n, k in SHAPES:
        a, b = integers(dtypes[0], 2, m, k), integers(dtypes[1], k, n)
        a_zero, b_zero = integers(dtypes[0], m if each else 1), integers(dtypes[1], n if each else 1)
        expected = (a.astype("i8") - a_zero[:, None]) @ (b.astype("i8") - b_zero)
        for nthreads in THREADS:
            y = guarded_like((2, m, n), np.int32)
            words = [address(a), m * k, 0, k, address(b), 0, 0, n, 2, 1, m, n, k, 0, 4 * n]
            words += [address(a_zero), int(each), address(b_zero), int(each)]
            kernel(*dtypes)(words, (address(y), 4 * m * n), nthreads)
            assert np.array_equal(y, expected)


def test_other_dtypes_are_refused() -> None:
    with pytest.raises(ValueError, match="integer GEMM"):
        make_gemm_int8(lanes=8, a_dtype="int16", b_dtype="int8", finish=None, finish_tail=None)
