"""Register tiles against NumPy: products of any height, and epilogues on whole and partial blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from jitopt_kernels.simd import (
    load,
    load_masked,
    maximum,
    rank1,
    store,
    store_masked,
    tile_finish,
    tile_finish_tail,
    tile_get,
    tile_zeros,
)
from numba import njit

from tests.kernels.guarded import guarded, guarded_like


def _epilogue(lanes: int) -> tuple[Any, Any]:
    """max(v + bias, 0), stored twice: the second store shows that operands and image offsets arrive."""

    @njit(error_model="numpy")
    def finish(v: Any, image: int, offset: int, column: int, operands: Any) -> None:
        y = maximum(v + load(operands[0] + column, "float32", lanes), 0)
        store(operands[1] + image * operands[2] + offset, y)
        store(operands[3] + image * operands[2] + offset, y + 1)

    @njit(error_model="numpy")
    def finish_tail(v: Any, image: int, offset: int, column: int, operands: Any, mask: Any) -> None:
        y = maximum(v + load_masked(operands[0] + column, mask, "float32"), 0)
        store_masked(operands[1] + image * operands[2] + offset, y, mask)
        store_masked(operands[3] + image * operands[2] + offset, y + 1, mask)

    return finish, finish_tail


def _block(m: int, n: int, lanes: int, tail: bool) -> Any:
    """One m x n block of a product: A [m, k] row-major, B [k, n, lanes], C [m, columns] in each of two images."""
    finish, finish_tail = _epilogue(lanes)
    vec = 4 * lanes

    @njit(error_model="numpy")
    def whole(a: int, b: int, k: int, operands: Any, columns: int) -> None:
        for image in range(2):
            acc = tile_zeros(m, n, lanes)
            for i in range(k):
                acc = rank1(acc, a + 4 * i, 4 * k, b + i * vec * n, vec)
            tile_finish(acc, finish, operands, image, 0, 4 * columns, vec, 0)

    @njit(error_model="numpy")
    def partial(a: int, b: int, k: int, operands: Any, columns: int) -> None:
        for image in range(2):
            acc = tile_zeros(m, n, lanes)
            for i in range(k):
                acc = rank1(acc, a + 4 * i, 4 * k, b + i * vec * n, vec)
            tile_finish_tail(acc, finish, finish_tail, operands, image, 0, 4 * columns, vec, 0, columns)

    return partial if tail else whole


@pytest.mark.parametrize("tail", [False, True])
@pytest.mark.parametrize(("m", "n", "lanes"), [(1, 1, 8), (4, 3, 8), (3, 2, 16), (2, 4, 4)])
def test_blocks(m: int, n: int, lanes: int, tail: bool) -> None:
    block, random = _block(m, n, lanes, tail), np.random.default_rng(m)
    widths = [n * lanes] if not tail else [1, lanes - 1, lanes, n * lanes - 1, n * lanes]
    for columns in {max(width, 1) for width in widths}:
        for k in (1, 17):
            a = random.integers(-4, 5, (m, k)).astype(np.float32)
            b = random.integers(-4, 5, (k, n * lanes)).astype(np.float32)
            bias = guarded(random.integers(-4, 5, columns).astype(np.float32))
            y, z = guarded_like((2, m, columns)), guarded_like((2, m, columns))
            operands = (bias.ctypes.data, y.ctypes.data, y.strides[0], z.ctypes.data)
            block(a.ctypes.data, b.ctypes.data, k, operands, columns)
            want = np.maximum(a @ b[:, :columns] + bias, 0)
            np.testing.assert_array_equal(y, np.stack([want, want]))
            np.testing.assert_array_equal(z, y + 1)


def test_every_height_gives_the_same_bits() -> None:
    """An output is one chain of multiply-adds in ascending k, whatever tile computes it."""
    random, k = np.random.default_rng(5), 100
    a = random.standard_normal((4, k)).astype(np.float32)
    b = random.standard_normal((k, 8)).astype(np.float32)
    bias = np.zeros(8, np.float32)

    def run(rows: np.ndarray, block: Any) -> np.ndarray:
        y, z = np.zeros((2, len(rows), 8), np.float32), np.zeros((2, len(rows), 8), np.float32)
        rows = np.ascontiguousarray(rows)
        operands = (bias.ctypes.data, y.ctypes.data, y.strides[0], z.ctypes.data)
        block(rows.ctypes.data, b.ctypes.data, k, operands, 8)
        return y[0]

    whole, single = run(a, _block(4, 1, 8, False)), _block(1, 1, 8, False)
    for i in range(4):
        assert run(a[i : i + 1], single).tobytes() == whole[i].tobytes()


def test_registers_of_a_tile() -> None:
    @njit(error_model="numpy")
    def kernel(a: int, b: int, y: int) -> None:
        acc = rank1(tile_zeros(2, 2, 4), a, 4, b, 16)
        store(y, tile_get(acc, 0, 1))
        store(y + 16, tile_get(acc, 1, 0))

    a, b = np.array([2, 3], np.float32), np.arange(8, dtype=np.float32)
    y = np.zeros((2, 4), np.float32)
    kernel(a.ctypes.data, b.ctypes.data, y.ctypes.data)
    np.testing.assert_array_equal(y, np.stack([2 * b[4:], 3 * b[:4]]))
