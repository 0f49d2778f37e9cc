"""Questions that several passes ask of nodes and values."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitopt.ir.dims import Shape
from jitopt.ir.graph import Node, Value
from jitopt.ir.types import TensorType
from jitopt.ops.contents import known_ints
from jitopt.ops.registry import operator_of

Array = np.ndarray[Any, Any]


def words(text: str) -> frozenset[str]:
    """The set of names in `text`."""
    return frozenset(text.split())


def attribute(node: Node, name: str) -> Any:
    """The attribute, or its default where the node does not carry it."""
    given = node.attrs.get(name)
    return operator_of(node).attributes[name].default if given is None else given


def shape_of(value: Value | None) -> Shape | None:
    """The shape of a tensor whose rank is known."""
    return value.type.shape if value is not None and isinstance(value.type, TensorType) else None


def static_shape(value: Value | None) -> tuple[int, ...] | None:
    """The shape where every extent is a plain integer."""
    shape = shape_of(value)
    if shape is None or not all(isinstance(d, int) for d in shape):
        return None
    return tuple(int(d) for d in shape if isinstance(d, int))


def same_type(a: Value, b: Value) -> bool:
    """Both are tensors of one dtype and one known shape, symbolic extents being the same expressions."""
    return isinstance(a.type, TensorType) and a.type.shape is not None and a.type == b.type


def ints_of(value: Value | None) -> list[int] | None:
    """The elements of an integer tensor, flat, where all are known now."""
    return known_ints(value)


def numeric_constant(value: Value | None) -> Array | None:
    """The array of a numeric or boolean constant that NumPy can compute with."""
    if value is None or value.constant is None or value.dtype.numpy is None or value.constant.dtype.kind not in "fiub":
        return None
    return value.constant


def is_filled_with(value: Value | None, number: float) -> bool:
    """A numeric or boolean constant whose every element is `number`; the sign of a zero counts for floats."""
    array = numeric_constant(value)
    if array is None:
        return False
    if array.size == 0 or not bool(np.all(array == number)):
        return False
    return number != 0 or array.dtype.kind != "f" or bool(np.all(np.signbit(array) == np.signbit(number)))


def inner_use_only(value: Value) -> bool:
    """Exactly one operand reads the value, and it is no output of its graph."""
    producer = value.producer
    return len(value.uses) == 1 and producer is not None and not producer.graph.is_output(value)
