"""Col2Im and Det: columns folded back into an image, determinants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jitopt.errors import ModelError
from jitopt.ir.dims import Shape, product
from jitopt.ir.graph import Node
from jitopt.ops.cases import floats, sample, vector
from jitopt.ops.contents import computable, fresh, known_dims, operand_length
from jitopt.ops.operator import Array, Attribute, Attrs, Kind, Param
from jitopt.ops.rules import UnknownRank, differ, require, shape_of, show
from jitopt.ops.signature import PLAIN, REALS, declare, dtypes

INT64 = dtypes("int64")


# Col2Im -------------------------------------------------------------------------------------------------------------
def _windows(attrs: Attrs, rank: int) -> tuple[list[int], list[int], list[int]]:
    """Strides, dilations and pads with their defaults. Raises ModelError for wrong lengths or values."""
    strides, dilations = (list(v) if v is not None else [1] * rank for v in (attrs.strides, attrs.dilations))
    pads = [0] * (2 * rank) if attrs.pads is None else list(attrs.pads)
    fits = len(strides) == len(dilations) == rank and len(pads) == 2 * rank
    if not fits or min([*strides, *dilations], default=1) < 1 or min(pads, default=0) < 0:
        raise ModelError(f"strides {strides}, dilations {dilations} and pads {pads} do not fit {rank} axes")
    return strides, dilations, pads


def _col2im_shape(node: Node, attrs: Attrs) -> list[Shape | None]:
    columns = shape_of(node)
    require(len(columns) == 3, f"the columns must have rank 3, not {show(columns)}")
    computable(node.arg(0).dtype)
    image, block = known_dims(node, 1), known_dims(node, 2)
    rank = len(image or block or ()) or operand_length(node, 1)
    if rank is None:
        raise UnknownRank
    _windows(attrs, rank)
    channels = fresh(node, 1)
    if block is not None:
        taps = product(block)
        if isinstance(columns[1], int) and isinstance(taps, int):
            require(taps > 0 and columns[1] % taps == 0, f"{columns[1]} rows are no multiple of a block of {taps}")
        channels = columns[1] // taps
    spatial = [fresh(node, 2 + i) for i in range(rank)] if image is None else image
    return [(columns[0], channels, *spatial)]


def _col2im(attrs: Attrs, columns: Array, image_shape: Array, block_shape: Array) -> Array:
    image, block = image_shape.tolist(), block_shape.tolist()
    strides, dilations, pads = _windows(attrs, len(image))
    begins, ends = pads[: len(image)], pads[len(image) :]
    padded = [b + d + e for b, d, e in zip(begins, image, ends, strict=True)]
    reach = [(k - 1) * d + 1 for k, d in zip(block, dilations, strict=True)]
    counts = [(p - r) // s + 1 for p, r, s in zip(padded, reach, strides, strict=True)]
    batch, rows, places = columns.shape
    taps = int(np.prod(block))
    require(places == int(np.prod(counts)), f"{places} columns where windows of {block} stand at {counts} places")
    parts = columns.reshape(batch, rows // taps, *block, *counts)
    out = np.zeros((batch, rows // taps, *padded), columns.dtype)
    for tap in np.ndindex(*block):
        there: tuple[Any, ...] = (..., *_places(tap, dilations, strides, counts))
        out[there] += parts[(slice(None), slice(None), *tap)]
    inner: tuple[Any, ...] = (..., *(slice(b, b + d) for b, d in zip(begins, image, strict=True)))
    found: Array = out[inner]
    return found


def _places(tap: Sequence[int], dilations: Sequence[int], strides: Sequence[int], counts: Sequence[int]) -> list[slice]:
    """Where one tap of every window lies, a slice an axis."""
    columns = zip(tap, dilations, strides, counts, strict=True)
    return [slice(t * d, t * d + (n - 1) * s + 1, s) for t, d, s, n in columns]


declare(
    "Col2Im", Kind.WINDOW, [Param("input", PLAIN), Param("image_shape", INT64, "I"), Param("block_shape", INT64, "I")],
    [Param("output", PLAIN)], _col2im_shape, _col2im, since=(18,),
    attributes={name: Attribute("ints") for name in ("strides", "dilations", "pads")},
    samples=lambda: [
        sample(floats(1, 5, 5), vector(5, 5), vector(1, 5)),
        sample(floats(2, 27, 4), vector(5, 5), vector(3, 3), strides=[2, 2]),
        sample(floats(1, 8, 20), vector(5, 5), vector(1, 4), pads=[0, 1, 0, 1], dilations=[1, 1]),
        sample(floats(1, 4, 5), vector(6, 6), vector(2, 2), dilations=[1, 5], strides=[1, 1]),
        sample(floats(1, 10, 12), vector(3, 4, 5), vector(1, 1, 5), pads=[0, 0, 0, 0, 0, 0]),
    ],
)  # fmt: skip


# Det ----------------------------------------------------------------------------------------------------------------
def _det_shape(node: Node, attrs: Attrs) -> list[Shape | None]:
    shape = shape_of(node)
    square = len(shape) >= 2 and not differ(shape[-1], shape[-2])
    require(square, f"needs square matrices, not {show(shape)}")
    computable(node.arg(0).dtype)
    return [shape[:-2]]


def _det(attrs: Attrs, x: Array) -> Array:
    return np.asarray(np.linalg.det(x.astype(np.float64)))


declare(
    "Det", Kind.OPAQUE, [Param("X", REALS)], [Param("Y", REALS)], _det_shape, _det, since=(11, 22),
    samples=lambda: [sample(floats(3, 3)), sample(floats(2, 3, 4, 4)), sample(floats(2, 1, 1))],
)  # fmt: skip
