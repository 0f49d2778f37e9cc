"""Shape operands: what is known of a small integer tensor's elements, and the rules that carry it along.

Known elements stand in object arrays of dims (Python ints and expressions), of the tensor's shape. As in `rules`,
errors name no node; the caller adds it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from jitopt.errors import ModelError, ShapeError, UnsupportedOperator
from jitopt.ir.dims import Dim, Shape, symbol
from jitopt.ir.dtypes import DType
from jitopt.ir.graph import Node, Value
from jitopt.ir.types import TensorType
from jitopt.ops.operator import Array, Attrs
from jitopt.ops.rules import demand, show

_MOST = 1024  # elements beyond which a constant is data, not shape arithmetic
Content = Callable[..., Any]


def as_content(values: Any, shape: tuple[int, ...] | None = None) -> Array:
    """An object array of dims from ints and expressions, or from an integer array; 1-D unless `shape` says more."""
    if isinstance(values, np.ndarray):
        shape = values.shape if shape is None else shape
        values = values.ravel().tolist()
    flat = list(values)
    out = np.empty(len(flat), object)
    out[:] = flat
    return out if shape is None else out.reshape(shape)


def known(value: Value | None) -> Array | None:
    """The elements of an integer tensor as an object array, None where they are unknown or the operand is absent."""
    if value is None:
        return None
    if value.constant is not None:
        array = value.constant
        return as_content(array) if array.dtype.kind in "iub" and array.size <= _MOST else None
    return value.content


def known_ints(value: Value | None) -> list[int] | None:
    """All elements, flat, where every one is a plain integer; else None."""
    content = known(value)
    if content is None or not all(isinstance(d, int) for d in content.flat):
        return None
    return [int(d) for d in content.flat]


def known_dims(node: Node, index: int) -> list[Dim] | None:
    """Elements of the 1-D (or scalar) shape operand `index`; None where unknown. Raises ShapeError for rank >= 2."""
    value = node.input(index)
    if value is None:
        return None
    shape = value.tensor.shape
    if shape is not None and len(shape) > 1:
        raise ShapeError(f"operand '{value.name}' must be 1-D, its shape is {show(shape)}")
    content = known(value)
    return None if content is None else list(content.flat)


def operand_length(node: Node, index: int) -> int | None:
    """Number of elements of a 1-D operand where that is static."""
    shape = node.arg(index).tensor.shape
    if shape is None or len(shape) > 1:
        return None
    length = shape[0] if shape else 1
    return length if isinstance(length, int) else None


def computable(dtype: DType) -> None:
    """Raise UnsupportedOperator for a type NumPy lacks, of an operator that looks at its elements' values."""
    if dtype.numpy is None:
        raise UnsupportedOperator(f"{dtype} is not supported")


def fresh(node: Node, axis: int, output: int = 0) -> Dim:
    """The symbol of an extent that only running the model tells."""
    return symbol(f"?{node.outputs[output].name}_{axis}")


def fresh_shape(node: Node, rank: int | None, output: int = 0) -> Shape | None:
    """A shape of such symbols; None where even the rank is unknown."""
    return None if rank is None else tuple(fresh(node, axis, output) for axis in range(rank))


def axis_of(axis: int, rank: int, what: str = "axis") -> int:
    """`axis` counted from the front. Raises ModelError where it lies outside [-rank, rank)."""
    if not -rank <= axis < rank:
        raise ModelError(f"{what} {axis} lies outside [{-rank}, {rank}), the axes of its input")
    return int(axis) % rank


def axes_of(axes: Iterable[int], rank: int, *, unique: bool = True) -> list[int]:
    """Axes counted from the front. Raises ModelError for one out of range, and for a repeated one if `unique`."""
    out = [axis_of(axis, rank) for axis in axes]
    if unique and len(set(out)) != len(out):
        raise ModelError(f"axes {list(axes)} name one axis twice")
    return out


def unified(dims: Sequence[Dim], what: str) -> Dim:
    """The one extent that several must agree on: an integer before a named symbol before an unresolved one.

    Raises ShapeError where two integers differ.
    """
    text = f"{what} differ: {', '.join(map(str, dims))}"
    ints = {d for d in dims if isinstance(d, int)}
    if len(ints) > 1:
        raise ShapeError(text)
    found: Dim = ints.pop() if ints else min(dims, key=lambda d: "?" in str(d))
    for d in dict.fromkeys(dims):
        demand("equal", found, d, text)
    return found


def carried(reference: Callable[..., Any], *indices: int) -> Content:
    """The content rule of an operator that only moves elements: its reference, run on the object arrays.

    `indices` are the operands that say where to (axes, starts, repeats); they must be plain integers by then.
    An operator with several outputs gives a tuple of arrays.
    """

    def content(attrs: Attrs, node: Node, *arrays: Array | None) -> Any:
        operands: list[Array | None] = list(arrays)
        for i, array in enumerate(operands):
            if array is None:
                if node.input(i) is not None:
                    return None
            elif i in indices:
                if not all(isinstance(d, int) for d in array.flat):
                    return None
                operands[i] = array.astype(np.int64)
        if _too_large(node):
            return None
        try:
            return reference(attrs, *operands)
        except (IndexError, ValueError) as error:
            raise ShapeError(f"cannot be computed: {error}") from error

    return content


def _too_large(node: Node) -> bool:
    """The outputs, typed by now, hold more elements than shape arithmetic ever does."""
    for value in node.outputs:
        if isinstance(value.type, TensorType) and value.type.shape is not None:
            elements = value.type.elements
            if isinstance(elements, int) and elements > _MOST:
                return True
    return False
