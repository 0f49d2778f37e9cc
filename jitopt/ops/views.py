"""The same elements in the same order under another shape: Reshape, Squeeze, Unsqueeze, Flatten."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jitopt.errors import ModelError, ShapeError
from jitopt.ir.dims import Dim, Shape, product
from jitopt.ir.graph import Node
from jitopt.ops.cases import counting, sample, vector
from jitopt.ops.contents import (
    axes_of,
    carried,
    fresh,
    fresh_shape,
    known_dims,
    known_ints,
    operand_length,
)
from jitopt.ops.operator import Array, Attribute, Attrs, Kind, Param
from jitopt.ops.rules import demand, require, shape_of, show
from jitopt.ops.signature import declare, dtypes
from jitopt.ops.upgrades import attribute_to_input

INT64 = dtypes("int64")


# Reshape ------------------------------------------------------------------------------------------------------------
def _reshape_shape(node: Node, attrs: Attrs) -> list[Shape | None]:
    target = known_dims(node, 1)
    if target is None:
        return [fresh_shape(node, operand_length(node, 1))]
    return [reshaped(node, node.arg(0).tensor.shape, target, bool(attrs.allowzero))]


def reshaped(node: Node, shape: Shape | None, target: Sequence[Dim], allow_zero: bool = False) -> Shape:
    """The shape Reshape gives a tensor of `shape` for the operand `target`, its 0 and -1 resolved.

    -1 becomes the exact quotient of the element counts; symbolic entries of `target` count as extents.
    Raises ShapeError where the counts cannot agree.
    """
    text = f"{'a tensor of unknown rank' if shape is None else show(shape)} cannot be reshaped to {show(target)}"
    out: list[Dim] = list(target)
    known = [d for d in out if isinstance(d, int)]
    require(known.count(-1) <= 1 and min(known, default=0) >= -1, f"{text}: one -1 and no other negative is allowed")
    require(not (allow_zero and 0 in known and -1 in known), f"{text}: with allowzero, 0 and -1 exclude one another")
    for i, d in enumerate(out):
        if isinstance(d, int) and d == 0 and not allow_zero:
            require(shape is None or i < len(shape), f"{text}: the 0 at place {i} has no extent to copy")
            out[i] = fresh(node, i) if shape is None else shape[i]
    hole = next((i for i, d in enumerate(out) if isinstance(d, int) and d == -1), None)
    if shape is None:
        return tuple(fresh(node, i) if i == hole else d for i, d in enumerate(out))
    rest, total = product(d for i, d in enumerate(out) if i != hole), product(shape)
    if hole is not None:
        exact = not isinstance(rest, int) or (rest > 0 and not (isinstance(total, int) and total % rest))
        require(exact, f"{text}: {total} elements are no multiple of {rest}")
        out[hole] = total // rest
        demand("equal", total, rest * out[hole], f"{text}: {total} elements are no multiple of {rest}")
    else:
        difference = total - rest
        require(not isinstance(difference, int) or difference == 0, f"{text}: {total} elements are not {rest}")
        demand("equal", total, rest, f"{text}: {total} elements are not {rest}")
    return tuple(out)


def _reshape(attrs: Attrs, data: Array, shape: Array) -> Array:
    target = [int(d) for d in np.ravel(shape)]
    text = f"{list(data.shape)} cannot be reshaped to {target}"
    if not attrs.allowzero:
        require(all(d != 0 or i < data.ndim for i, d in enumerate(target)), f"{text}: a 0 has no extent to copy")
        target = [data.shape[i] if d == 0 else d for i, d in enumerate(target)]
    try:
        return data.reshape(target)
    except ValueError as error:
        raise ShapeError(text) from error


declare(
    "Reshape", Kind.VIEW, [Param("data"), Param("shape", INT64, "I")], [Param("reshaped")], _reshape_shape, _reshape,
    attributes={"allowzero": Attribute("int", 0, choices=(0, 1))}, since=(5, 13, 14, 19, 21, 23, 24, 25),
    content=carried(_reshape, 1),
    samples=lambda: [
        sample(counting(2, 3, 5), vector(5, -1)),
        sample(counting(2, 3, 5), vector(0, -1)),
        sample(counting(2, 3, 5), vector(0, 0, 5, 1)),
        sample(counting(1), vector()),
        sample(counting(0, 3), vector(3, 0), opset=14, allowzero=1),
        sample(counting(2, 6, dtype="uint8"), vector(-1), opset=7),
        sample(counting(4, 3) > 3, vector(3, 4), opset=13),
    ],
)  # fmt: skip


# Squeeze, Unsqueeze -------------------------------------------------------------------------------------------------
def _squeeze_shape(node: Node, attrs: Attrs) -> list[Shape | None]:
    shape = shape_of(node)
    if node.input(1) is None:
        if not all(isinstance(d, int) for d in shape):
            return [None]  # which symbolic extents are 1 is known only when it runs
        return [tuple(d for d in shape if d != 1)]
    axes = known_ints(node.input(1))
    if axes is None:
        length = operand_length(node, 1)
        return [fresh_shape(node, None if length is None else len(shape) - length)]
    axes = axes_of(axes, len(shape), unique=False)
    for axis in axes:
        demand("equal", shape[axis], 1, f"axis {axis} of {show(shape)} is not 1")
    return [tuple(d for i, d in enumerate(shape) if i not in axes)]


def _squeeze(attrs: Attrs, data: Array, axes: Array | None = None) -> Array:
    if axes is None:
        return data.reshape([d for d in data.shape if d != 1])
    chosen = axes_of(np.ravel(axes), data.ndim, unique=False)
    require(all(data.shape[a] == 1 for a in chosen), f"axes {chosen} of {list(data.shape)} are not all 1")
    return data.reshape([d for i, d in enumerate(data.shape) if i not in chosen])


def _unsqueeze_shape(node: Node, attrs: Attrs) -> list[Shape | None]:
    shape = shape_of(node)
    axes = known_ints(node.arg(1))
    if axes is None:
        length = operand_length(node, 1)
        return [fresh_shape(node, None if length is None else len(shape) + length)]
    return [_with_ones(shape, axes)]


def _with_ones(shape: Sequence[Dim], axes: Sequence[int]) -> Shape:
    places = axes_of(axes, len(shape) + len(axes))
    rest = iter(shape)
    return tuple(1 if i in places else next(rest) for i in range(len(shape) + len(axes)))


def _unsqueeze(attrs: Attrs, data: Array, axes: Array) -> Array:
    return data.reshape(_with_ones(data.shape, np.ravel(axes).tolist()))


declare(
    "Squeeze", Kind.VIEW, [Param("data"), Param("axes", INT64, "I", optional=True)], [Param("squeezed")],
    _squeeze_shape, _squeeze, since=(1, 11, 13, 21, 23, 24, 25), upgrades=((13, attribute_to_input("axes", 1)),),
    content=carried(_squeeze, 1),
    samples=lambda: [
        sample(counting(1, 3, 1, 5), vector(0, 2), opset=13),
        sample(counting(1, 3, 1, 5), vector(-2), opset=13),
        sample(counting(1, 3, 1), opset=13),
        sample(counting(1, 3, 1, 0), opset=7, axes=[0]),
        sample(counting(1, 3, 1, dtype="int8"), opset=11, axes=[-1]),
        sample(counting(1, 1), opset=11),
    ],
)  # fmt: skip
declare(
    "Unsqueeze", Kind.VIEW, [Param("data"), Param("axes", INT64, "I")], [Param("expanded")], _unsqueeze_shape,
    _unsqueeze, since=(1, 11, 13, 21, 23, 24, 25), upgrades=((13, attribute_to_input("axes", 1)),),
    content=carried(_unsqueeze, 1),
    samples=lambda: [
        sample(counting(3, 5), vector(0, 2), opset=13),
        sample(counting(3, 5), vector(-1), opset=13),
        sample(counting(3), vector(2, 0), opset=13),
        sample(counting(), vector(0), opset=13),
        sample(counting(3, 0), opset=7, axes=[1]),
        sample(counting(3, 5) > 7, opset=11, axes=[-1, 0]),
    ],
)  # fmt: skip


# Flatten ------------------------------------------------------------------------------------------------------------
def _flatten_shape(node: Node, attrs: Attrs) -> list[Shape | None]:
    shape = node.arg(0).tensor.shape
    return [fresh_shape(node, 2) if shape is None else _halves(shape, attrs.axis)]


def _halves(shape: Sequence[Dim], axis: int) -> Shape:
    if not -len(shape) <= axis <= len(shape):
        raise ModelError(f"axis {axis} lies outside [{-len(shape)}, {len(shape)}]")
    cut = axis + len(shape) if axis < 0 else axis
    return product(shape[:cut]), product(shape[cut:])


def _flatten(attrs: Attrs, data: Array) -> Array:
    return data.reshape(_halves(data.shape, attrs.axis))


declare(
    "Flatten", Kind.VIEW, [Param("input")], [Param("output")], _flatten_shape, _flatten,
    attributes={"axis": Attribute("int", 1)}, since=(1, 9, 11, 13, 21, 23, 24, 25),
    samples=lambda: [
        *(
            sample(counting(2, 3, 5), axis=axis, opset=opset)
            for axis, opset in ((1, 7), (0, 9), (3, 9), (-1, 11), (2, 13), (-3, 13))
        ),
        sample(counting(0, 3, 2)),
        sample(counting(), opset=13, axis=0),
    ],
)  # fmt: skip
