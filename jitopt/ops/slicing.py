"""A window of a tensor, inside its extents or beyond them: Slice, Pad, CenterCropPad."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jitopt.errors import ModelError, ShapeError
from jitopt.ir.bounds import clamp, from_end, gap, larger
from jitopt.ir.dims import Dim, Shape, ceil_div
from jitopt.ir.graph import Graph, Node
from jitopt.ops.cases import counting, sample, scalar, vector
from jitopt.ops.contents import axes_of, carried, fresh, fresh_shape, known_dims, known_ints, operand_length
from jitopt.ops.operator import ANY, INDICES, Array, Attribute, Attrs, Kind, Param
from jitopt.ops.rules import demand, require, shape_of, show
from jitopt.ops.signature import declare, dtypes
from jitopt.ops.upgrades import add_input, attribute_to_input

INT64 = dtypes("int64")


# Slice --------------------------------------------------------------------------------------------------------------
def slice_bounds(extent: Dim, start: Dim, end: Dim, step: int) -> tuple[Dim, Dim]:
    """Start and number of elements of a slice, after ONNX's rule for negative and far indices (Slice-13).

    Both are exact for every extent, 0 too; where a sign cannot be told they hold min, max and select_eq terms.
    Raises ModelError for step 0.
    """
    if step == 0:
        raise ModelError("the step of a slice must not be 0")
    first, last = from_end(start, extent), from_end(end, extent)
    if step > 0:
        first, last = clamp(first, 0, extent), clamp(last, 0, extent)
        return first, larger(ceil_div(gap(first, last), step), 0)
    first, last = clamp(first, 0, extent - 1), clamp(last, -1, extent - 1)
    return first, larger(ceil_div(first - last, -step), 0)


def _slice_shape(node: Node, attrs: Attrs) -> list[Shape | None]:
    shape = list(shape_of(node))
    starts, ends = known_dims(node, 1), known_dims(node, 2)
    length = next((n for n in (operand_length(node, i) for i in (1, 2)) if n is not None), None)
    axes = known_ints(node.input(3))
    if node.input(3) is None and length is not None:
        axes = list(range(length))
    if axes is None:
        return [fresh_shape(node, len(shape))]
    steps = [1] * len(axes) if node.input(4) is None else known_ints(node.input(4))
    for i, axis in enumerate(axes_of(axes, len(shape))):
        require(all(x is None or len(x) == len(axes) for x in (starts, ends, steps)), "operands differ in length")
        if starts is None or ends is None or steps is None:
            shape[axis] = fresh(node, axis)
        else:
            shape[axis] = slice_bounds(shape[axis], starts[i], ends[i], steps[i])[1]
    return [tuple(shape)]


def _slice(
    attrs: Attrs, data: Array, starts: Array, ends: Array, axes: Array | None = None, steps: Array | None = None
) -> Array:
    chosen = axes_of(range(len(starts)) if axes is None else axes.tolist(), data.ndim)
    index: list[Any] = [slice(None)] * data.ndim
    for i, axis in enumerate(chosen):
        step = 1 if steps is None else int(steps[i])
        start, count = slice_bounds(data.shape[axis], int(starts[i]), int(ends[i]), step)
        assert isinstance(start, int) and isinstance(count, int)
        stop = start + count * step
        index[axis] = slice(start, None if stop < 0 else stop, step) if count else slice(0, 0)
    result: Array = data[tuple(index)]
    return result


def _slice_attributes(graph: Graph, node: Node) -> None:
    """Before opset 10 starts, ends and axes were attributes."""
    for place, name in enumerate(("starts", "ends", "axes"), 1):
        attribute_to_input(name, place)(graph, node)


declare(
    "Slice", Kind.MOVE,
    [
        Param("data"), Param("starts", INDICES, "Tind"), Param("ends", INDICES, "Tind"),
        Param("axes", INDICES, "Tind", optional=True), Param("steps", INDICES, "Tind", optional=True),
    ],
    [Param("output")], _slice_shape, _slice, since=(1, 10, 11, 13), upgrades=((10, _slice_attributes),),
    content=carried(_slice, 1, 2, 3, 4),
    samples=lambda: [
        sample(counting(7, 5), vector(1), vector(-1)),
        sample(counting(7, 5), vector(1, 0), vector(2**63 - 1, 3), vector(-1, 0)),
        sample(counting(7, 5), vector(-1, 5), vector(-(2**63), 0), vector(0, 1), vector(-2, -1)),
        sample(counting(7), vector(-20), vector(20), vector(0), vector(3)),
        sample(counting(7), vector(5), vector(2), vector(0)),
        sample(counting(2, 0, 3), vector(0), vector(5), vector(1)),
        sample(counting(7, 5), vector(0, 1, dtype="int32"), vector(3, 9, dtype="int32"), vector(1, 0, dtype="int32")),
        sample(counting(7, 5, dtype="int64"), opset=7, starts=[1, -3], ends=[2**31 - 1, -1], axes=[0, 1]),
        sample(counting(7, 5), opset=7, starts=[2], ends=[4]),
        sample(counting(3, 4) > 5, vector(1), vector(3), vector(1), vector(1)),
    ],
)  # fmt: skip


# Pad ----------------------------------------------------------------------------------------------------------------
def _pad_axes(node: Node, rank: int) -> list[int] | None:
    axes = list(range(rank)) if node.input(3) is None else known_ints(node.input(3))
    return None if axes is None else axes_of(axes, rank)


def _pad_shape(node: Node, attrs: Attrs) -> list[Shape | None]:
    shape = list(shape_of(node))
    axes, pads = _pad_axes(node, len(shape)), known_dims(node, 1)
    if axes is None:
        return [fresh_shape(node, len(shape))]
    require(pads is None or len(pads) == 2 * len(axes), f"{pads} are not two pads for each of {len(axes)} axes")
    for i, axis in enumerate(axes):
        extent = shape[axis]
        shape[axis] = fresh(node, axis) if pads is None else extent + pads[i] + pads[i + len(axes)]
        if attrs.mode != "constant" and pads is not None:
            demand("source", extent, shape[axis], f"axis {axis} of extent {extent} holds nothing to pad with")
    require(not any(isinstance(d, int) and d < 0 for d in shape), f"nothing is left: {show(shape)}")
    return [tuple(shape)]


def _pad(
    attrs: Attrs, data: Array, pads: Array, constant_value: Array | None = None, axes: Array | None = None
) -> Array:
    chosen = axes_of(range(data.ndim) if axes is None else axes.tolist(), data.ndim)
    require(len(pads) == 2 * len(chosen), f"{pads.tolist()} are not two pads for each of {len(chosen)} axes")
    widths, crop = [(0, 0)] * data.ndim, [slice(None)] * data.ndim
    for axis, before, after in zip(chosen, pads[: len(chosen)].tolist(), pads[len(chosen) :].tolist(), strict=True):
        require(data.shape[axis] + before + after >= 0, f"axis {axis} of {list(data.shape)} has nothing left")
        widths[axis] = (max(before, 0), max(after, 0))
        crop[axis] = slice(max(-before, 0), data.shape[axis] + min(after, 0))
    data = data[tuple(crop)]
    if attrs.mode == "constant":
        zero: Any = "" if data.dtype == object and data.size and isinstance(data.flat[0], str) else 0
        value = zero if constant_value is None else np.ravel(constant_value)[0]
        return np.pad(data, widths, constant_values=value)
    try:
        return np.pad(data, widths, mode=attrs.mode)
    except ValueError as error:
        raise ShapeError(f"{list(data.shape)} cannot be padded by {widths}: {error}") from error


def _pad_attributes(graph: Graph, node: Node) -> None:
    """Before opset 11 pads and value were attributes; the value (0 by default) takes the data's type."""
    attribute_to_input("pads", 1)(graph, node)
    value = node.attrs.pop("value", 0.0)
    if value and node.attrs.get("mode", "constant") == "constant":
        data = node.arg(0)
        if data.type is not None and data.dtype.numpy is not None:
            add_input(graph, node, 2, np.array(value, data.dtype.numpy), "value")
        else:
            constant = graph.constant(np.array(value, np.float32), name=f"{node.name}/value")
            node.inputs.append(None)
            node.set_input(2, graph.add("CastLike", [constant, data], name=f"{node.name}/value_cast"))


