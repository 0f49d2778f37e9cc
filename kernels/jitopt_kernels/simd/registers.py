"""Vec, Mask and Tile as Numba types.

They are ordinary values of compiled code: they live in variables, cross calls of `njit` functions, and LLVM keeps
them in registers. They never cross into Python: with the JIT off the same code runs on NumPy arrays, of shape
(lanes,) for a Vec or Mask and (m, n, lanes) for a Tile.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import models, register_model

from .dtypes import DTYPES, DType


class Vec(types.Type):
    """One register's worth of `lanes` elements; `dtype` is a name of `DTYPES` other than bool."""

    def __init__(self, dtype: str, lanes: int) -> None:
        self.dtype, self.lanes = dtype, lanes
        super().__init__(f"Vec({dtype}x{lanes})")

    @property
    def element(self) -> DType:
        return DTYPES[self.dtype]

    def llvm(self) -> ir.VectorType:
        return ir.VectorType(self.element.element, self.lanes)


class Mask(Vec):
    """One truth value a lane: what comparisons give and what bool tensors are in registers."""

    def __init__(self, lanes: int) -> None:
        super().__init__("bool", lanes)
        self.name = f"Mask({lanes})"


class Tile(types.Type):
    """m x n registers of `lanes` elements: the accumulators of a GEMM or convolution block."""

    def __init__(self, m: int, n: int, dtype: str, lanes: int) -> None:
        self.m, self.n, self.dtype, self.lanes = m, n, dtype, lanes
        super().__init__(f"Tile({m}x{n}x{dtype}x{lanes})")

    @property
    def register(self) -> Vec:
        return Vec(self.dtype, self.lanes)

    def llvm(self) -> ir.ArrayType:
        return ir.ArrayType(self.register.llvm(), self.m * self.n)


@register_model(Vec)
@register_model(Mask)
@register_model(Tile)
class _RegisterModel(models.PrimitiveModel):
    """A value is its LLVM vector or array of vectors, nothing boxed."""

    def __init__(self, manager: Any, numba_type: Any) -> None:
        super().__init__(manager, numba_type, numba_type.llvm())


def vector(dtype: str, lanes: int) -> Vec:
    """The register type of a tensor's dtype: Mask for bool, Vec for the rest."""
    return Mask(lanes) if dtype == "bool" else Vec(dtype, lanes)
