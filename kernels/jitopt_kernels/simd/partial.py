"""Partial sums of a tile: long sums are cut into chains of multiply-adds, added up in memory.

A sum of K terms in one chain errs by up to K half ulps of its largest partial sum, in chains of L by L + K / L of them
(Higham, Accuracy and Stability of Numerical Algorithms, 2002, chapter 4). The sum of finished chains waits in memory,
as the registers are full.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types

from .binding import device
from .emit import INT64, pointer
from .memory import load, store
from .registers import Tile


def tile_store(tile: Any, address: int) -> None:
    """Write the registers of a tile one after the other, row by row, at `address`."""
    for register in tile.reshape(-1, tile.shape[2]):
        store(address, register)
        address += register.nbytes


def tile_plus(tile: Any, address: int) -> Any:
    """A tile plus the one that `tile_store` wrote at `address`."""
    flat = tile.reshape(-1)
    return (load(address, flat.dtype.name, len(flat)) + flat).reshape(tile.shape)


def _register(builder: Any, tile: Tile, base: Any, k: int) -> Any:
    """A pointer to register k of the tile stored at `base`."""
    at = builder.add(base, INT64(k * tile.lanes * tile.register.element.size))
    return pointer(builder, at, tile.register.llvm())


@device(tile_store)
def _tile_store(context: Any, tile: Any, address: Any) -> Any:
    if not isinstance(tile, Tile):
        return None

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        for k in range(tile.m * tile.n):
            value, at = builder.extract_value(args[0], k), _register(builder, tile, args[1], k)
            builder.store(value, at, align=tile.register.element.size)
        return context.get_dummy_value()

    return types.void(tile, types.int64), emit


@device(tile_plus)
def _tile_plus(context: Any, tile: Any, address: Any) -> Any:
    if not isinstance(tile, Tile) or tile.register.element.kind != "f":
        return None

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        out = ir.Constant(context.get_value_type(tile), ir.Undefined)
        for k in range(tile.m * tile.n):
            at = _register(builder, tile, args[1], k)
            total = builder.fadd(builder.load(at, align=tile.register.element.size), builder.extract_value(args[0], k))
            out = builder.insert_value(out, total, k)
        return out

    return tile(tile, types.int64), emit
