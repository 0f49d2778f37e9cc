"""Operators that read shapes or make small tensors: Shape, Size, Constant, ConstantOfShape, Range."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from jitopt.errors import ModelError
from jitopt.ir.bounds import larger
from jitopt.ir.dims import Dim, Shape, ceil_div
from jitopt.ir.dtypes import DType, dtype_of
from jitopt.ir.graph import Node
from jitopt.ir.storage import element_type
from jitopt.ops.cases import counting, sample, scalar, vector
from jitopt.ops.contents import as_content, computable, fresh_shape, known, known_dims, operand_length
from jitopt.ops.operator import ANY, Array, Attribute, Attrs, Kind, Param
from jitopt.ops.rules import require, show
from jitopt.ops.signature import REALS, declare, dtypes

INT64, COUNTED = dtypes("int64"), REALS | dtypes("int16 int32 int64")
MOST_ELEMENTS = 1024  # of tensors whose content ConstantOfShape and Range still spell out


# Shape, Size --------------------------------------------------------------------------------------------------------
def _ends(attrs: Attrs, rank: int) -> tuple[int, int]:
    start, stop, _ = slice(attrs.start, attrs.end).indices(rank)
    return start, max(start, stop)


def _shape_shape(node: Node, attrs: Attrs) -> list[Shape | None]:
    shape = node.arg(0).tensor.shape
    if shape is None:
        return [fresh_shape(node, 1)]
    start, stop = _ends(attrs, len(shape))
    return [(stop - start,)]


def _shape(attrs: Attrs, data: Array) -> Array:
    start, stop = _ends(attrs, data.ndim)
    return np.array(data.shape[start:stop], np.int64)


def _shape_content(attrs: Attrs, node: Node, data: Array | None) -> Array | None:
    shape = node.arg(0).tensor.shape
    if shape is None:
        return None
    start, stop = _ends(attrs, len(shape))
    return as_content(shape[start:stop])


def _size_content(attrs: Attrs, node: Node, data: Array | None) -> Array | None:
    tensor = node.arg(0).tensor
    return None if tensor.shape is None else as_content([tensor.elements], ())


declare(
    "Shape", Kind.SHAPE, [Param("data")], [Param("shape", INT64, "T1")], _shape_shape, _shape,
    attributes={"start": Attribute("int", 0), "end": Attribute("int")}, since=(1, 13, 15, 19, 21, 23, 24, 25),
    content=_shape_content,
    samples=lambda: [
        sample(counting(2, 3, 5), opset=7),
        sample(counting()),
        sample(counting(2, 0, 5), opset=15, start=1),
        sample(counting(2, 3, 5), opset=15, start=-2, end=-1),
        sample(counting(2, 3, 5), opset=15, start=-9, end=9),
        sample(counting(2, 3, 5), opset=15, start=2, end=1),
    ],
)  # fmt: skip
declare(
    "Size", Kind.SHAPE, [Param("data")], [Param("size", INT64, "T1")], lambda node, attrs: [()],
    lambda attrs, data: np.array(data.size, np.int64), since=(1, 13, 19, 21, 23, 24, 25), content=_size_content,
    samples=lambda: [sample(counting(2, 3, 5)), sample(counting()), sample(counting(2, 0, dtype="uint8"))],
)  # fmt: skip


# Constant -----------------------------------------------------------------------------------------------------------
_VALUES: Mapping[str, tuple[Attribute, DType | None]] = {
    "value": (Attribute("tensor"), None),
    "value_int": (Attribute("int"), dtype_of("int64")),
    "value_ints": (Attribute("ints"), dtype_of("int64")),
    "value_float": (Attribute("float"), dtype_of("float32")),
    "value_floats": (Attribute("floats"), dtype_of("float32")),
    "value_string": (Attribute("string"), dtype_of("string")),
    "value_strings": (Attribute("strings"), dtype_of("string")),
}


def constant_value(attrs: Attrs) -> Array:
    """The array a Constant node holds. Raises ModelError unless exactly one of its attributes is set."""
    given = [name for name in _VALUES if getattr(attrs, name) is not None]
    if len(given) != 1:
        raise ModelError(f"exactly one attribute must hold the value, not {', '.join(given) or 'none'}")
    dtype = _VALUES[given[0]][1]
    return np.asarray(getattr(attrs, given[0]), None if dtype is None else dtype.numpy)


def _constant_content(attrs: Attrs, node: Node) -> Array | None:
    value = constant_value(attrs)
    return as_content(value) if value.dtype.kind in "iub" and value.size <= MOST_ELEMENTS else None


declare(
    "Constant", Kind.SHAPE, [], [Param("output")], lambda node, attrs: [constant_value(attrs).shape],
    lambda attrs: constant_value(attrs), dtype=lambda node, attrs: {"T": element_type(constant_value(attrs))},
    attributes={name: attribute for name, (attribute, _) in _VALUES.items()},
    since=(1, 9, 11, 12, 13, 19, 21, 23, 24, 25), content=_constant_content,
    samples=lambda: [
        sample(opset=7, value=counting(2, 3)),
        sample(opset=7, value=scalar(3, "int64")),
        sample(opset=12, value_int=-7),
        sample(opset=12, value_ints=[3, 4, 5]),
        sample(opset=12, value_float=0.5),
        sample(opset=12, value_floats=[0.5, -2.0]),
        sample(opset=12, value_string="text"),
        sample(opset=12, value_strings=["one", "two"]),
    ],
)  # fmt: skip


# ConstantOfShape ----------------------------------------------------------------------------------------------------
def _fill(attrs: Attrs) -> Array:
    """The one element a ConstantOfShape repeats: float32 0 by default. Raises ModelError for more than one."""
    if attrs.value is None:
        return np.zeros((), np.float32)
    if attrs.value.size != 1:
        raise ModelError(f"the attribute 'value' must hold one element, not {attrs.value.size}")
    return np.asarray(attrs.value).reshape(())


def _filled_shape(node: Node, attrs: Attrs) -> list[Shape | None]:
    dims = known_dims(node, 0)
    if dims is None:
        return [fresh_shape(node, operand_length(node, 0))]
    require(not any(isinstance(d, int) and d < 0 for d in dims), f"{show(dims)} is no shape")
    return [tuple(dims)]


def _constant_of_shape(attrs: Attrs, shape: Array) -> Array:
    require(not (shape < 0).any(), f"{shape.tolist()} is no shape")
    fill = _fill(attrs)
    return np.full(shape.tolist(), fill, fill.dtype)


def _filled_content(attrs: Attrs, node: Node, shape: Array | None) -> Array | None:
    fill = _fill(attrs)
    if shape is None or fill.dtype.kind not in "iub" or not all(isinstance(d, int) for d in shape.flat):
        return None
    dims = [int(d) for d in shape.flat]
    if np.prod(dims, dtype=float) > MOST_ELEMENTS:
        return None
    out = np.empty(dims, object)
    out[...] = fill.item()
    return out


declare(
    "ConstantOfShape", Kind.SHAPE, [Param("input", INT64, "T1")], [Param("output", ANY, "T2")], _filled_shape,
    _constant_of_shape, dtype=lambda node, attrs: {"T2": element_type(_fill(attrs))},
    attributes={"value": Attribute("tensor")}, since=(9, 20, 21, 23, 24, 25), content=_filled_content,
    samples=lambda: [
        sample(vector(2, 3)),
        sample(vector()),
        sample(vector(2, 0, 3), value=vector(7)),
        sample(vector(4), value=vector(-1.5)),
        sample(vector(1, 3), value=vector(True, dtype="bool")),
        sample(vector(5), value=vector(200, dtype="uint8")),
    ],
)  # fmt: skip


# Range --------------------------------------------------------------------------------------------------------------
def _range_operands(node: Node) -> list[Dim | None]:
    out: list[Dim | None] = []
    for index in range(3):
        content = known(node.arg(index))
        require(content is None or content.size == 1, f"operand {index} must be a scalar")
        out.append(None if content is None else content.ravel()[0])
    return out


def _range_shape(node: Node, attrs: Attrs) -> list[Shape | None]:
    computable(node.arg(0).dtype)
    start, limit, delta = _range_operands(node)
    constants = [v.constant for v in node.inputs if v is not None]
    if all(c is not None and c.size == 1 for c in constants):
        return [(_count(*(np.asarray(c).ravel()[0] for c in constants)),)]
    if start is None or limit is None or not isinstance(delta, int):
        return [fresh_shape(node, 1)]
    require(delta != 0, "delta must not be 0")
    return [(larger(ceil_div(limit - start, delta) if delta > 0 else ceil_div(start - limit, -delta), 0),)]


def _count(start: Any, limit: Any, delta: Any) -> int:
    require(delta != 0, "delta must not be 0")
    if isinstance(start, (np.integer, int)):
        return max(0, -((int(start) - int(limit)) // int(delta)))
    return max(0, int(np.ceil((float(limit) - float(start)) / float(delta))))


def _range(attrs: Attrs, start: Array, limit: Array, delta: Array) -> Array:
    first, last, step = (np.asarray(a).reshape(()) for a in (start, limit, delta))
    count = _count(first[()], last[()], step[()])
    if first.dtype.kind != "f":
        return (int(first) + np.arange(count, dtype=np.int64) * int(step)).astype(first.dtype)
    wide = np.float32 if first.dtype.itemsize < 4 and attrs.stash_type == 1 else first.dtype
    values: Array = first.astype(wide) + np.arange(count).astype(wide) * step.astype(wide)
    return values.astype(first.dtype)


def _range_content(attrs: Attrs, node: Node, *operands: Array | None) -> Array | None:
    start, _, delta = _range_operands(node)
    extent = _range_shape(node, attrs)[0]
    if start is None or delta is None or extent is None:
        return None
    count = extent[0]
    if not isinstance(count, int) or count > MOST_ELEMENTS:
        return None
    return as_content([start + i * delta for i in range(count)])


declare(
    "Range", Kind.SHAPE, [Param(name, COUNTED) for name in ("start", "limit", "delta")],
    [Param("output", COUNTED)], _range_shape, _range,
    attributes={"stash_type": Attribute("int", 1)}, since=(11, 27), content=_range_content,
    samples=lambda: [
        sample(scalar(3, "int64"), scalar(11, "int64"), scalar(3, "int64")),
        sample(scalar(10, "int32"), scalar(4, "int32"), scalar(-2, "int32")),
        sample(scalar(0, "int64"), scalar(-4, "int64"), scalar(1, "int64")),
        sample(scalar(0.5), scalar(2.0), scalar(0.25)),
        sample(scalar(1.0, "float64"), scalar(-0.95, "float64"), scalar(-0.1, "float64")),
        sample(scalar(1, "int16"), scalar(7, "int16"), scalar(2, "int16")),
    ],
)  # fmt: skip
