"""The largest and smallest along an axis: ArgMax, ArgMin, TopK."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from jitopt.ir.dims import Dim, Shape
from jitopt.ir.graph import Graph, Node
from jitopt.ops import cases
from jitopt.ops.contents import axis_of, fresh, known_dims
from jitopt.ops.operator import Array, Attribute, Attrs, Kind, Param, Sample
from jitopt.ops.reduction import KEEP, SWITCH
from jitopt.ops.rules import reduced, require, shape_of
from jitopt.ops.signature import NUMERIC, declare, dtypes
from jitopt.ops.upgrades import attribute_to_input

_INT64 = dtypes("int64")


def _arg_rule(node: Node, attrs: Attrs) -> Sequence[Shape]:
    shape = shape_of(node)
    axis = axis_of(attrs.axis, len(shape))
    require(shape[axis] != 0, f"axis {axis} is empty: it has no extreme")
    return [reduced(shape, [axis], bool(attrs.keepdims))]


def _arg(function: Callable[..., Array]) -> Callable[[Attrs, Array], Array]:
    def find(attrs: Attrs, x: Array) -> Array:
        if attrs.select_last_index:
            last = x.shape[attrs.axis] - 1
            found = last - function(np.flip(x, attrs.axis), axis=attrs.axis, keepdims=bool(attrs.keepdims))
        else:
            found = function(x, axis=attrs.axis, keepdims=bool(attrs.keepdims))
        return np.asarray(found, np.int64)

    return find


def _arg_samples() -> list[Sample]:
    x = cases.floats(3, 4, 5)
    tied = cases.ints(3, 8, low=0, high=3).astype(np.float32)
    return [
        cases.sample(x),
        cases.sample(x, axis=1, keepdims=0),
        cases.sample(x, axis=-1, opset=11),
        cases.sample(tied, axis=1),
        cases.sample(tied, axis=1, select_last_index=1),
        cases.sample(cases.ints(3, 5, dtype="int32"), axis=1),
        cases.sample(cases.ints(3, 5, dtype="uint8", low=0), axis=1),
    ]


for _name, _function in (("ArgMax", np.argmax), ("ArgMin", np.argmin)):
    declare(
        _name, Kind.REDUCE, (Param("data", NUMERIC),), (Param("reduced", _INT64, "I"),), _arg_rule, _arg(_function),
        since=(1, 11, 12, 13), samples=_arg_samples,
        attributes={"axis": Attribute("int", 0), "keepdims": KEEP, "select_last_index": SWITCH},
    )  # fmt: skip


# TopK ---------------------------------------------------------------------------------------------------------------
def _top_rule(node: Node, attrs: Attrs) -> Sequence[Shape]:
    shape = shape_of(node)
    axis = axis_of(attrs.axis, len(shape))
    known = known_dims(node, 1)
    count: Dim
    if known is None:
        count = fresh(node, axis)
    else:
        require(len(known) == 1, "K must be one number")
        count, extent = known[0], shape[axis]
        if isinstance(count, int):
            require(count >= 0, f"K is {count}")
            require(not isinstance(extent, int) or count <= extent, f"K is {count} where axis {axis} has {extent}")
    found = (*shape[:axis], count, *shape[axis + 1 :])
    return [found] * len(node.outputs)


def _top(attrs: Attrs, x: Array, k: Array) -> tuple[Array, ...]:
    """Sorted values and their indices; among equals the lower index comes first."""
    axis, count = attrs.axis % x.ndim, int(k.reshape(-1)[0])
    require(count <= x.shape[axis], f"K is {count} where axis {axis} has {x.shape[axis]}")
    if attrs.largest:  # a stable ascending sort of the mirrored axis, read backwards
        order = x.shape[axis] - 1 - np.flip(np.argsort(np.flip(x, axis), axis=axis, kind="stable"), axis)
    else:
        order = np.argsort(x, axis=axis, kind="stable")
    chosen = np.take(order, np.arange(count), axis=axis)
    return np.take_along_axis(x, chosen, axis), chosen.astype(np.int64)


def _k_to_input(graph: Graph, node: Node) -> None:
    """Before opset 10 K was an attribute; an input holds it as one element."""
    node.attrs["k"] = [node.attrs["k"]]
    attribute_to_input("k", 1)(graph, node)


def _top_samples() -> list[Sample]:
    x, k = cases.floats(3, 4, 7), cases.vector(3)
    tied = cases.ints(3, 8, low=0, high=3)
    return [
        cases.sample(x, k, outputs=2, opset=10),
        cases.sample(x, k, axis=1, outputs=2, opset=10),
        cases.sample(x, k, axis=0, largest=0, outputs=2, opset=11),
        cases.sample(tied, cases.vector(5), outputs=2, opset=11),
        cases.sample(tied, cases.vector(5), largest=0, outputs=2, opset=11),
        cases.sample(x, cases.vector(0), outputs=2, opset=11),
        cases.sample(x, k=3, outputs=2, opset=7),
        cases.sample(x, k=2, axis=1, outputs=2, opset=7),
    ]


declare(
    "TopK", Kind.OPAQUE, (Param("X", NUMERIC), Param("K", _INT64, "K")),
    (Param("Values", NUMERIC), Param("Indices", _INT64, "I")), _top_rule, _top, since=(1, 10, 11, 24),
    upgrades=((10, _k_to_input),), samples=_top_samples,
    attributes={"axis": Attribute("int", -1), "largest": KEEP, "sorted": KEEP},
)  # fmt: skip
