"""Elements chosen by their values, or places marked by them: OneHot, EyeLike, Compress, NonZero, Unique.

The extents of the last three depend on the data: they are fresh symbols.
"""

from __future__ import annotations

import numpy as np

from jitopt.ir.dims import Shape, product
from jitopt.ir.dtypes import BY_ONNX_CODE, DType
from jitopt.ir.graph import Node
from jitopt.ops.cases import bools, counting, floats, ints, sample, scalar, vector
from jitopt.ops.contents import axis_of, computable, fresh, known_dims
from jitopt.ops.operator import Array, Attribute, Attrs, Kind, Param
from jitopt.ops.rules import differ, require, shape_of, show
from jitopt.ops.signature import BOOLS, NUMERIC, declare, dtypes

INT64 = dtypes("int64")
REAL_OR_WHOLE = NUMERIC - dtypes("bfloat16")


# OneHot -------------------------------------------------------------------------------------------------------------
def _one_hot_shape(node: Node, attrs: Attrs) -> list[Shape | None]:
    shape = list(shape_of(node))
    axis = axis_of(attrs.axis, len(shape) + 1)
    constant = node.arg(1).constant
    depth = known_dims(node, 1) if constant is None else [int(np.ravel(constant)[0])]
    require(depth is None or not isinstance(depth[0], int) or depth[0] > 0, f"depth {depth} is not positive")
    values = node.arg(2).tensor.shape
    require(values is None or (len(values) == 1 and not differ(values[0], 2)), "values must be [off, on]")
    shape.insert(axis, fresh(node, axis) if depth is None else depth[0])
    return [tuple(shape)]


def _one_hot(attrs: Attrs, indices: Array, depth: Array, values: Array) -> Array:
    extent = int(np.ravel(depth)[0])
    axis = axis_of(attrs.axis, indices.ndim + 1)
    wide = indices.astype(np.int64)
    wide = np.where(wide < 0, wide + extent, wide)
    places = np.arange(extent).reshape([-1 if i == axis else 1 for i in range(indices.ndim + 1)])
    hot: Array = np.where(np.expand_dims(wide, axis) == places, values[1], values[0])
    return hot.astype(values.dtype)


declare(
    "OneHot", Kind.MOVE,
    [Param("indices", REAL_OR_WHOLE, "T1"), Param("depth", REAL_OR_WHOLE, "T2"), Param("values", type_var="T3")],
    [Param("output", type_var="T3")], _one_hot_shape, _one_hot, attributes={"axis": Attribute("int", -1)},
    since=(9, 11, 28),
    samples=lambda: [
        sample(vector(0, 2, 1), scalar(4, "int64"), vector(0.0, 1.0, dtype="float32")),
        sample(np.array([[1, -1], [7, -5]]), scalar(4, "int64"), vector(5, 9), axis=1),
        sample(floats(5, low=0.0, high=3.0).round(), scalar(3.0), floats(2), axis=0),
        sample(np.zeros((0, 2), np.int64), scalar(3, "int64"), vector(0.0, 1.0, dtype="float32")),
    ],
)  # fmt: skip


# EyeLike ------------------------------------------------------------------------------------------------------------
def _eye_type(node: Node, attrs: Attrs) -> DType:
    return node.arg(0).dtype if attrs.dtype is None else BY_ONNX_CODE[attrs.dtype]


def _eye_shape(node: Node, attrs: Attrs) -> list[Shape | None]:
    shape = shape_of(node)
    require(len(shape) == 2, f"needs a matrix, not {show(shape)}")
    computable(_eye_type(node, attrs))
    return [shape]


def _eye_like(attrs: Attrs, data: Array) -> Array:
    dtype = data.dtype if attrs.dtype is None else BY_ONNX_CODE[attrs.dtype].numpy
    rows, columns = data.shape
    return np.eye(rows, columns, k=attrs.k, dtype=dtype)


declare(
    "EyeLike", Kind.MOVE, [Param("input", NUMERIC | BOOLS, "T1")], [Param("output", NUMERIC | BOOLS, "T2")], _eye_shape,
    _eye_like, since=(9, 22),
    dtype=lambda node, attrs: {"T2": _eye_type(node, attrs)},
    attributes={"dtype": Attribute("int", check=lambda code: code in BY_ONNX_CODE), "k": Attribute("int", 0)},
    samples=lambda: [
        sample(floats(3, 4)),
        sample(counting(4, 3, dtype="int32"), k=-1, dtype=1),
        sample(floats(3, 3), k=2, dtype=7),
    ],
)  # fmt: skip


