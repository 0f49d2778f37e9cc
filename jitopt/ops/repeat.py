"""Elements that appear more than once, in another order or not at all: Expand, Tile, Trilu, ReverseSequence."""

from __future__ import annotations

import numpy as np

from jitopt.errors import ModelError, ShapeError
from jitopt.ir.dims import Shape
from jitopt.ir.graph import Node
from jitopt.ops.cases import counting, floats, sample, scalar, vector
from jitopt.ops.contents import carried, fresh_shape, known_dims, operand_length
from jitopt.ops.operator import Array, Attribute, Attrs, Kind, Param
from jitopt.ops.rules import broadcast, differ, require, shape_of, show
from jitopt.ops.signature import declare, dtypes

INT64 = dtypes("int64")
FLAG = (0, 1)


# Expand -------------------------------------------------------------------------------------------------------------
def _expand_shape(node: Node, attrs: Attrs) -> list[Shape | None]:
    shape, target = shape_of(node), known_dims(node, 1)
    if target is None:
        length = operand_length(node, 1)
        return [fresh_shape(node, None if length is None else max(length, len(shape)))]
    require(not any(isinstance(d, int) and d < 0 for d in target), f"{show(target)} is no shape")
    return [broadcast(shape, tuple(target))]


def _expand(attrs: Attrs, data: Array, shape: Array) -> Array:
    target = [int(d) for d in np.ravel(shape)]
    try:
        return np.broadcast_to(data, np.broadcast_shapes(data.shape, tuple(target)))
    except ValueError as error:
        raise ShapeError(f"{list(data.shape)} cannot be expanded to {target}") from error


declare(
    "Expand", Kind.MOVE, [Param("input"), Param("shape", INT64, "I")], [Param("output")], _expand_shape, _expand,
    since=(8, 13), content=carried(_expand, 1),
    samples=lambda: [
        sample(counting(3, 1), vector(2, 1, 6)),
        sample(counting(3, 1), vector(3, 4)),
        sample(counting(2, 3), vector(1)),
        sample(counting(), vector(2, 3)),
        sample(counting(1, 3), vector(0, 1)),
        sample(counting(1, 3, dtype="int64"), vector(2, 3)),
        sample(counting(1, 3) > 1, vector(2, 3)),
    ],
)  # fmt: skip


# Tile ---------------------------------------------------------------------------------------------------------------
def _tile_shape(node: Node, attrs: Attrs) -> list[Shape | None]:
    shape, repeats = shape_of(node), known_dims(node, 1)
    if repeats is None:
        return [fresh_shape(node, len(shape))]
    fits = len(repeats) == len(shape) and not any(isinstance(r, int) and r < 0 for r in repeats)
    require(fits, f"{show(repeats)} are no repeats for {show(shape)}")
    return [tuple(d * r for d, r in zip(shape, repeats, strict=True))]


def _tile(attrs: Attrs, data: Array, repeats: Array) -> Array:
    require(len(repeats) == data.ndim, f"{repeats.tolist()} are no repeats for {list(data.shape)}")
    return np.tile(data, repeats)


declare(
    "Tile", Kind.MOVE, [Param("input"), Param("repeats", INT64, "T1")], [Param("output")], _tile_shape, _tile,
    since=(6, 13), content=carried(_tile, 1),
    samples=lambda: [
        sample(counting(2, 3), vector(2, 3)),
        sample(counting(3, 1, 2), vector(1, 4, 1)),
        sample(counting(2, 3, dtype="int64"), vector(0, 2)),
        sample(counting(5, dtype="uint8"), vector(3)),
        sample(counting(2, 2) > 1, vector(1, 2)),
    ],
)  # fmt: skip


# Trilu --------------------------------------------------------------------------------------------------------------
def _trilu_shape(node: Node, attrs: Attrs) -> list[Shape | None]:
    shape = shape_of(node)
    require(len(shape) >= 2, f"needs at least two axes, not {show(shape)}")
    return [shape]


def _trilu(attrs: Attrs, data: Array, k: Array | None = None) -> Array:
    diagonal = 0 if k is None else int(np.ravel(k)[0])
    return np.triu(data, diagonal) if attrs.upper else np.tril(data, diagonal)


declare(
    "Trilu", Kind.MOVE, [Param("input"), Param("k", INT64, "I", optional=True)], [Param("output")], _trilu_shape,
    _trilu, attributes={"upper": Attribute("int", 1, choices=FLAG)}, since=(14,),
    samples=lambda: [
        sample(floats(4, 5)),
        sample(floats(2, 5, 3), scalar(-1, "int64"), upper=0),
        sample(floats(3, 3), scalar(2, "int64")),
        sample(counting(4, 4, dtype="int64"), scalar(9, "int64"), upper=0),
        sample(floats(2, 0, 3)),
        sample(floats(3, 3) > 0, scalar(1, "int64")),
    ],
)  # fmt: skip


# ReverseSequence ----------------------------------------------------------------------------------------------------
def _reverse_sequence_shape(node: Node, attrs: Attrs) -> list[Shape | None]:
    shape, lengths = shape_of(node, 0), shape_of(node, 1)
    if attrs.batch_axis == attrs.time_axis:
        raise ModelError(f"batch and time axis are both {attrs.time_axis}")
    fits = len(shape) >= 2 and len(lengths) == 1 and not differ(lengths[0], shape[attrs.batch_axis])
    require(fits, f"lengths of shape {show(lengths)} do not fit {show(shape)}")
    return [shape]


def _reverse_sequence(attrs: Attrs, data: Array, lengths: Array) -> Array:
    moved = np.moveaxis(data, (attrs.batch_axis, attrs.time_axis), (0, 1))
    out = np.array(moved)
    for row, length in enumerate(lengths.tolist()):
        require(0 <= length <= moved.shape[1], f"length {length} of sequence {row} is beyond {moved.shape[1]}")
        out[row, :length] = moved[row, :length][::-1]
    return np.moveaxis(out, (0, 1), (attrs.batch_axis, attrs.time_axis))


declare(
    "ReverseSequence", Kind.MOVE, [Param("input"), Param("sequence_lens", INT64, "I")], [Param("Y")],
    _reverse_sequence_shape, _reverse_sequence, since=(10, 28),
    attributes={"batch_axis": Attribute("int", 1, choices=FLAG), "time_axis": Attribute("int", 0, choices=FLAG)},
    samples=lambda: [
        sample(counting(4, 3, 2), vector(4, 1, 2)),
        sample(counting(3, 5), vector(5, 2, 3), time_axis=1, batch_axis=0),
        sample(counting(3, 2, dtype="int64"), vector(1, 3)),
    ],
)  # fmt: skip