declare(
    "Pad", Kind.MOVE,
    [
        Param("data"), Param("pads", INT64, "I"), Param("constant_value", ANY, "T", optional=True),
        Param("axes", INDICES, "Tind", optional=True),
    ],
    [Param("output")], _pad_shape, _pad, since=(2, 11, 13, 18, 19, 21, 23, 24, 25), upgrades=((11, _pad_attributes),),
    attributes={"mode": Attribute("string", "constant", choices=("constant", "reflect", "edge", "wrap"))},
    content=carried(_pad, 1, 3),
    samples=lambda: [
        sample(counting(3, 5), vector(1, 0, 2, 3)),
        sample(counting(3, 5), vector(0, 1, 0, 2), scalar(1.5)),
        sample(counting(3, 5), vector(1, 2, 2, 4), mode="reflect"),
        sample(counting(3, 5), vector(1, 2, 0, 7), mode="edge"),
        sample(counting(3, 5), vector(1, 2, 2, 4), opset=19, mode="wrap"),
        sample(counting(3, 5), vector(-1, 2, 0, -2), scalar(9.0)),
        sample(counting(3, 5), vector(1, 2), scalar(9.0), vector(-1), opset=18),
        sample(counting(3, 5, dtype="uint8"), vector(1, 0, 0, 1), scalar(200, "uint8")),
        sample(counting(3, 5, dtype="int64"), vector(1, 0, 0, 1), None, vector(1, 0, dtype="int32"), opset=18),
        sample(counting(3, 2) > 2, vector(1, 0, 0, 1), opset=13),
        sample(counting(2, 0), vector(0, 2, 0, 1)),
        sample(counting(2, 3), opset=7, pads=[0, 1, 2, 0], value=2.5),
        sample(counting(2, 3, dtype="float64"), opset=7, pads=[0, 1, 1, 0], mode="reflect"),
    ],
)  # fmt: skip


