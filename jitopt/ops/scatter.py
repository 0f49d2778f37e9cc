"""Elements written at indices: ScatterElements, its old name Scatter, ScatterND, TensorScatter.

Where indices repeat, the last update in row-major order wins, or all count under a reduction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jitopt.errors import ModelError
from jitopt.ir.dims import Shape
from jitopt.ir.graph import Graph, Node
from jitopt.ops.cases import counting, floats, sample, vector
from jitopt.ops.contents import axis_of
from jitopt.ops.gather import from_front
from jitopt.ops.operator import INDICES, Array, Attribute, Attrs, Kind, Param
from jitopt.ops.rules import differ, require, shape_of, show
from jitopt.ops.signature import declare, dtypes

INT64 = dtypes("int64")
REDUCTION = Attribute("string", "none", choices=("none", "add", "mul", "max", "min"))
_UFUNCS: dict[str, Any] = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def _reducible(node: Node, attrs: Attrs) -> None:
    dtype = node.arg(0).dtype
    if attrs.reduction != "none" and (dtype.numpy is None or dtype.kind == "string"):
        raise ModelError(f"reduction '{attrs.reduction}' is not supported for {dtype}")


def _written(data: Array, places: tuple[Any, ...], updates: Array, reduction: str) -> Array:
    out = np.array(data)
    if reduction == "none":
        out[places] = updates
    else:
        _UFUNCS[reduction].at(out, places, updates)
    return out


# ScatterElements ----------------------------------------------------------------------------------------------------
def _scatter_elements_shape(node: Node, attrs: Attrs) -> list[Shape | None]:
    data, indices, updates = (shape_of(node, i) for i in range(3))
    fits = len(data) == len(indices) == len(updates) and not any(map(differ, indices, updates))
    require(fits, f"indices {show(indices)} and updates {show(updates)} must have one shape, of {show(data)}'s rank")
    axis_of(attrs.axis, len(data))
    _reducible(node, attrs)
    return [data]


def _scatter_elements(attrs: Attrs, data: Array, indices: Array, updates: Array) -> Array:
    axis = axis_of(attrs.axis, data.ndim)
    places: list[Array] = list(np.indices(indices.shape, sparse=True))
    places[axis] = from_front(indices, data.shape[axis])
    return _written(data, tuple(places), updates, attrs.reduction)


def _renamed(graph: Graph, node: Node) -> None:
    node.op = "ScatterElements"


_ELEMENTS = (Param("data"), Param("indices", INDICES, "Tind"), Param("updates"))
declare(
    "ScatterElements", Kind.MOVE, _ELEMENTS, [Param("output")], _scatter_elements_shape, _scatter_elements,
    attributes={"axis": Attribute("int", 0), "reduction": REDUCTION}, since=(11, 13, 16, 18),
    samples=lambda: [
        sample(floats(3, 3), np.array([[1, 0, 2], [0, 2, 1]]), counting(2, 3)),
        sample(floats(1, 5), np.array([[1, -2]], np.int32), counting(1, 2), axis=1),
        sample(counting(1, 5), np.array([[1, 1]]), counting(1, 2), opset=16, axis=1, reduction="add"),
        sample(floats(3, 4), np.array([[0, 1], [0, 1]]), floats(2, 2), opset=16, axis=-1, reduction="mul"),
        sample(floats(3, 4), np.array([[0, 0], [2, 2]]), floats(2, 2), opset=18, axis=-1, reduction="max"),
        sample(counting(4, dtype="int64"), vector(3, 3), vector(-5, 7), opset=18, reduction="min"),
        sample(floats(3, 3), np.zeros((0, 3), np.int64), counting(0, 3)),
    ],
)  # fmt: skip
declare(
    "Scatter", Kind.MOVE, _ELEMENTS, [Param("output")], _scatter_elements_shape, _scatter_elements,
    attributes={"axis": Attribute("int", 0), "reduction": REDUCTION}, since=(9,), upgrades=((11, _renamed),),
    samples=lambda: [sample(floats(3, 3), np.array([[1, 0, 2]]), counting(1, 3), opset=9, axis=1)],
)  # fmt: skip


# ScatterND ----------------------------------------------------------------------------------------------------------
def _scatter_nd_shape(node: Node, attrs: Attrs) -> list[Shape | None]:
    data, indices, updates = (shape_of(node, i) for i in range(3))
    depth = indices[-1] if indices else 0
    if isinstance(depth, int):
        wanted = (*indices[:-1], *data[depth:])
        fits = 1 <= depth <= len(data) and len(wanted) == len(updates) and not any(map(differ, wanted, updates))
        require(fits, f"updates {show(updates)} do not fit indices {show(indices)} into {show(data)}")
    _reducible(node, attrs)
    return [data]


def _scatter_nd(attrs: Attrs, data: Array, indices: Array, updates: Array) -> Array:
    places = tuple(from_front(indices[..., i], data.shape[i]) for i in range(indices.shape[-1]))
    return _written(data, places, updates, attrs.reduction)


declare(
    "ScatterND", Kind.MOVE, [Param("data"), Param("indices", INT64, "I"), Param("updates")], [Param("output")],
    _scatter_nd_shape, _scatter_nd, attributes={"reduction": REDUCTION}, since=(11, 13, 16, 18),
    samples=lambda: [
        sample(counting(8), np.array([[4], [3], [-1]]), floats(3)),
        sample(counting(3, 4, 2), np.array([[0], [2]]), floats(2, 4, 2)),
        sample(counting(3, 4), np.array([[[0, 1]], [[2, 3]]]), floats(2, 1)),
        sample(counting(8), np.array([[4], [4]]), floats(2), opset=16, reduction="add"),
        sample(counting(8), np.array([[4], [4]]), floats(2), opset=16, reduction="mul"),
        sample(counting(8, dtype="int64"), np.array([[4], [4]]), vector(9, -9), opset=18, reduction="max"),
        sample(counting(8), np.zeros((0, 1), np.int64), floats(0)),
    ],
)  # fmt: skip


# TensorScatter ------------------------------------------------------------------------------------------------------
def _tensor_scatter_shape(node: Node, attrs: Attrs) -> list[Shape | None]:
    cache, update = shape_of(node, 0), shape_of(node, 1)
    axis = axis_of(attrs.axis, len(cache))
    require(axis != 0, "axis 0 is the batch's")
    fits = len(cache) == len(update) and not any(differ(cache[i], update[i]) for i in range(len(cache)) if i != axis)
    require(fits, f"the update {show(update)} does not fit the cache {show(cache)} off axis {axis}")
    return [cache]


def _tensor_scatter(attrs: Attrs, cache: Array, update: Array, starts: Array | None = None) -> Array:
    axis = axis_of(attrs.axis, cache.ndim)
    extent, length = cache.shape[axis], update.shape[axis]
    first: Sequence[int] = [0] * cache.shape[0] if starts is None else starts.tolist()
    out = np.moveaxis(np.array(cache), axis, 1)
    for image, start in enumerate(first):
        places = start + np.arange(length)
        out[image, places % extent if attrs.mode == "circular" else from_front(places, extent)] = np.moveaxis(
            update, axis, 1
        )[image]
    return np.moveaxis(out, 1, axis)


declare(
    "TensorScatter", Kind.MOVE,
    [Param("past_cache"), Param("update"), Param("write_indices", INT64, "I", optional=True)],
    [Param("present_cache")], _tensor_scatter_shape, _tensor_scatter, since=(24,),
    attributes={"axis": Attribute("int", -2), "mode": Attribute("string", "linear", choices=("linear", "circular"))},
    samples=lambda: [
        sample(counting(2, 3, 5, 4), floats(2, 3, 2, 4), vector(1, 3)),
        sample(counting(2, 5, 4), floats(2, 2, 4)),
        sample(counting(2, 5, 4), floats(2, 3, 4), vector(4, 2), mode="circular"),
        sample(counting(2, 3, 5), floats(2, 3, 1), vector(4, 0), axis=-1),
    ],
)  # fmt: skip
