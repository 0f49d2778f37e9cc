"""Small integer arrays that kernels read and that depend on shapes only: declared as data, filled at bind time.

A Table names its kind and arguments (dims, strings, floats); `FILLS` says how each kind is computed. So a program with
tables prints, parses back and can be stored.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jitopt_kernels.packing import resize_tables

from jitopt.ir.dims import Expr
from jitopt.ir.graph import Value
from jitopt.ir.types import TensorType
from jitopt.ops.contents import known
from jitopt.ops.sampling import Axis, coordinates, filter_taps, linear_taps, nearest

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Table:
    """`kind` of FILLS and its arguments: ints, expressions, floats or strings."""

    kind: str
    args: tuple[Any, ...]

    def fill(self, evaluate: Callable[[Any], int]) -> Array:
        """The array, expressions evaluated."""
        return FILLS[self.kind](*(evaluate(a) if isinstance(a, Expr) else a for a in self.args))

    def __str__(self) -> str:
        return f"{self.kind}({', '.join(map(str, self.args))})"


def _elements(dtype: str, *values: int) -> Array:
    """Contents of a shape tensor, flat."""
    return np.array(values, dtype)


def _window(mode: str, extent: int, full: int, before: int, step: int) -> Array:
    """Byte offsets along one padded axis: where element i of `full` comes from, -1 where it lies outside.

    `mode` is ONNX's Pad mode, `before` the elements added in front (negative: taken away), `step` bytes an element.
    """
    at = np.arange(full, dtype=np.int64) - before
    outside = (at < 0) | (at >= extent)
    if mode == "edge":
        at = at.clip(0, max(extent - 1, 0))
    elif mode == "wrap":
        at = at % max(extent, 1)
    elif mode == "reflect":
        period = max(2 * (extent - 1), 1)
        at = np.abs((at + extent - 1) % period - (extent - 1))
    return np.where(outside, -1, at * step) if mode == "constant" else at * step


def _range(dtype: str, start: int, count: int, delta: int) -> Array:
    """start, start + delta, ..."""
    return (start + np.arange(count, dtype=np.int64) * delta).astype(dtype)


def _resize_taps(
    mode: str, coordinate: str, rounding: str, a: float, exclude: bool, scale: float, extent: int, out: int
) -> tuple[Array, Array]:
    """Index and weight, [out, taps], of one resized axis; scale 0: out / extent."""
    if mode == "same":
        return np.arange(out)[:, None], np.ones((out, 1))
    axis = Axis(extent, out, scale or float(np.float32(out) / np.float32(max(extent, 1))))
    at = coordinates(axis, coordinate)
    if mode == "nearest":
        return nearest(at, rounding, extent)[:, None], np.ones((out, 1))
    taps = (
        linear_taps(at, axis) if mode == "linear" else filter_taps(at, axis, mode, a, antialias=False, exclude=exclude)
    )
    return taps.index, taps.weight


def _resize_index(*args: Any) -> Array:
    """Elements of the input that each output reads, [taps][out]."""
    index: Array = resize_tables(*_resize_taps(*args))[0]
    return index


def _resize_weight(*args: Any) -> Array:
    """Their weights, float32 [taps][out]."""
    weight: Array = resize_tables(*_resize_taps(*args))[1]
    return weight


def table_of(value: Value) -> Table | None:
    """The table that holds a value which depends on shapes only: known elements, or a Range with known operands."""
    node = value.producer
    if node is None or not isinstance(value.type, TensorType):
        return None
    if value.content is not None:
        return Table("elements", (value.dtype.name, *value.content.ravel()))
    if node.op == "Range" and value.dtype.name in ("int32", "int64"):
        start, delta = known(node.arg(0)), known(node.arg(2))
        if start is not None and delta is not None and value.type.shape is not None:
            return Table("range", (value.dtype.name, start.ravel()[0], value.shape[0], delta.ravel()[0]))
    return None


FILLS: dict[str, Callable[..., Array]] = {
    "elements": _elements,
    "range": _range,
    "window": _window,
    "resize_index": _resize_index,
    "resize_weight": _resize_weight,
}