# Compress -----------------------------------------------------------------------------------------------------------
def _compress_shape(node: Node, attrs: Attrs) -> list[Shape | None]:
    if attrs.axis is None:
        return [(fresh(node, 0),)]
    shape = list(shape_of(node))
    axis = axis_of(attrs.axis, len(shape))
    shape[axis] = fresh(node, axis)
    return [tuple(shape)]


def _compress(attrs: Attrs, data: Array, condition: Array) -> Array:
    return np.compress(condition, data, axis=attrs.axis)


declare(
    "Compress", Kind.OPAQUE, [Param("input"), Param("condition", BOOLS, "T1")], [Param("output")], _compress_shape,
    _compress, attributes={"axis": Attribute("int")}, since=(9, 11, 28),
    samples=lambda: [
        sample(counting(3, 4), np.array([True, False, True]), axis=0),
        sample(counting(3, 4), np.array([False, True]), opset=11, axis=-1),
        sample(counting(3, 2, dtype="int64"), np.array([False, True, True, False, True])),
        sample(counting(3, 2), np.array([False, False])),
    ],
)  # fmt: skip


# NonZero ------------------------------------------------------------------------------------------------------------
def _non_zero_shape(node: Node, attrs: Attrs) -> list[Shape | None]:
    computable(node.arg(0).dtype)
    shape = node.arg(0).tensor.shape
    return [(fresh(node, 0) if shape is None else max(1, len(shape)), fresh(node, 1))]


declare(
    "NonZero", Kind.OPAQUE, [Param("X")], [Param("Y", INT64, "I")], _non_zero_shape,
    lambda attrs, x: np.array(np.nonzero(np.atleast_1d(x)), np.int64), since=(9, 13),
    samples=lambda: [
        sample(np.array([[1, 0, 2], [0, 0, -3]], np.float32)),
        sample(bools(3, 4, 2)),
        sample(np.zeros((2, 3), np.int64)),
        sample(scalar(3.0)),
        sample(counting(0, 2)),
    ],
)  # fmt: skip


# Unique -------------------------------------------------------------------------------------------------------------
def _unique_shape(node: Node, attrs: Attrs) -> list[Shape | None]:
    computable(node.arg(0).dtype)
    shape = shape_of(node)
    count = fresh(node, 0)
    values: Shape = (count,)
    if attrs.axis is not None:
        axis = axis_of(attrs.axis, len(shape))
        count = fresh(node, axis)
        values = (*shape[:axis], count, *shape[axis + 1 :])
    total = product(shape) if attrs.axis is None else shape[axis_of(attrs.axis, len(shape))]
    shapes: list[Shape | None] = [values, (count,), (total,), (count,)]
    return shapes[: len(node.outputs)]


def _unique(attrs: Attrs, x: Array) -> tuple[Array, ...]:
    found, first, inverse, counts = np.unique(
        x, return_index=True, return_inverse=True, return_counts=True, axis=attrs.axis
    )
    inverse = inverse.reshape(-1)
    if not attrs.sorted:  # in order of first appearance
        order = np.argsort(first, kind="stable")
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        found = np.take(found, order, axis=0 if attrs.axis is None else attrs.axis)
        first, counts, inverse = first[order], counts[order], place[inverse]
    return tuple(np.asarray(a) for a in (found, first, inverse, counts))[: attrs.outputs]


declare(
    "Unique", Kind.OPAQUE, [Param("X")],
    [Param("Y"), *(Param(name, INT64, "I", optional=True) for name in ("indices", "inverse_indices", "counts"))],
    _unique_shape, _unique, since=(11, 28),
    attributes={"axis": Attribute("int"), "sorted": Attribute("int", 1, choices=(0, 1))},
    samples=lambda: [
        sample(vector(2.0, 1.0, 1.0, 3.0, 4.0, 3.0, dtype="float32"), outputs=4),
        sample(vector(2, 1, 1, 3, 4, 3), outputs=4, sorted=0),
        sample(ints(3, 4, low=0, high=3), outputs=3),
        sample(np.array([[1, 0, 0], [1, 0, 0], [2, 3, 4]], np.float32), outputs=4, axis=0),
        sample(np.array([[1, 1, 0], [0, 0, 5]], np.int64), outputs=1, axis=-1, sorted=0),
    ],
)  # fmt: skip
