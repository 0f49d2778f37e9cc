"""Integer GEMM: int32 C[M, N] = (A - a_zero)[M, K] x (B - b_zero)[K, N] for 8-bit A and B, over a two-level batch.

A and B are read in place, row-major with run-time row strides. Zero points are one number or one a row of A and one a
column of B. Arithmetic is int32 throughout and wraps as ONNX Runtime's does; sums of int32 do not depend on order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .abi import share
from .simd import convert, inlined, load, load_masked, load_scalar, load_splat, splat, tail_mask
from .tiling import merged

ROWS = 4  # rows of A that share a converted vector of B
DTYPES = ("int8", "uint8")


def make_gemm_int8(*, lanes: int, a_dtype: str, b_dtype: str, finish: Any, finish_tail: Any) -> Callable[..., None]:
    """An integer GEMM kernel; finish gets Vec(int32).

    Arguments, in order (strides in bytes; batch (i, j) has i < outer, j < inner):
        a, a_outer, a_inner, a_row, b, b_outer, b_inner, b_row
        outer, inner, m, n, k
        y_inner, y_row                 output strides: image = i, offset = j * y_inner + r * y_row + 4 * column
        a_zero, a_zero_step            address of A's zero points and the step between rows' (0: one for all)
        b_zero, b_zero_step            address of B's zero points and the step between columns' (0 or 1)
        operands, tid, nthreads
    Raises ValueError for other dtypes.
    """
    if a_dtype not in DTYPES or b_dtype not in DTYPES:
        raise ValueError(f"integer GEMM takes {' or '.join(DTYPES)}, not {a_dtype} and {b_dtype}")

    @inlined
    def element(address, zero):
        """An element of A less its zero point, in every lane."""
        return splat(convert(load_scalar(address, a_dtype), "int32") - zero, "int32", lanes)

    @inlined
    def zero_of(address):
        return convert(load_scalar(address, a_dtype), "int32")

    @inlined
    def columns_of(address, mask, whole):
        """A Vec of B as int32."""
        if whole:
            return convert(load(address, b_dtype, lanes), "int32")
        return convert(load_masked(address, mask, b_dtype), "int32")

    @inlined
    def give(v, image, offset, column, operands, mask, whole):
        if whole:
            finish(v, image, offset, column, operands)
        else:
            finish_tail(v, image, offset, column, operands, mask)

    @inlined
    def four(a, a_row, b, b_row, k, a_zero, a_zero_step, b_zeros, mask, whole, image, offset, y_row, column, operands):
        z0, z1 = zero_of(a_zero), zero_of(a_zero + a_zero_step)
        z2, z3 = zero_of(a_zero + 2 * a_zero_step), zero_of(a_zero + 3 * a_zero_step)
        v0, v1 = splat(0, "int32", lanes), splat(0, "int32", lanes)
        v2, v3 = splat(0, "int32", lanes), splat(0, "int32", lanes)
        for p in range(k):
            w = columns_of(b + p * b_row, mask, whole) - b_zeros
            v0 = v0 + element(a + p, z0) * w
            v1 = v1 + element(a + a_row + p, z1) * w
            v2 = v2 + element(a + 2 * a_row + p, z2) * w
            v3 = v3 + element(a + 3 * a_row + p, z3) * w
        give(v0, image, offset, column, operands, mask, whole)
        give(v1, image, offset + y_row, column, operands, mask, whole)
        give(v2, image, offset + 2 * y_row, column, operands, mask, whole)
        give(v3, image, offset + 3 * y_row, column, operands, mask, whole)

    @inlined
    def one(a, b, b_row, k, a_zero, b_zeros, mask, whole, image, offset, column, operands):
        z, v = zero_of(a_zero), splat(0, "int32", lanes)
        for p in range(k):
            v = v + element(a + p, z) * (columns_of(b + p * b_row, mask, whole) - b_zeros)
        give(v, image, offset, column, operands, mask, whole)

    @merged
    def gemm(
        a, a_outer, a_inner, a_row, b, b_outer, b_inner, b_row, outer, inner, m, n, k, y_inner, y_row,
        a_zero, a_zero_step, b_zero, b_zero_step, operands, tid, nthreads,
    ):  # fmt: skip
        vectors, blocks = (n + lanes - 1) // lanes, (m + ROWS - 1) // ROWS
        unit, end = share(outer * inner * blocks * vectors, 1, tid, nthreads)
        while unit < end:
            vector, block, batch = unit % vectors, unit // vectors % blocks, unit // vectors // blocks
            i, j, row, start = batch // inner, batch % inner, block * ROWS, vector * lanes
            mask, whole, column = tail_mask(n - start, lanes), n - start >= lanes, start * 4
            if b_zero_step == 0:
                b_zeros = convert(load_splat(b_zero, b_dtype, lanes), "int32")
            else:
                b_zeros = columns_of(b_zero + start, mask, whole)
            x = a + i * a_outer + j * a_inner + row * a_row
            w = b + i * b_outer + j * b_inner + start
            offset, zero = j * y_inner + row * y_row + column, a_zero + row * a_zero_step
            if m - row >= ROWS:
                four(x, a_row, w, b_row, k, zero, a_zero_step, b_zeros, mask, whole, i, offset, y_row, column, operands)
            else:
                for r in range(m - row):
                    one(
                        x + r * a_row, w, b_row, k, zero + r * a_zero_step, b_zeros, mask, whole, i,
                        offset + r * y_row, column, operands,
                    )  # fmt: skip
            unit += 1

    return gemm
