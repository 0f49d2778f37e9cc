"""Register tiles: the accumulators of a GEMM or convolution block, and how an epilogue takes them over.

A block of output is computed as `tile_zeros`, one `rank1` for each k, then `tile_finish`, which hands every register
to the epilogue `finish(v, image, offset, column, operands)`; the epilogue computes its formulas and stores. Every
output element is one chain of multiply-adds in ascending k, whatever the tile's height (longer sums: `partial`). All
steps are bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils

from .binding import device, dtype_literal, literals
from .dtypes import DTYPES
from .emit import INT32, INT64, call, keep_loop, pointer, splat
from .lanes import tail_mask
from .memory import load, load_scalar
from .registers import Mask, Tile

Finish = Callable[[Any, int, int, int, tuple[int, ...]], None]
_ACCUMULATORS = types.literal("float32")
FinishTail = Callable[[Any, int, int, int, tuple[int, ...], Any], None]


def tile_zeros(m: int, n: int, lanes: int, dtype: str = "float32") -> Any:
    """A tile of m x n registers, all zero."""
    return np.zeros((m, n, lanes), DTYPES[dtype].numpy)


def rank1(tile: Any, a: int, a_step: int, b: int, b_step: int) -> Any:
    """acc[i, j] = fma(element at a + i * a_step, Vec at b + j * b_step, acc[i, j]) for every i, j."""
    m, n, lanes = tile.shape
    dtype = tile.dtype.name
    rows = np.array([load_scalar(a + i * a_step, dtype) for i in range(m)])
    columns = np.array([load(b + j * b_step, dtype, lanes) for j in range(n)])
    return tile + rows[:, None, None] * columns


def tile_get(tile: Any, i: int, j: int) -> Any:
    """Register (i, j) of a tile; i and j are literals."""
    return tile[i, j]


def tile_finish(
    tile: Any,
    finish: Finish,
    operands: tuple[int, ...],
    image: int,
    offset: int,
    row_step: int,
    vec_step: int,
    column: int,
) -> None:
    """Hand every register to finish(v, image, at, channel, operands).

    at = offset + i * row_step + j * vec_step; channel = column + j * the bytes of one Vec.
    """
    m, n, lanes = tile.shape
    for i in range(m):
        for j in range(n):
            at, channel = offset + i * row_step + j * vec_step, column + j * lanes * tile.itemsize
            finish(tile[i, j], image, at, channel, operands)


def tile_finish_tail(
    tile: Any,
    finish: Finish,
    finish_tail: FinishTail,
    operands: tuple[int, ...],
    image: int,
    offset: int,
    row_step: int,
    vec_step: int,
    column: int,
    valid: int,
) -> None:
    """`tile_finish` where only `valid` columns exist: a partial Vec goes to finish_tail with its mask, none beyond."""
    m, n, lanes = tile.shape
    for i in range(m):
        for j in range(n):
            at, channel = offset + i * row_step + j * vec_step, column + j * lanes * tile.itemsize
            if valid >= (j + 1) * lanes:
                finish(tile[i, j], image, at, channel, operands)
            elif valid > j * lanes:
                finish_tail(tile[i, j], image, at, channel, operands, tail_mask(valid - j * lanes, lanes))


@device(tile_zeros)
def _tile_zeros(context: Any, m: Any, n: Any, lanes: Any, dtype: Any = _ACCUMULATORS) -> Any:
    sizes = literals(m, n, lanes)
    tile = Tile(sizes[0], sizes[1], dtype_literal(dtype), sizes[2])
    return tile(m, n, lanes, dtype), lambda context, builder, signature, args: ir.Constant(tile.llvm(), None)


@device(rank1)
def _rank1(context: Any, tile: Any, a: Any, a_step: Any, b: Any, b_step: Any) -> Any:
    if not isinstance(tile, Tile) or tile.register.element.kind != "f":
        return None
    element = tile.register.element

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        acc, a, a_step, b, b_step = args
        register = tile.register.llvm()
        columns = [
            builder.load(pointer(builder, _at(builder, b, b_step, j), register), align=element.size)
            for j in range(tile.n)
        ]
        for i in range(tile.m):
            scalar = builder.load(pointer(builder, _at(builder, a, a_step, i), element.storage), align=element.size)
            x = splat(builder, scalar, tile.lanes)
            for j in range(tile.n):
                k = i * tile.n + j
                total = call(builder, "fmuladd", register, x, columns[j], builder.extract_value(acc, k))
                acc = builder.insert_value(acc, total, k)
        return acc

    return tile(tile, *(types.int64,) * 4), emit


def _at(builder: Any, base: Any, step: Any, count: int) -> Any:
    """base + count * step."""
    return base if count == 0 else builder.add(base, builder.mul(step, INT64(count)))


@device(tile_get)
def _tile_get(context: Any, tile: Any, i: Any, j: Any) -> Any:
    if not isinstance(tile, Tile):
        return None
    row, column = literals(i, j)
    k = row * tile.n + column
    return tile.register(tile, i, j), lambda context, builder, signature, args: builder.extract_value(args[0], k)


@device(tile_finish)
def _tile_finish(
    context: Any,
    tile: Any,
    finish: Any,
    operands: Any,
    image: Any,
    offset: Any,
    row_step: Any,
    vec_step: Any,
    column: Any,
) -> Any:
    if not isinstance(tile, Tile):
        return None
    integer = types.int64
    taken = finish.get_call_type(context, (tile.register, integer, integer, integer, operands), {})

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        acc, _, operands_, image_, offset_, row_step_, vec_step_, column_ = args
        function, width = context.get_function(finish, taken), tile.lanes * tile.register.element.size
        for i in range(tile.m):
            for j in range(tile.n):
                value = builder.extract_value(acc, i * tile.n + j)
                at = _at(builder, _at(builder, offset_, row_step_, i), vec_step_, j)
                function(builder, [value, image_, at, builder.add(column_, INT64(j * width)), operands_])
        return context.get_dummy_value()

    return types.void(tile, finish, operands, *(integer,) * 5), emit


@device(tile_finish_tail)
def _tile_finish_tail(
    context: Any,
    tile: Any,
    finish: Any,
    finish_tail: Any,
    operands: Any,
    image: Any,
    offset: Any,
    row_step: Any,
    vec_step: Any,
    column: Any,
    valid: Any,
) -> Any:
    if not isinstance(tile, Tile):
        return None
    integer, mask = types.int64, Mask(tile.lanes)
    common = (tile.register, integer, integer, integer, operands)
    taken = finish.get_call_type(context, common, {})
    taken_tail = finish_tail.get_call_type(context, (*common, mask), {})

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        acc, _, _, operands_, image_, offset_, row_step_, vec_step_, column_, valid_ = args
        function, function_tail = context.get_function(finish, taken), context.get_function(finish_tail, taken_tail)
        # Edges are rare: the tile goes through memory and a loop, so each epilogue is there once, not m x n times.
        slots = cgutils.alloca_once_value(builder, acc)
        lanes, width = INT64(tile.lanes), INT64(tile.lanes * tile.register.element.size)
        numbers = ir.Constant(ir.VectorType(INT32, tile.lanes), list(range(tile.lanes)))
        columns = builder.sdiv(builder.add(valid_, INT64(tile.lanes - 1)), lanes)
        columns = call(builder, "smin", INT64, columns, INT64(tile.n))
        with cgutils.for_range(builder, INT64(tile.m)) as row:
            with cgutils.for_range(builder, columns) as vec:
                index = builder.add(builder.mul(row.index, INT64(tile.n)), vec.index)
                value = builder.load(builder.gep(slots, [INT64(0), index]))
                at = builder.add(builder.mul(row.index, row_step_), builder.mul(vec.index, vec_step_))
                channel = builder.add(column_, builder.mul(vec.index, width))
                given = [value, image_, builder.add(offset_, at), channel, operands_]
                left = builder.sub(valid_, builder.mul(vec.index, lanes))
                with builder.if_else(builder.icmp_signed(">=", left, lanes)) as (whole, partial):
                    with whole:
                        function(builder, given)
                    with partial:
                        first = splat(builder, builder.trunc(left, INT32), tile.lanes)
                        function_tail(builder, [*given, builder.icmp_signed("<", numbers, first)])
                inner = builder.basic_block
            keep_loop(builder, inner)
            outer = builder.basic_block
        keep_loop(builder, outer)
        return context.get_dummy_value()

    return types.void(tile, finish, finish_tail, operands, *(integer,) * 6), emit
