"""Loads and stores. Addresses are plain int64 byte addresses, so no array header is touched in a loop.

Alignment is never assumed beyond the element's size. bool is one byte, 0 or 1, in memory and a Mask in registers.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types

from .binding import device, dtype_literal, literals
from .dtypes import DTYPES, DType, numpy_dtype
from .emit import INT32, INT64, call, constant, element, pointer, splat, with_lanes
from .registers import Mask, Vec, vector

_ONE, _LINE_BYTES = types.literal(1), 64


def _view(address: int, dtype: str, count: int) -> np.ndarray:
    """The bytes at an address as a writable array, for the Python bodies."""
    size = numpy_dtype(dtype).itemsize
    return np.frombuffer((ctypes.c_byte * (count * size)).from_address(int(address)), dtype=numpy_dtype(dtype))


def load(address: int, dtype: str, lanes: int) -> Any:
    """The `lanes` elements at `address`."""
    return _view(address, dtype, lanes).copy()


def load_masked(address: int, mask: Any, dtype: str) -> Any:
    """The elements at `address` whose mask is set, 0 in the other lanes; memory of those lanes is not touched."""
    out = np.zeros(len(mask), numpy_dtype(dtype))
    for lane in np.flatnonzero(mask):
        out[lane] = load_scalar(address + int(lane) * out.itemsize, dtype)
    return out


def load_scalar(address: int, dtype: str) -> Any:
    """The element at `address` as a scalar."""
    return _view(address, dtype, 1)[0]


def load_constant(address: int, dtype: str) -> Any:
    """`load_scalar` of what nothing writes while the kernel runs: the compiler may load it once, before loops."""
    return load_scalar(address, dtype)


def load_splat(address: int, dtype: str, lanes: int) -> Any:
    """The element at `address` in every lane."""
    return np.repeat(_view(address, dtype, 1), lanes)


def store(address: int, value: Any) -> None:
    """Write every lane of `value` at `address`."""
    _view(address, value.dtype.name, len(value))[:] = value


def store_masked(address: int, value: Any, mask: Any) -> None:
    """Write the lanes of `value` whose mask is set; memory of the other lanes is not touched."""
    for lane in np.flatnonzero(mask):
        store_scalar(address + int(lane) * value.itemsize, value[lane])


def store_scalar(address: int, value: Any) -> None:
    """Write one element; its dtype is that of `value`."""
    value = np.asarray(value)
    _view(address, value.dtype.name, 1)[0] = value


def gather(base: int, offsets: Any, dtype: str) -> Any:
    """The elements at `base + offsets`; `offsets` are a Vec of int32 or int64 bytes."""
    return np.array([load_scalar(base + int(offset), dtype) for offset in offsets], numpy_dtype(dtype))


def prefetch(address: int, lines: int = 1) -> None:
    """Ask for the cache line at `address` and those that follow, `lines` (a literal) in all; never faults."""


def compare_exchange(address: int, expected: int, desired: int) -> bool:
    """Atomically replace the int64 at `address` by `desired` if it is `expected`; whether it was."""
    matches = load_scalar(address, "int64") == expected
    if matches:
        store_scalar(address, np.int64(desired))
    return bool(matches)


def _from_storage(builder: ir.IRBuilder, dtype: DType, value: ir.Value) -> ir.Value:
    return builder.icmp_unsigned("!=", value, constant(value.type, 0)) if dtype.kind == "b" else value


def _to_storage(builder: ir.IRBuilder, dtype: DType, value: ir.Value, lanes: int | None) -> ir.Value:
    return builder.zext(value, with_lanes(dtype.storage, lanes)) if dtype.kind == "b" else value


@device(load)
def _load(context: Any, address: Any, dtype: Any, lanes: Any) -> Any:
    result = vector(dtype_literal(dtype), *literals(lanes))
    storage = ir.VectorType(result.element.storage, result.lanes)

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        value = builder.load(pointer(builder, args[0], storage), align=result.element.size)
        return _from_storage(builder, result.element, value)

    return result(types.int64, dtype, lanes), emit


@device(load_masked)
def _load_masked(context: Any, address: Any, mask: Any, dtype: Any) -> Any:
    if not isinstance(mask, Mask):
        return None
    result = vector(dtype_literal(dtype), mask.lanes)
    storage = ir.VectorType(result.element.storage, result.lanes)

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        where, align = pointer(builder, args[0], storage), INT32(result.element.size)
        masked = (where, align, args[1], constant(storage, 0))
        value = call(builder, "masked.load", storage, *masked, over=(storage, where.type))
        return _from_storage(builder, result.element, value)

    return result(types.int64, mask, dtype), emit


@device(load_scalar)
def _load_scalar(context: Any, address: Any, dtype: Any) -> Any:
    kind = DTYPES[dtype_literal(dtype)]

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        value = builder.load(pointer(builder, args[0], kind.storage), align=kind.size)
        return _from_storage(builder, kind, value)

    return kind.scalar(types.int64, dtype), emit


@device(load_constant)
def _load_constant(context: Any, address: Any, dtype: Any) -> Any:
    kind = DTYPES[dtype_literal(dtype)]

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        value = builder.load(pointer(builder, args[0], kind.storage), align=kind.size)
        value.set_metadata("invariant.load", builder.module.add_metadata([]))
        return _from_storage(builder, kind, value)

    return kind.scalar(types.int64, dtype), emit


@device(load_splat)
def _load_splat(context: Any, address: Any, dtype: Any, lanes: Any) -> Any:
    result = vector(dtype_literal(dtype), *literals(lanes))
    storage = result.element.storage

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        value = builder.load(pointer(builder, args[0], storage), align=result.element.size)
        return splat(builder, _from_storage(builder, result.element, value), result.lanes)

    return result(types.int64, dtype, lanes), emit


@device(store)
def _store(context: Any, address: Any, value: Any) -> Any:
    if not isinstance(value, Vec):
        return None

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        stored = _to_storage(builder, value.element, args[1], value.lanes)
        builder.store(stored, pointer(builder, args[0], stored.type), align=value.element.size)
        return context.get_dummy_value()

    return types.void(types.int64, value), emit


@device(store_masked)
def _store_masked(context: Any, address: Any, value: Any, mask: Any) -> Any:
    if not isinstance(value, Vec) or mask != Mask(value.lanes):
        return None

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        stored = _to_storage(builder, value.element, args[1], value.lanes)
        where, align = pointer(builder, args[0], stored.type), INT32(value.element.size)
        masked = (stored, where, align, args[2])
        call(builder, "masked.store", ir.VoidType(), *masked, over=(stored.type, where.type))
        return context.get_dummy_value()

    return types.void(types.int64, value, mask), emit


@device(store_scalar)
def _store_scalar(context: Any, address: Any, value: Any) -> Any:
    kind = element(value)

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        stored = _to_storage(builder, kind, args[1], None)
        builder.store(stored, pointer(builder, args[0], stored.type), align=kind.size)
        return context.get_dummy_value()

    return types.void(types.int64, kind.scalar), emit


@device(gather)
def _gather(context: Any, base: Any, offsets: Any, dtype: Any) -> Any:
    if not isinstance(offsets, Vec) or offsets.dtype not in ("int32", "int64"):
        return None
    result = vector(dtype_literal(dtype), offsets.lanes)
    storage, lanes = result.element.storage, offsets.lanes

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        """One load a lane: offsets that stay the same in a loop stay in registers, which a gather instruction's
        addresses, a vector that changes with the base, would not."""
        bytes_ = args[1] if offsets.dtype == "int64" else builder.sext(args[1], ir.VectorType(INT64, lanes))
        value = ir.Constant(ir.VectorType(storage, lanes), ir.Undefined)
        for lane in map(INT32, range(lanes)):
            at = pointer(builder, builder.add(args[0], builder.extract_element(bytes_, lane)), storage)
            value = builder.insert_element(value, builder.load(at, align=result.element.size), lane)
        return _from_storage(builder, result.element, value)

    return result(types.int64, offsets, dtype), emit


@device(prefetch)
def _prefetch(context: Any, address: Any, lines: Any = _ONE) -> Any:
    (count,) = literals(lines)

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        read, keep, data = INT32(0), INT32(3), INT32(1)
        for line in range(count):
            at = builder.add(args[0], INT64(line * _LINE_BYTES))
            call(builder, "prefetch", ir.VoidType(), pointer(builder, at, ir.IntType(8)), read, keep, data)
        return context.get_dummy_value()

    return types.void(types.int64, lines), emit


@device(compare_exchange)
def _compare_exchange(context: Any, address: Any, expected: Any, desired: Any) -> Any:
    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pair = builder.cmpxchg(pointer(builder, args[0], INT64), args[1], args[2], "seq_cst", "seq_cst")
        return builder.extract_value(pair, 1)

    return types.boolean(types.int64, types.int64, types.int64), emit
