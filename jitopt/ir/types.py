"""Types of values: tensors, sequences and optionals, over every element type and symbolic shapes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from jitopt.ir.dims import Dim, Shape, product
from jitopt.ir.dtypes import DType, dtype_of


@dataclass(frozen=True, slots=True)
class TensorType:
    """A tensor of `dtype`; `shape` is a tuple of dims, or None where even the rank is unknown."""

    dtype: DType
    shape: Shape | None

    @property
    def rank(self) -> int | None:
        return None if self.shape is None else len(self.shape)

    @property
    def is_static(self) -> bool:
        """Every extent is known."""
        return self.shape is not None and all(isinstance(d, int) for d in self.shape)

    @property
    def elements(self) -> Dim:
        """Number of elements; the shape must be known."""
        assert self.shape is not None
        return product(self.shape)

    def with_shape(self, shape: Shape | None) -> TensorType:
        return TensorType(self.dtype, shape)

    def with_dtype(self, dtype: DType | str) -> TensorType:
        return TensorType(dtype_of(dtype), self.shape)

    def __str__(self) -> str:
        return f"{self.dtype}[{'*' if self.shape is None else ', '.join(map(str, self.shape))}]"


@dataclass(frozen=True, slots=True)
class SequenceType:
    element: Type

    def __str__(self) -> str:
        return f"seq({self.element})"


@dataclass(frozen=True, slots=True)
class OptionalType:
    element: Type

    def __str__(self) -> str:
        return f"optional({self.element})"


Type: TypeAlias = TensorType | SequenceType | OptionalType


def tensor(dtype: DType | str, shape: Shape | list[Dim] | None) -> TensorType:
    """Shorthand: tensor("float32", (1, 3, 8, 8))."""
    return TensorType(dtype_of(dtype), None if shape is None else tuple(shape))
