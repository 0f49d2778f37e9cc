"""Tile steps of depthwise and pooling windows: a tile's rows are output columns, every lane is its own channel.

`taps` is a Tile of kernel_h x kernel_w weights, loaded once and kept in registers while they suffice. Input is one
plane of a blocked tensor, [H][W][lanes], so a column step is one register's bytes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils

from .binding import device, dtype_literal, literals
from .dtypes import numpy_dtype
from .elementwise import extremum
from .emit import INT32, INT64, call, keep_loop, pointer, splat
from .lanes import tail_mask
from .memory import load
from .registers import Mask, Tile


def tile_load(address: int, m: int, n: int, lanes: int, dtype: str = "float32") -> Any:
    """A tile whose m x n registers lie one after the other at `address`."""
    return load(address, dtype, m * n * lanes).reshape(m, n, lanes)


def tile_splat(x: Any, m: int, n: int, lanes: int, dtype: str = "float32") -> Any:
    """A tile of m x n registers with `x` in every lane."""
    return np.full((m, n, lanes), x, numpy_dtype(dtype))


def tile_select(low: int, high: int, a: Any, b: Any) -> Any:
    """Columns low .. high of tile `a`, of tile `b` elsewhere; a column is one lane of one register of a row."""
    _, n, lanes = a.shape
    column = np.arange(n * lanes).reshape(n, lanes)
    return np.where((column >= low) & (column < high), a, b)


def window_fma(tile: Any, taps: Any, x: int, x_row: int, dilation: int, stride: int) -> Any:
    """acc[i] = fma(pixel (a, b * dilation + i * stride), taps[a, b], acc[i]) over taps (a, b) in order.

    Pixel (p, q) is the Vec at x + p * x_row + q * its bytes.
    """
    return _window(tile, taps, lambda a, column: x + a * x_row + column * tile[0, 0].nbytes, dilation, stride)


def window_max(tile: Any, kernel_h: int, kernel_w: int, x: int, x_row: int, dilation: int, stride: int) -> Any:
    """acc[i] = maximum(acc[i], pixel) over the pixels `window_fma` would read for kernel_h x kernel_w taps."""
    return _pooled(tile, np.maximum, kernel_h, kernel_w, x, x_row, dilation, stride)


def window_sum(tile: Any, kernel_h: int, kernel_w: int, x: int, x_row: int, dilation: int, stride: int) -> Any:
    """acc[i] = acc[i] + pixel, likewise."""
    return _pooled(tile, np.add, kernel_h, kernel_w, x, x_row, dilation, stride)


def _pooled(tile: Any, fold: Any, kernel_h: int, kernel_w: int, x: int, x_row: int, dilation: int, stride: int) -> Any:
    out, vec = tile.copy(), tile[0, 0].nbytes
    for a in range(kernel_h):
        for b in range(kernel_w):
            for i in range(len(out)):
                at = x + a * x_row + (b * dilation + i * stride) * vec
                out[i, 0] = fold(out[i, 0], load(at, tile.dtype.name, tile.shape[2]))
    return out


def window_fma_clipped(
    tile: Any, taps: Any, x: int, x_row: int, dilation: int, stride: int,
    row: int, row_step: int, column: int, height: int, width: int, zeros: int,
) -> Any:  # fmt: skip
    """`window_fma` at the image's edge: pixel (a, q) is row `row` + a * row_step and column `column` + q of a plane.

    `x` addresses the plane, `zeros` one Vec of zeros, which pixels outside height x width read.
    """

    def at(a: int, offset: int) -> int:
        p, q = row + a * row_step, column + offset
        inside = 0 <= p < height and 0 <= q < width
        return x + p * x_row + q * tile[0, 0].nbytes if inside else zeros

    return _window(tile, taps, at, dilation, stride)


def _window(tile: Any, taps: Any, at: Any, dilation: int, stride: int) -> Any:
    out = tile.copy()
    for a in range(taps.shape[0]):
        for b in range(taps.shape[1]):
            for i in range(len(out)):
                out[i, 0] += load(at(a, b * dilation + i * stride), tile.dtype.name, tile.shape[2]) * taps[a, b]
    return out


def tile_finish_rows(
    tile: Any, finish: Any, finish_tail: Any, operands: Any, image: int, offset: int, row_step: int, column: int,
    rows: int, valid: int,
) -> None:  # fmt: skip
    """Hand the first `rows` rows of a tile one register wide to the epilogue; `valid` of its channels exist."""
    lanes = tile.shape[2]
    for i in range(rows):
        if valid >= lanes:
            finish(tile[i, 0], image, offset + i * row_step, column, operands)
        else:
            finish_tail(tile[i, 0], image, offset + i * row_step, column, operands, tail_mask(valid, lanes))


_DEFAULT = types.literal("float32")


@device(tile_load)
def _tile_load(context: Any, address: Any, m: Any, n: Any, lanes: Any, dtype: Any = _DEFAULT) -> Any:
    sizes = literals(m, n, lanes)
    tile = Tile(sizes[0], sizes[1], dtype_literal(dtype), sizes[2])
    register = tile.register

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        out = ir.Constant(context.get_value_type(tile), ir.Undefined)
        for k in range(tile.m * tile.n):
            at = builder.add(args[0], INT64(k * tile.lanes * register.element.size))
            value = builder.load(pointer(builder, at, register.llvm()), align=register.element.size)
            out = builder.insert_value(out, value, k)
        return out

    return tile(types.int64, m, n, lanes, dtype), emit


@device(tile_splat)
def _tile_splat(context: Any, x: Any, m: Any, n: Any, lanes: Any, dtype: Any = _DEFAULT) -> Any:
    sizes = literals(m, n, lanes)
    tile = Tile(sizes[0], sizes[1], dtype_literal(dtype), sizes[2])

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        out = ir.Constant(context.get_value_type(tile), ir.Undefined)
        value = splat(builder, args[0], tile.lanes)
        for k in range(tile.m * tile.n):
            out = builder.insert_value(out, value, k)
        return out

    return tile(tile.register.element.scalar, m, n, lanes, dtype), emit


@device(tile_select)
def _tile_select(context: Any, low: Any, high: Any, a: Any, b: Any) -> Any:
    if not isinstance(a, Tile) or a != b:
        return None

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        first, last = (splat(builder, builder.trunc(x, INT32), a.lanes) for x in args[:2])
        taken, out = args[2:]
        for j in range(a.n):
            column = ir.Constant(ir.VectorType(INT32, a.lanes), list(range(j * a.lanes, (j + 1) * a.lanes)))
            chosen = builder.and_(builder.icmp_signed(">=", column, first), builder.icmp_signed("<", column, last))
            for k in range(j, a.m * a.n, a.n):
                value = builder.select(chosen, builder.extract_value(taken, k), builder.extract_value(out, k))
                out = builder.insert_value(out, value, k)
        return out

    return a(types.int64, types.int64, a, b), emit


def _fold(builder: Any, tile: Any, acc: Any, kernel_h: int, kernel_w: int, combine: Any, at: Any) -> Any:
    """acc[i] = combine(acc[i], pixel, k) over taps k in order; tap (a, b) of column i reads at(a, b, i)."""
    register, size = tile.register.llvm(), tile.register.element.size
    for a in range(kernel_h):
        for b in range(kernel_w):
            for i in range(tile.m):
                pixel = builder.load(pointer(builder, at(a, b, i), register), align=size)
                acc = builder.insert_value(acc, combine(builder.extract_value(acc, i), pixel, a * kernel_w + b), i)
    return acc


def _accumulate(builder: Any, tile: Any, taps: Any, acc: Any, weights: Any, at: Any) -> Any:
    """The multiply-adds of a depthwise window."""
    register = tile.register.llvm()

    def combine(total: Any, pixel: Any, k: int) -> Any:
        return call(builder, "fmuladd", register, pixel, builder.extract_value(weights, k), total)

    return _fold(builder, tile, acc, taps.m, taps.n, combine, at)


def _inside(builder: Any, tile: Any, x: Any, x_row: Any, dilation: int, stride: int) -> Any:
    """at(a, b, i) of windows that lie inside the image."""
    width = tile.lanes * tile.register.element.size

    def at(a: int, b: int, i: int) -> Any:
        row = builder.add(x, builder.mul(x_row, INT64(a)))
        return builder.add(row, INT64((b * dilation + i * stride) * width))

    return at


def _same_registers(tile: Any, taps: Any) -> bool:
    tiles = isinstance(tile, Tile) and isinstance(taps, Tile)
    return tiles and tile.n == 1 and tile.register == taps.register and tile.register.element.kind == "f"


@device(window_fma)
def _window_fma(context: Any, tile: Any, taps: Any, x: Any, x_row: Any, dilation: Any, stride: Any) -> Any:
    if not _same_registers(tile, taps):
        return None
    d, s = literals(dilation, stride)

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        acc, weights, x_, x_row_ = args[:4]
        return _accumulate(builder, tile, taps, acc, weights, _inside(builder, tile, x_, x_row_, d, s))

    return tile(tile, taps, types.int64, types.int64, dilation, stride), emit


def _pooling(function: Any, combination: Any) -> None:
    @device(function)
    def _define(
        context: Any, tile: Any, kernel_h: Any, kernel_w: Any, x: Any, x_row: Any, dilation: Any, stride: Any
    ) -> Any:
        if not isinstance(tile, Tile) or tile.n != 1:
            return None
        height, width, d, s = literals(kernel_h, kernel_w, dilation, stride)
        kind = tile.register.element.kind

        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            def combine(total: Any, pixel: Any, k: int) -> Any:
                return combination(builder, kind, total, pixel)

            return _fold(builder, tile, args[0], height, width, combine, _inside(builder, tile, args[3], args[4], d, s))

        return tile(tile, kernel_h, kernel_w, types.int64, types.int64, dilation, stride), emit


_pooling(window_max, extremum(">"))
_pooling(window_sum, lambda builder, kind, a, b: builder.fadd(a, b) if kind == "f" else builder.add(a, b))


@device(window_fma_clipped)
def _window_fma_clipped(
    context: Any, tile: Any, taps: Any, x: Any, x_row: Any, dilation: Any, stride: Any,
    row: Any, row_step: Any, column: Any, height: Any, width: Any, zeros: Any,
) -> Any:  # fmt: skip
    if not _same_registers(tile, taps):
        return None
    d, s = literals(dilation, stride)
    bytes_ = tile.lanes * tile.register.element.size

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        acc, weights, x_, x_row_, _, _, row_, row_step_, column_, height_, width_, zeros_ = args
        known: dict[tuple[int, int], Any] = {}

        def at(a: int, b: int, i: int) -> Any:
            shift = b * d + i * s
            if (a, shift) not in known:
                p = builder.add(row_, builder.mul(row_step_, INT64(a)))
                q = builder.add(column_, INT64(shift))
                inside = builder.and_(
                    builder.icmp_unsigned("<", p, height_), builder.icmp_unsigned("<", q, width_)
                )  # negative numbers are large unsigned ones
                where = builder.add(builder.add(x_, builder.mul(p, x_row_)), builder.mul(q, INT64(bytes_)))
                known[a, shift] = builder.select(inside, where, zeros_)
            return known[a, shift]

        return _accumulate(builder, tile, taps, acc, weights, at)

    return tile(tile, taps, types.int64, types.int64, dilation, stride, *(types.int64,) * 6), emit


@device(tile_finish_rows)
def _tile_finish_rows(
    context: Any, tile: Any, finish: Any, finish_tail: Any, operands: Any, image: Any, offset: Any, row_step: Any,
    column: Any, rows: Any, valid: Any,
) -> Any:  # fmt: skip
    if not isinstance(tile, Tile) or tile.n != 1:
        return None
    integer, mask = types.int64, Mask(tile.lanes)
    common = (tile.register, integer, integer, integer, operands)
    taken = finish.get_call_type(context, common, {})
    taken_tail = finish_tail.get_call_type(context, (*common, mask), {})

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        acc, _, _, operands_, image_, offset_, row_step_, column_, rows_, valid_ = args
        function, function_tail = context.get_function(finish, taken), context.get_function(finish_tail, taken_tail)
        slots = cgutils.alloca_once_value(builder, acc)
        whole = builder.icmp_signed(">=", valid_, INT64(tile.lanes))
        numbers = ir.Constant(ir.VectorType(INT32, tile.lanes), list(range(tile.lanes)))
        first = builder.icmp_signed("<", numbers, splat(builder, builder.trunc(valid_, INT32), tile.lanes))
        with cgutils.for_range(builder, rows_) as loop:
            value = builder.load(builder.gep(slots, [INT64(0), loop.index]))
            at = builder.add(offset_, builder.mul(loop.index, row_step_))
            given = [value, image_, at, column_, operands_]
            with builder.if_else(whole, likely=True) as (then, otherwise):
                with then:
                    function(builder, given)
                with otherwise:
                    function_tail(builder, [*given, first])
            last = builder.basic_block
        keep_loop(builder, last)
        return context.get_dummy_value()

    return types.void(tile, finish, finish_tail, operands, *(integer,) * 6), emit
