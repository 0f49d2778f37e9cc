"""Which NumPy array holds a tensor, also of the element types that NumPy lacks.

    plain types                     their own dtype; strings are object arrays of str
    bfloat16                        uint16, the bit pattern
    float8*, float6*, float4e2m1    uint8, one code a byte
    uint4, uint2                    uint8, one value a byte
    int4, int2                      int8, one value a byte (sign extended)

The dtype of a raw array carries the element type's name in its metadata, which views and copies keep, so it can be
told from an ordinary uint8 array; arithmetic drops it, and has no meaning on bit patterns anyway.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from jitopt.ir.dtypes import BY_NAME, DType, dtype_of

Array = np.ndarray[Any, Any]
_KEY = "jitopt"


@cache
def storage(dtype: DType) -> np.dtype[Any]:
    """The dtype of arrays that hold elements of `dtype`."""
    if dtype.numpy is not None:
        return dtype.numpy
    code = f"{'i' if dtype.kind == 'int' else 'u'}{dtype.itemsize}"
    return np.dtype(np.dtype(code), metadata={_KEY: dtype.name})


def element_type(array: Array) -> DType:
    """The element type of an array, a raw one included. Raises KeyError for what ONNX has no type for."""
    metadata = array.dtype.metadata
    return BY_NAME[metadata[_KEY]] if metadata and _KEY in metadata else dtype_of(array.dtype)


def holds(array: Array, dtype: DType) -> bool:
    """Whether `array` can be the storage of a tensor of `dtype`; a raw array needs no metadata."""
    return bool(array.dtype == storage(dtype)) or (dtype.kind == "string" and array.dtype.kind in "USO")


def packed_bytes(count: int, dtype: DType) -> int:
    """Bytes of `count` elements in a file, where elements below one byte are packed."""
    return (count * dtype.bits + 7) // 8


def unpack(packed: Array, count: int, dtype: DType) -> Array:
    """One element a byte from the bit stream of a type below 8 bits; element 0 stands in the lowest bits.

    `packed` is a flat uint8 array of `packed_bytes(count, dtype)` bytes.
    """
    if 8 % dtype.bits == 0:
        shifts = np.arange(0, 8, dtype.bits, dtype=np.uint8)
        codes = ((packed[:, None] >> shifts) & np.uint8((1 << dtype.bits) - 1)).ravel()[:count]
    else:
        bits = np.unpackbits(packed, count=count * dtype.bits, bitorder="little").reshape(count, dtype.bits)
        codes = np.packbits(bits, axis=1, bitorder="little").ravel()
    if dtype.kind == "int":
        unused = np.int8(8 - dtype.bits)
        return ((codes.view(np.int8) << unused) >> unused).view(storage(dtype))
    return codes.view(storage(dtype))


def pack(array: Array, dtype: DType) -> bytes:
    """The inverse of `unpack`, for any shape."""
    codes = np.ascontiguousarray(array).view(np.uint8).ravel()
    bits = np.unpackbits(codes[:, None], axis=1, bitorder="little")[:, : dtype.bits]
    return np.packbits(bits.ravel(), bitorder="little").tobytes()
