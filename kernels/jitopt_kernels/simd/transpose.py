"""A square of elements, transposed in registers on its way through memory."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types

from .binding import device, dtype_literal, literals
from .dtypes import numpy_dtype
from .emit import INT32, INT64, pointer
from .memory import load_scalar, store_scalar
from .registers import vector

_DEFAULT = types.literal("float32")


def transpose_copy(a: int, a_row: int, to: int, to_row: int, lanes: int, dtype: str = "float32") -> None:
    """Element (j, i) at `to` becomes element (i, j) at `a`, for i and j below `lanes`; rows are a_row and to_row bytes
    apart, elements of a row side by side."""
    for i in range(lanes):
        for j in range(lanes):
            value = load_scalar(a + i * a_row + j * numpy_dtype(dtype).itemsize, dtype)
            store_scalar(to + j * to_row + i * value.itemsize, value)


@device(transpose_copy)
def _transpose_copy(
    context: Any, a: Any, a_row: Any, to: Any, to_row: Any, lanes: Any, dtype: Any = _DEFAULT
) -> Any:  # fmt: skip
    register = vector(dtype_literal(dtype), *literals(lanes))
    count, size = register.lanes, register.element.size

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        a, a_row, to, to_row = args[:4]
        rows = []
        for i in range(count):
            at = builder.add(a, builder.mul(a_row, INT64(i)))
            rows.append(builder.load(pointer(builder, at, register.llvm()), align=size))
        span = 1
        while span < count:  # exchange squares of `span` that lie across the diagonal of squares twice as large
            upper, lower = _exchanges(count, span)
            for i in (i for i in range(count) if not i & span):
                pair = rows[i], rows[i + span]
                rows[i], rows[i + span] = (builder.shuffle_vector(*pair, mask) for mask in (upper, lower))
            span *= 2
        for j, row in enumerate(rows):
            at = builder.add(to, builder.mul(to_row, INT64(j)))
            builder.store(row, pointer(builder, at, register.llvm()), align=size)
        return context.get_dummy_value()

    return types.void(*(types.int64,) * 4, lanes, dtype), emit


def _exchanges(lanes: int, span: int) -> tuple[ir.Constant, ir.Constant]:
    """Shuffle masks of two rows `span` apart: what the first and what the second becomes."""
    upper = [lane if not lane & span else lanes + lane - span for lane in range(lanes)]
    lower = [lane + span if not lane & span else lanes + lane for lane in range(lanes)]
    kind = ir.VectorType(INT32, lanes)
    return ir.Constant(kind, upper), ir.Constant(kind, lower)
