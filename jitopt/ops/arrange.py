"""Whole axes put in another order, joined and cut: Transpose, Concat, Split, DepthToSpace, SpaceToDepth."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jitopt.errors import ModelError
from jitopt.ir.bounds import larger, smaller
from jitopt.ir.dims import Dim, Shape, ceil_div
from jitopt.ir.graph import Graph, Node
from jitopt.ops.cases import counting, sample, vector
from jitopt.ops.contents import axis_of, carried, fresh, fresh_shape, known_dims, unified
from jitopt.ops.operator import Array, Attribute, Attrs, Kind, Param
from jitopt.ops.rules import UnknownRank, demand, require, shape_of, show
from jitopt.ops.signature import declare, dtypes
from jitopt.ops.upgrades import attribute_to_input

INT64 = dtypes("int64")


# Transpose ----------------------------------------------------------------------------------------------------------
def permutation(attrs: Attrs, rank: int) -> list[int]:
    """The node's `perm`, reversed axes by default. Raises ModelError unless it is a permutation of `rank` axes."""
    perm = list(range(rank))[::-1] if attrs.perm is None else [int(p) for p in attrs.perm]
    if sorted(perm) != list(range(rank)):
        raise ModelError(f"perm {perm} is no permutation of the {rank} axes of the input")
    return perm


def _transpose_shape(node: Node, attrs: Attrs) -> list[Shape | None]:
    shape = node.arg(0).tensor.shape
    if shape is None:
        return [None if attrs.perm is None else fresh_shape(node, len(attrs.perm))]
    return [tuple(shape[p] for p in permutation(attrs, len(shape)))]


def _transpose(attrs: Attrs, data: Array) -> Array:
    return np.transpose(data, attrs.perm)


declare(
    "Transpose", Kind.MOVE, [Param("data")], [Param("transposed")], _transpose_shape, _transpose,
    attributes={"perm": Attribute("ints")}, since=(1, 13, 21, 23, 24, 25), content=carried(_transpose),
    samples=lambda: [
        sample(counting(2, 3, 5)),
        sample(counting(2, 3, 5, 7), opset=7, perm=[0, 2, 3, 1]),
        sample(counting(2, 0, 5), perm=[1, 2, 0]),
        sample(counting(dtype="int64")),
        sample(counting(3, 4) > 5, opset=13, perm=[1, 0]),
    ],
)  # fmt: skip


# Concat -------------------------------------------------------------------------------------------------------------
def _concat_shape(node: Node, attrs: Attrs) -> list[Shape | None]:
    require(bool(node.inputs), "needs at least one input")
    return [joined(node, [node.arg(i).tensor.shape for i in range(len(node.inputs))], attrs.axis)]


def joined(node: Node, shapes: Sequence[Shape | None], axis: int) -> Shape:
    """The shape of tensors joined along `axis`. Raises ShapeError where ranks or the other extents differ."""
    known = [s for s in shapes if s is not None]
    if not known:
        raise UnknownRank
    rank = len(known[0])
    require(all(len(s) == rank for s in known), f"ranks differ: {', '.join(map(show, known))}")
    axis = axis_of(axis, rank)
    out = [unified([s[i] for s in known], f"extents of axis {i}") for i in range(rank) if i != axis]
    along = [s[axis] for s in known]
    out.insert(axis, sum(along[1:], along[0]) if len(known) == len(shapes) else fresh(node, axis))
    return tuple(out)


def _concat(attrs: Attrs, *arrays: Array) -> Array:
    return np.concatenate(arrays, axis=attrs.axis)


declare(
    "Concat", Kind.MOVE, [Param("inputs", variadic=True)], [Param("concat_result")], _concat_shape, _concat,
    attributes={"axis": Attribute("int", required=True)}, since=(4, 11, 13), content=carried(_concat),
    samples=lambda: [
        sample(counting(2, 3), counting(2, 1), counting(2, 5), opset=7, axis=1),
        sample(counting(2, 3), counting(4, 3), opset=11, axis=-2),
        sample(counting(2, 0), counting(2, 3), opset=13, axis=1),
        sample(counting(3), axis=0),
        sample(counting(2, 3, dtype="int64"), counting(2, 3, dtype="int64"), axis=0),
        sample(counting(2, 3, 1) > 2, counting(2, 3, 2) > 2, axis=-1),
    ],
)  # fmt: skip


# Split --------------------------------------------------------------------------------------------------------------
def _split_shape(node: Node, attrs: Attrs) -> list[Shape | None]:
    shape, count = shape_of(node), len(node.outputs)
    if attrs.num_outputs is not None and (attrs.num_outputs != count or node.input(1) is not None):
        raise ModelError(f"num_outputs {attrs.num_outputs} with {count} results and {len(node.inputs)} inputs")
    axis = axis_of(attrs.axis, len(shape))
    extent = shape[axis]
    known = known_dims(node, 1)
    if node.input(1) is None:
        sizes = even_split(extent, count)
    elif known is None:
        sizes = [fresh(node, axis, i) for i in range(count)]
    else:
        sizes = known
        require(len(sizes) == count, f"{len(sizes)} sizes for {count} results")
        demand("equal", extent - sum(sizes[1:], sizes[0]), 0, f"sizes {show(sizes)} do not add up to {extent}")
    require(not any(isinstance(d, int) and d < 0 for d in sizes), f"{extent} cannot be cut into {show(sizes)}")
    return [(*shape[:axis], size, *shape[axis + 1 :]) for size in sizes]


