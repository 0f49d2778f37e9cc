"""Elements picked by index: Gather, GatherElements, GatherND. An index out of range raises, as in the standard."""

from __future__ import annotations

import numpy as np

from jitopt.errors import ExecutionError
from jitopt.ir.dims import Shape
from jitopt.ir.graph import Node
from jitopt.ops.cases import counting, floats, sample, scalar, vector
from jitopt.ops.contents import axis_of, carried, unified
from jitopt.ops.operator import INDICES, Array, Attribute, Attrs, Kind, Param
from jitopt.ops.rules import differ, require, shape_of, show
from jitopt.ops.signature import declare, dtypes

AXIS = Attribute("int", 0)
INT64 = dtypes("int64")


def from_front(indices: Array, extent: int) -> Array:
    """Indices as int64 counted from the front. Raises ExecutionError for one outside [-extent, extent)."""
    wide = np.asarray(indices).astype(np.int64)
    if wide.size and (int(wide.min()) < -extent or int(wide.max()) >= extent):
        wrong = wide[(wide < -extent) | (wide >= extent)].flat[0]
        raise ExecutionError(f"index {wrong} lies outside [{-extent}, {extent})")
    return np.where(wide < 0, wide + extent, wide)


# Gather -------------------------------------------------------------------------------------------------------------
def _gather_shape(node: Node, attrs: Attrs) -> list[Shape | None]:
    data, indices = shape_of(node, 0), shape_of(node, 1)
    axis = axis_of(attrs.axis, len(data))
    return [(*data[:axis], *indices, *data[axis + 1 :])]


def _gather(attrs: Attrs, data: Array, indices: Array) -> Array:
    return np.take(data, from_front(indices, data.shape[attrs.axis]), axis=attrs.axis)


def _gather_content(attrs: Attrs, node: Node, data: Array | None, indices: Array | None) -> Array | None:
    try:
        found = carried(_gather_array, 1)(attrs, node, data, indices)
    except ExecutionError:
        return None  # the index is wrong only if the node runs
    return None if found is None else np.asarray(found, object)


def _gather_array(attrs: Attrs, data: Array, indices: Array) -> Array:
    out = np.empty(np.shape(indices), object)
    out[...] = _gather(attrs, data, indices)
    return out


declare(
    "Gather", Kind.MOVE, [Param("data"), Param("indices", INDICES, "Tind")], [Param("output")], _gather_shape, _gather,
    attributes={"axis": AXIS}, since=(1, 11, 13), content=_gather_content,
    samples=lambda: [
        sample(counting(5, 3), vector(0, 4, 2)),
        sample(counting(5, 3), scalar(1, "int64"), axis=1),
        sample(counting(5, 3, 2), np.array([[0, 2], [1, 1]], np.int32), axis=1),
        sample(counting(5, 3), vector(-1, -5, 3), opset=11, axis=-2),
        sample(counting(5, 3, dtype="uint8"), vector(), axis=1),
        sample(counting(0, 3), np.zeros((2, 0), np.int64)),
        sample(counting(7) > 3, scalar(6, "int32")),
        sample(counting(4, dtype="int64"), np.array([[1]])),
    ],
)  # fmt: skip


# GatherElements -----------------------------------------------------------------------------------------------------
def _gather_elements_shape(node: Node, attrs: Attrs) -> list[Shape | None]:
    data, indices = shape_of(node, 0), shape_of(node, 1)
    require(len(data) == len(indices), f"ranks differ: {show(data)} and {show(indices)}")
    axis_of(attrs.axis, len(data))
    return [indices]


def _gather_elements(attrs: Attrs, data: Array, indices: Array) -> Array:
    axis = axis_of(attrs.axis, data.ndim)
    places: list[Array] = list(np.indices(indices.shape, sparse=True))
    places[axis] = from_front(indices, data.shape[axis])
    picked: Array = data[tuple(places)]
    return picked


declare(
    "GatherElements", Kind.MOVE, [Param("data"), Param("indices", INDICES, "Tind")], [Param("output")],
    _gather_elements_shape, _gather_elements, attributes={"axis": AXIS}, since=(11, 13),
    samples=lambda: [
        sample(counting(3, 3), np.array([[1, 2, 0], [2, 0, 0]])),
        sample(floats(3, 4, 2), np.array([[[-1, 3]], [[0, -4]]], np.int32), axis=1),
        sample(counting(4, dtype="int64"), vector(3, 3, -4, 0, 1), axis=-1),
        sample(counting(3, 3), np.zeros((0, 3), np.int64)),
    ],
)  # fmt: skip


# GatherND -----------------------------------------------------------------------------------------------------------
def _gather_nd_shape(node: Node, attrs: Attrs) -> list[Shape | None]:
    data, indices = shape_of(node, 0), shape_of(node, 1)
    batch, depth = attrs.batch_dims, indices[-1] if indices else 0
    require(0 <= batch < min(len(data), len(indices)), f"batch_dims {batch} for {show(data)} and {show(indices)}")
    if not isinstance(depth, int):
        return [None]
    fits = 1 <= depth <= len(data) - batch and not any(map(differ, data[:batch], indices[:batch]))
    require(fits, f"indices of shape {show(indices)} do not fit {show(data)} after {batch} batch axes")
    common = [unified(pair, "batch extents") for pair in zip(data[:batch], indices[:batch], strict=True)]
    return [(*common, *indices[batch:-1], *data[batch + depth :])]


def _gather_nd(attrs: Attrs, data: Array, indices: Array) -> Array:
    batch, depth = attrs.batch_dims, indices.shape[-1]
    columns = [from_front(indices[..., i], data.shape[batch + i]) for i in range(depth)]
    places = np.indices(indices.shape[:-1], sparse=True)[:batch] if batch else ()
    picked: Array = data[(*places, *columns)]
    return picked


declare(
    "GatherND", Kind.MOVE, [Param("data"), Param("indices", INT64, "I")], [Param("output")], _gather_nd_shape,
    _gather_nd, attributes={"batch_dims": AXIS}, since=(11, 12, 13),
    samples=lambda: [
        sample(counting(2, 3), np.array([[0, 0], [1, 2]])),
        sample(counting(2, 3, 4), np.array([[[0, -1]], [[1, 0]]])),
        sample(counting(2, 3, dtype="int32"), np.array([[1], [-2]])),
        sample(floats(2, 3, 4), np.array([[1], [2]]), opset=12, batch_dims=1),
        sample(floats(2, 3, 4, 2), np.array([[[1, 1], [0, 3]], [[2, 0], [2, -2]]]), opset=12, batch_dims=1),
        sample(counting(2, 3), np.zeros((0, 2), np.int64)),
    ],
)  # fmt: skip
