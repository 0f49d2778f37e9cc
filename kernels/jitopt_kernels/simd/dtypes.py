"""The element types of vectors: one table that gives each name its Numba, LLVM and NumPy form."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from llvmlite import ir
from numba import types


@dataclass(frozen=True)
class DType:
    """One element type.

    `kind` is "f" (float), "i" (signed), "u" (unsigned) or "b" (bool). `element` is what a register lane holds and
    `storage` what memory holds: they differ for bool only, one bit in a register and one byte, 0 or 1, in memory.
    """

    name: str
    kind: str
    scalar: types.Type
    element: ir.Type
    storage: ir.Type
    numpy: np.dtype

    @property
    def size(self) -> int:
        """Bytes of one element in memory."""
        return self.numpy.itemsize

    @property
    def bits(self) -> int:
        """Bits of one element in memory."""
        return 8 * self.size


def _integer(name: str) -> DType:
    scalar = getattr(types, name)
    element = ir.IntType(scalar.bitwidth)
    return DType(name, "i" if scalar.signed else "u", scalar, element, element, np.dtype(name))


def _float(name: str, element: ir.Type) -> DType:
    return DType(name, "f", getattr(types, name), element, element, np.dtype(name))


DTYPES: dict[str, DType] = {
    dtype.name: dtype
    for dtype in (
        _float("float32", ir.FloatType()),
        _float("float64", ir.DoubleType()),
        *(_integer(f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)),
        DType("bool", "b", types.boolean, ir.IntType(1), ir.IntType(8), np.dtype(np.bool_)),
    )
}


def numpy_dtype(name: str) -> np.dtype:
    """The NumPy dtype of a table entry; what the Python bodies of simd functions use."""
    return DTYPES[name].numpy