# CenterCropPad ------------------------------------------------------------------------------------------------------
def _center_axes(attrs: Attrs, rank: int) -> list[int]:
    return axes_of(range(rank) if attrs.axes is None else attrs.axes, rank)


def _center_shape(node: Node, attrs: Attrs) -> list[Shape | None]:
    shape = list(shape_of(node))
    axes, target = _center_axes(attrs, len(shape)), known_dims(node, 1)
    require(target is None or len(target) == len(axes), f"{target} names no extent for each of {len(axes)} axes")
    for i, axis in enumerate(axes):
        shape[axis] = fresh(node, axis) if target is None else target[i]
    require(not any(isinstance(d, int) and d < 0 for d in shape), f"{show(shape)} is no shape")
    return [tuple(shape)]


def _center_crop_pad(attrs: Attrs, data: Array, shape: Array) -> Array:
    crop: list[slice] = [slice(None)] * data.ndim
    widths: list[tuple[int, int]] = [(0, 0)] * data.ndim
    target: Sequence[int] = shape.tolist()
    for axis, extent in zip(_center_axes(attrs, data.ndim), target, strict=True):
        surplus = data.shape[axis] - extent
        if surplus > 0:
            crop[axis] = slice(surplus // 2, surplus // 2 + extent)
        else:
            widths[axis] = (-surplus // 2, -surplus - -surplus // 2)
    return np.pad(data[tuple(crop)], widths)


declare(
    "CenterCropPad", Kind.MOVE, [Param("input_data"), Param("shape", INDICES, "Tind")], [Param("output_data")],
    _center_shape, _center_crop_pad, attributes={"axes": Attribute("ints")}, since=(18,),
    samples=lambda: [
        sample(counting(7, 5), vector(4, 8)),
        sample(counting(6, 5, 3), vector(9), axes=[-2]),
        sample(counting(6, 5, dtype="int32"), vector(5, 3), axes=[1, 0]),
    ],
)  # fmt: skip