def even_split(extent: Dim, count: int) -> list[Dim]:
    """`count` parts of ceil(extent / count) each as long as elements last; the last parts take what remains."""
    part = ceil_div(extent, count)
    if part * count is extent or part * count == extent:
        return [part] * count
    return [part, *(larger(smaller(part, extent - part * i), 0) for i in range(1, count))]


def _split(attrs: Attrs, data: Array, split: Array | None = None) -> tuple[Array, ...]:
    extent = data.shape[attrs.axis]
    sizes = np.asarray(even_split(extent, attrs.outputs) if split is None else split).astype(np.int64)
    fits = sizes.sum() == extent and (sizes >= 0).all() and len(sizes) == attrs.outputs
    require(bool(fits), f"sizes {sizes.tolist()} do not cut an extent of {extent} into {attrs.outputs} results")
    return tuple(np.split(data, np.cumsum(sizes)[:-1], axis=attrs.axis))


def _name_count(graph: Graph, node: Node) -> None:
    """Before opset 18 the number of results alone told the number of equal parts."""
    if node.input(1) is None:
        node.attrs["num_outputs"] = len(node.outputs)


declare(
    "Split", Kind.MOVE, [Param("input"), Param("split", INT64, "I", optional=True)], [Param("outputs", variadic=True)],
    _split_shape, _split, since=(2, 11, 13, 18), upgrades=((13, attribute_to_input("split", 1)), (18, _name_count)),
    attributes={"axis": Attribute("int", 0), "num_outputs": Attribute("int", check=lambda n: n > 0)},
    content=carried(_split, 1),
    samples=lambda: [
        sample(counting(2, 7), vector(1, 4, 2), opset=18, outputs=3, axis=1),
        sample(counting(2, 7), opset=18, outputs=3, axis=-1, num_outputs=3),
        sample(counting(6, 2), opset=13, outputs=3),
        sample(counting(7, 2), vector(1, 4, 2), opset=13, outputs=3, axis=-2),
        sample(counting(7, 2, dtype="int32"), opset=7, outputs=2, split=[1, 6]),
        sample(counting(4, 2), opset=11, outputs=2, axis=0),
        sample(counting(2, 3), vector(0, 3), opset=18, outputs=2, axis=1),
    ],
)  # fmt: skip


# DepthToSpace, SpaceToDepth -----------------------------------------------------------------------------------------
def _image(node: Node) -> Shape:
    shape = shape_of(node)
    require(len(shape) == 4, f"needs a tensor of rank 4, not {show(shape)}")
    return shape


def _multiple(extent: Dim, of: int, what: str) -> Dim:
    demand("equal", extent % of, 0, f"{extent} {what} are no multiple of {of}")
    return extent // of


def _depth_to_space_shape(node: Node, attrs: Attrs) -> list[Shape | None]:
    (n, c, h, w), b = _image(node), attrs.blocksize
    return [(n, _multiple(c, b * b, "channels"), h * b, w * b)]


def _depth_to_space(attrs: Attrs, data: Array) -> Array:
    n, c, h, w = data.shape
    b = attrs.blocksize
    if attrs.mode == "DCR":
        parts = data.reshape(n, b, b, c // (b * b), h, w).transpose(0, 3, 4, 1, 5, 2)
    else:
        parts = data.reshape(n, c // (b * b), b, b, h, w).transpose(0, 1, 4, 2, 5, 3)
    return parts.reshape(n, c // (b * b), h * b, w * b)


def _space_to_depth_shape(node: Node, attrs: Attrs) -> list[Shape | None]:
    (n, c, h, w), b = _image(node), attrs.blocksize
    return [(n, c * b * b, _multiple(h, b, "rows"), _multiple(w, b, "columns"))]


def _space_to_depth(attrs: Attrs, data: Array) -> Array:
    n, c, h, w = data.shape
    b = attrs.blocksize
    order = (0, 3, 5, 1, 2, 4) if attrs.mode == "DCR" else (0, 1, 3, 5, 2, 4)
    return data.reshape(n, c, h // b, b, w // b, b).transpose(order).reshape(n, c * b * b, h // b, w // b)


_BLOCK_ATTRIBUTES = {
    "blocksize": Attribute("int", required=True, check=lambda b: b > 0),
    "mode": Attribute("string", "DCR", choices=("DCR", "CRD")),
}
declare(
    "DepthToSpace", Kind.MOVE, [Param("input")], [Param("output")], _depth_to_space_shape, _depth_to_space,
    attributes=_BLOCK_ATTRIBUTES, since=(1, 11, 13, 28),
    samples=lambda: [
        sample(counting(2, 8, 2, 3), opset=7, blocksize=2),
        sample(counting(1, 18, 1, 2), opset=11, blocksize=3, mode="CRD"),
        sample(counting(1, 8, 3, 1), opset=13, blocksize=2, mode="DCR"),
    ],
)  # fmt: skip
declare(
    "SpaceToDepth", Kind.MOVE, [Param("input")], [Param("output")], _space_to_depth_shape, _space_to_depth,
    attributes=_BLOCK_ATTRIBUTES, since=(1, 13, 28),
    samples=lambda: [
        sample(counting(2, 3, 4, 6), opset=7, blocksize=2),
        sample(counting(1, 2, 3, 6), opset=13, blocksize=3),
    ],
)  # fmt: skip
