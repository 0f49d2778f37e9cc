"""Panels of B for `gemm`, copied from rows or columns into a thread's scratch in the form `packing.pack_b` gives."""

from __future__ import annotations

from typing import Any

import numpy as np

from .simd import inlined, load, load_masked, load_scalar, splat, store, store_scalar, tail_mask
from .simd.transpose import transpose_copy


def make_copy(lanes: int, panel: int, columns: bool) -> Any:
    """copy(b, b_row, k, start, n, to): columns start .. start + width of B as a packed panel, zeros from n on."""
    width, vec = panel * lanes, lanes * 4

    @inlined
    def copy_rows(b, b_row, k, start, n, to):
        for j in range(panel):
            at, left = b + 4 * start + j * vec, n - start - j * lanes
            if left >= lanes:
                for p in range(k):
                    store(to + (p * panel + j) * vec, load(at + p * b_row, "float32", lanes))
            elif left > 0:
                mask = tail_mask(left, lanes)
                for p in range(k):
                    store(to + (p * panel + j) * vec, load_masked(at + p * b_row, mask, "float32"))
            else:
                for p in range(k):
                    store(to + (p * panel + j) * vec, splat(0.0, "float32", lanes))

    @inlined
    def copy_columns(b, b_row, k, start, n, to):
        at, exist = b + start * b_row, min(n - start, width)
        squares, done = exist // lanes * lanes, k // lanes * lanes
        for p in range(0, done, lanes):
            for j in range(0, squares, lanes):
                transpose_copy(at + j * b_row + 4 * p, b_row, to + (p * width + j) * 4, width * 4, lanes)
        for p in range(k):
            for j in range(squares if p < done else 0, exist):
                store_scalar(to + (p * width + j) * 4, load_scalar(at + j * b_row + 4 * p, "float32"))
            for j in range(exist, width):
                store_scalar(to + (p * width + j) * 4, np.float32(0.0))

    return copy_columns if columns else copy_rows
