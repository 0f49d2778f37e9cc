"""Tile steps whose rows lie anywhere: row i of A is read through its own address.

Convolutions use them: the rows of a tile are output positions, and each has the address it reads for one tap; a tap
that falls outside the image reads a block of zeros. So edges, strides, dilations and several image rows in one tile
are all the same code. The addresses are a value, `Rows(m)`, that LLVM keeps in registers while they suffice.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import models, register_model

from .binding import device, literals
from .emit import INT64, call, pointer, splat
from .memory import load, load_scalar
from .registers import Tile

_ADDRESS_BYTES = 8


class Rows(types.Type):
    """m addresses, one a row of a tile."""

    def __init__(self, m: int) -> None:
        self.m = m
        super().__init__(f"Rows({m})")


@register_model(Rows)
class _RowsModel(models.PrimitiveModel):
    def __init__(self, manager: Any, numba_type: Any) -> None:
        super().__init__(manager, numba_type, ir.ArrayType(INT64, numba_type.m))


def rows_load(address: int, m: int) -> Any:
    """The m int64 at `address` as the addresses of a tile's rows."""
    return np.array([load_scalar(address + _ADDRESS_BYTES * i, "int64") for i in range(m)])


def rows_advance(rows: Any, steps: int, count: int) -> Any:
    """Every address plus `count` times its own step; `steps` addresses m int64."""
    return rows + rows_load(steps, len(rows)) * count


def rank_rows(tile: Any, rows: Any, offset: int, b: int, depth: int) -> Any:
    """For k in range(depth), in order: acc[i, j] = fma(element k at rows[i] + offset, Vec (k, j) at b, acc[i, j]).

    B is packed, `depth` rows of n Vecs one after the other. `depth` is a literal: the steps are emitted one by one,
    which costs LLVM less than unrolling a loop.
    """
    m, n, lanes = tile.shape
    dtype = tile.dtype.name
    for k in range(depth):
        a = np.array([load_scalar(rows[i] + offset + k * tile.itemsize, dtype) for i in range(m)])
        columns = np.array([load(b + (k * n + j) * tile[0, 0].nbytes, dtype, lanes) for j in range(n)])
        tile = tile + a[:, None, None] * columns
    return tile


def _word(builder: Any, base: Any, i: int) -> Any:
    return builder.load(pointer(builder, builder.add(base, INT64(_ADDRESS_BYTES * i)), INT64), align=_ADDRESS_BYTES)


@device(rows_load)
def _rows_load(context: Any, address: Any, m: Any) -> Any:
    rows = Rows(*literals(m))

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        out = ir.Constant(context.get_value_type(rows), ir.Undefined)
        for i in range(rows.m):
            out = builder.insert_value(out, _word(builder, args[0], i), i)
        return out

    return rows(types.int64, m), emit


@device(rows_advance)
def _rows_advance(context: Any, rows: Any, steps: Any, count: Any) -> Any:
    if not isinstance(rows, Rows):
        return None

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        out, at, times = args
        for i in range(rows.m):
            step = builder.mul(_word(builder, at, i), times)
            out = builder.insert_value(out, builder.add(builder.extract_value(out, i), step), i)
        return out

    return rows(rows, types.int64, types.int64), emit


@device(rank_rows)
def _rank_rows(context: Any, tile: Any, rows: Any, offset: Any, b: Any, depth: Any) -> Any:
    if not isinstance(tile, Tile) or not isinstance(rows, Rows) or rows.m != tile.m:
        return None
    element = tile.register.element
    (steps,) = literals(depth)
    if element.kind != "f":
        return None

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        acc, rows_, offset_, b_, _ = args
        register, vec = tile.register.llvm(), tile.lanes * element.size
        sums = [builder.extract_value(acc, k) for k in range(tile.m * tile.n)]
        starts = [builder.add(builder.extract_value(rows_, i), offset_) for i in range(tile.m)]
        for k in range(steps):
            columns = []
            for j in range(tile.n):
                at = builder.add(b_, INT64((k * tile.n + j) * vec))
                columns.append(builder.load(pointer(builder, at, register), align=element.size))
            for i, start in enumerate(starts):
                at = pointer(builder, builder.add(start, INT64(k * element.size)), element.storage)
                x = splat(builder, builder.load(at, align=element.size), tile.lanes)
                for j, column in enumerate(columns):
                    at_sum = i * tile.n + j
                    sums[at_sum] = call(builder, "fmuladd", register, x, column, sums[at_sum])
        for k, total in enumerate(sums):
            acc = builder.insert_value(acc, total, k)
        return acc

    return tile(tile, rows, types.int64, types.int64, depth), emit
