"""Sequences of tensors; a sequence is a Python list.

The elements of a sequence may differ in shape: an extent they do not share is a fresh symbol in its element type, and
whoever takes an element out gets a symbol of its own for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jitopt.errors import ExecutionError, ModelError, ShapeError
from jitopt.ir.dims import Dim
from jitopt.ir.dtypes import BY_ONNX_CODE
from jitopt.ir.graph import Node
from jitopt.ir.types import SequenceType, TensorType, Type, tensor
from jitopt.ops.cases import counting, floats, sample, scalar, vector
from jitopt.ops.contents import axis_of, fresh, known_ints
from jitopt.ops.joins import typed, union
from jitopt.ops.operator import INDICES, Array, Attribute, Attrs, Infer, Kind, Operator, Param, Sample
from jitopt.ops.registry import register
from jitopt.ops.signature import dtypes

INT64 = dtypes("int64")
SEQUENCE, TENSOR, POSITION = Param("input_sequence", type_var="S"), Param("tensor"), Param("position", INDICES, "I")


def _declare(
    name: str, inputs: Sequence[Param], output: Param, infer: Callable[[Node, Attrs], Type],
    reference: Callable[..., Any], since: tuple[int, ...] = (11,), samples: Callable[[], list[Sample]] = list,
    **attributes: Attribute,
) -> None:  # fmt: skip
    rule: Infer = lambda node, attrs: [infer(node, attrs)]  # noqa: E731
    register(
        Operator(
            name, Kind.OPAQUE, tuple(inputs), (output,), rule, reference, attributes=attributes, since=since,
            samples=samples,
        )
    )  # fmt: skip


def _element(node: Node, index: int = 0) -> TensorType:
    """Element type of the sequence that input `index` is."""
    found = node.arg(index).type
    if not isinstance(found, SequenceType) or not isinstance(found.element, TensorType):
        raise ModelError(f"input {index} of {node.op} must be a sequence of tensors, not {found}", node=node.name)
    return found.element


def _taken(node: Node, element: TensorType) -> TensorType:
    """The type of one element taken out of a sequence: extents that may differ among elements become its own."""
    if element.shape is None:
        return element

    def own(axis: int, d: Dim) -> Dim:
        return d if isinstance(d, int) or "?" not in d.text else fresh(node, axis)

    return element.with_shape(tuple(own(axis, d) for axis, d in enumerate(element.shape)))


def _place(position: Array | None, count: int, last: int) -> int:
    """`position` counted from the front; the end where it is absent. Raises ExecutionError out of [-count, last]."""
    index = last if position is None else int(np.ravel(position)[0])
    if not -count <= index <= last:
        raise ExecutionError(f"position {index} lies outside a sequence of {count}")
    return index + count if index < 0 else index


# building and taking apart ------------------------------------------------------------------------------------------
def _construct_type(node: Node, attrs: Attrs) -> Type:
    return SequenceType(typed(node, 0, union(node, 0, [node.arg(i).type for i in range(len(node.inputs))])))


def _empty_type(node: Node, attrs: Attrs) -> Type:
    return SequenceType(TensorType(BY_ONNX_CODE[attrs.dtype], None))


def _insert_type(node: Node, attrs: Attrs) -> Type:
    return SequenceType(typed(node, 0, union(node, 0, [_element(node), node.arg(1).tensor])))


def _insert(attrs: Attrs, sequence: list[Array], item: Array, position: Array | None = None) -> list[Array]:
    out = list(sequence)
    out.insert(_place(position, len(out), len(out)), item)
    return out


def _erase(attrs: Attrs, sequence: list[Array], position: Array | None = None) -> list[Array]:
    gone = _place(position, len(sequence), len(sequence) - 1)
    return [item for i, item in enumerate(sequence) if i != gone]


def _at(attrs: Attrs, sequence: list[Array], position: Array) -> Array:
    return sequence[_place(position, len(sequence), len(sequence) - 1)]


def _three() -> list[Array]:
    return [counting(2, 3), floats(4, 3), floats(1, 3, seed=1)]


_declare(
    "SequenceConstruct", [Param("inputs", variadic=True)], Param("output_sequence", type_var="S"), _construct_type,
    lambda attrs, *items: list(items),
    samples=lambda: [sample(*_three()), sample(vector(1, 2), vector(3)), sample(counting(2, 2))],
)  # fmt: skip
_declare(
    "SequenceEmpty", [], Param("output", type_var="S"), _empty_type, lambda attrs: [],
    samples=lambda: [sample(), sample(dtype=7)],
    dtype=Attribute("int", 1, check=lambda code: code in BY_ONNX_CODE),
)  # fmt: skip
_declare(
    "SequenceAt", [SEQUENCE, POSITION], TENSOR, lambda node, attrs: _taken(node, _element(node)), _at,
    samples=lambda: [sample(_three(), scalar(i, "int64")) for i in (0, 2, -3)],
)  # fmt: skip
_declare(
    "SequenceInsert", [SEQUENCE, TENSOR, Param("position", INDICES, "I", optional=True)],
    Param("output_sequence", type_var="S"), _insert_type, _insert,
    samples=lambda: [
        sample(_three(), floats(5, 3)),
        sample(_three(), floats(5, 3), scalar(-2, "int64")),
        sample(_three(), floats(5, 3), scalar(3, "int32")),
    ],
)  # fmt: skip
_declare(
    "SequenceErase", [SEQUENCE, Param("position", INDICES, "I", optional=True)],
    Param("output_sequence", type_var="S"), lambda node, attrs: SequenceType(_element(node)), _erase,
    samples=lambda: [sample(_three()), sample(_three(), scalar(0, "int64")), sample(_three(), scalar(-2, "int64"))],
)  # fmt: skip
_declare(
    "SequenceLength", [SEQUENCE], Param("length", INT64, "I"), lambda node, attrs: tensor("int64", ()),
    lambda attrs, sequence: np.array(len(sequence), np.int64), samples=lambda: [sample(_three())],
)  # fmt: skip


# from and to one tensor ---------------------------------------------------------------------------------------------
def _concat_type(node: Node, attrs: Attrs) -> Type:
    element = _taken(node, _element(node))
    if element.shape is None:
        return element
    shape = list(element.shape)
    axis = axis_of(attrs.axis, len(shape) + attrs.new_axis)
    if attrs.new_axis:
        shape.insert(axis, fresh(node, axis))
    return element.with_shape(tuple(fresh(node, i) if i == axis or "?" in str(d) else d for i, d in enumerate(shape)))


def _concat(attrs: Attrs, sequence: list[Array]) -> Array:
    join = np.stack if attrs.new_axis else np.concatenate
    try:
        return join(sequence, axis=attrs.axis)
    except ValueError as error:
        raise ShapeError(f"shapes {[list(a.shape) for a in sequence]} cannot be joined") from error


def _split_type(node: Node, attrs: Attrs) -> Type:
    data = node.arg(0).tensor
    if data.shape is None:
        return SequenceType(data)
    shape = list(data.shape)
    axis = axis_of(attrs.axis, len(shape))
    if node.input(1) is None:
        shape[axis : axis + 1] = [1] if attrs.keepdims else []
        return SequenceType(data.with_shape(tuple(shape)))
    sizes, extent = known_ints(node.input(1)), shape[axis]
    even = sizes is not None and len(set(sizes)) == 1 and isinstance(extent, int) and extent % max(sizes[0], 1) == 0
    shape[axis] = sizes[0] if even and sizes is not None else fresh(node, axis)
    return SequenceType(data.with_shape(tuple(shape)))


def _split(attrs: Attrs, data: Array, split: Array | None = None) -> list[Array]:
    extent = data.shape[attrs.axis]
    if split is None:
        parts = np.split(data, extent, axis=attrs.axis) if extent else []
        return parts if attrs.keepdims else [np.squeeze(part, attrs.axis) for part in parts]
    sizes = np.asarray(split, np.int64)
    if sizes.ndim == 0:
        if sizes <= 0:
            raise ModelError(f"parts of {sizes} elements")
        ends = np.arange(int(sizes), extent, int(sizes))
    else:
        if sizes.sum() != extent or (sizes < 0).any():
            raise ShapeError(f"sizes {sizes.tolist()} do not add up to an extent of {extent}")
        ends = np.cumsum(sizes)[:-1]
    return np.split(data, ends, axis=attrs.axis)


_declare(
    "ConcatFromSequence", [SEQUENCE], Param("concat_result"), _concat_type, _concat,
    samples=lambda: [
        sample(_three(), axis=0),
        sample([counting(2, 3), floats(2, 3)], axis=-1, new_axis=1),
        sample([counting(2, 3), floats(2, 3)], axis=0, new_axis=1),
        sample([counting(2, 3), floats(2, 1)], axis=1),
    ],
    axis=Attribute("int", required=True), new_axis=Attribute("int", 0, choices=(0, 1)),
)  # fmt: skip
_declare(
    "SplitToSequence", [Param("input"), Param("split", INDICES, "I", optional=True)],
    Param("output_sequence", type_var="S"), _split_type, _split, (11, 24),
    lambda: [
        sample(counting(7, 3), scalar(3, "int64")),
        sample(counting(3, 6), vector(1, 2, 3), axis=1),
        sample(counting(3, 6), scalar(2, "int32"), axis=-1),
        sample(counting(2, 3), axis=1, keepdims=0),
        sample(counting(2, 3)),
    ],
    axis=Attribute("int", 0), keepdims=Attribute("int", 1, choices=(0, 1)),
)  # fmt: skip
