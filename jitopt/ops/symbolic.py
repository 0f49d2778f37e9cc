"""Arithmetic on what is known of small tensors: the content rules of elementwise operators.

Elements are dims: integers and expressions. A float tensor may carry them too, where its elements are exact integers
(a Shape cast to float, say). An element that cannot be expressed makes the whole content unknown.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jitopt.ir.bounds import larger, nonnegative, smaller
from jitopt.ir.dims import Dim, Expr, dim_max, dim_min, floor_div, modulo, select_eq
from jitopt.ir.graph import Node
from jitopt.ops.contents import Content
from jitopt.ops.operator import Array, Attrs

_MOST = 64  # elements a tensor may have for its content to be followed


def mapped(function: Callable[..., Dim | None]) -> Content:
    """The content rule of an elementwise operator from its meaning on dims (None: cannot be expressed)."""

    def content(attrs: Attrs, node: Node, *arrays: Array | None) -> Array | None:
        known = [_exact(node, index, array) for index, array in enumerate(arrays)]
        if not known or any(array is None for array in known):
            return None
        operands = np.broadcast_arrays(*[array for array in known if array is not None])
        out = np.empty(operands[0].shape, object)
        for index in np.ndindex(out.shape):
            elements = [_plain(operand[index]) for operand in operands]
            found = None if None in elements else function(*elements)
            if found is None:
                return None
            out[index] = found
        return out

    return content


def _plain(d: Any) -> Dim | None:
    """An element as a dim; None for a fraction."""
    if isinstance(d, Expr):
        return d
    return int(d) if float(d).is_integer() else None


def _exact(node: Node, index: int, array: Array | None) -> Array | None:
    """The content, or that of a float constant whose elements are integers."""
    value = node.input(index)
    if array is not None or value is None or value.constant is None:
        return array
    constant = value.constant
    if constant.dtype.kind != "f" or constant.size > _MOST or not np.all(np.abs(constant) < 2**31):
        return None
    whole = constant.astype(np.int64)
    return whole.astype(object) if np.array_equal(whole, constant) else None


def is_float(node: Node) -> bool:
    return node.arg(0).dtype.is_float


def quotient(exact: bool) -> Callable[[Dim, Dim], Dim | None]:
    """Division that rounds towards zero, or (`exact`, for float tensors) only one without remainder."""

    def divide(a: Dim, b: Dim) -> Dim | None:
        if isinstance(b, int) and b == 0:
            return None
        found: Dim | None = None
        if isinstance(a, int) and isinstance(b, int):
            found = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        elif nonnegative(a) and nonnegative(b):
            found = floor_div(a, b)
        return None if found is None or (exact and found * b != a) else found

    return divide


def remainder(a: Dim, b: Dim) -> Dim | None:
    """The remainder with the sign of the divisor."""
    return None if isinstance(b, int) and b == 0 else modulo(a, b)


def equal(a: Dim, b: Dim) -> Dim:
    """1 or 0, decided where that is certain."""
    if nonnegative(a - b - 1) or nonnegative(b - a - 1):
        return 0
    return select_eq(a, b, 1, 0)


def greater(a: Dim, b: Dim) -> Dim | None:
    if nonnegative(a - b - 1):
        return 1
    return 0 if nonnegative(b - a) else None


def greater_or_equal(a: Dim, b: Dim) -> Dim | None:
    return None if (less := greater(b, a)) is None else 1 - less


def choose(condition: Dim, a: Dim, b: Dim) -> Dim:
    return select_eq(condition, 0, b, a)


def conjunction(a: Dim, b: Dim) -> Dim:
    return dim_min(a, b)


def disjunction(a: Dim, b: Dim) -> Dim:
    return dim_max(a, b)


def minimum(*dims: Dim) -> Dim:
    out = dims[0]
    for d in dims[1:]:
        out = smaller(out, d)
    return out


def maximum(*dims: Dim) -> Dim:
    out = dims[0]
    for d in dims[1:]:
        out = larger(out, d)
    return out


def power(a: Dim, b: Dim) -> Dim | None:
    """a ** b for a small known exponent."""
    if not isinstance(b, int) or not 0 <= b <= 8:
        return None
    out: Dim = 1
    for _ in range(b):
        out = out * a
    return out
