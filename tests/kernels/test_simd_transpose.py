"""Squares transposed in registers: every width, rows further apart than they are long, nothing beyond them touched."""

from __future__ import annotations

import numpy as np
import pytest
from jitopt_kernels.simd.transpose import transpose_copy
from numba import njit

from .guarded import guarded


@pytest.mark.parametrize("lanes", [2, 4, 8, 16])
def test_square_in_wider_rows(lanes: int) -> None:
    @njit(error_model="numpy")
    def kernel(a: int, a_row: int, to: int, to_row: int) -> None:
        transpose_copy(a, a_row, to, to_row, lanes)

    wide = guarded(np.random.default_rng(lanes).standard_normal((lanes, lanes + 3)).astype(np.float32))
    for run in (kernel, kernel.py_func):
        out = guarded(np.full((lanes, lanes + 1), 7, np.float32))
        run(wide.ctypes.data + 12, wide.strides[0], out.ctypes.data, out.strides[0])
        assert np.array_equal(out[:, :lanes], wide[:, 3:].T)
        assert (out[:, lanes] == 7).all()
