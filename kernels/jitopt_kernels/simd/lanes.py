"""Functions across lanes: filling, numbering, masks of tails, and reductions of one register.

Reductions add the upper half of the lanes onto the lower half until one is left, whatever the target, so a sum does
not depend on how LLVM would order it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types

from .binding import device, dtype_literal, literals
from .dtypes import numpy_dtype
from .elementwise import extremum, maximum, minimum
from .emit import INT1, INT32, INT64, call, common
from .emit import splat as splat_value
from .registers import Mask, Vec, vector


def splat(x: Any, dtype: str, lanes: int) -> Any:
    """`x` in every lane of a new register."""
    return np.full(lanes, x, numpy_dtype(dtype))


def iota(dtype: str, lanes: int) -> Any:
    """0, 1, 2, ... by lane."""
    return np.arange(lanes).astype(numpy_dtype(dtype))


def tail_mask(count: int, lanes: int) -> Any:
    """The first min(count, lanes) lanes; none for count <= 0."""
    return np.arange(lanes) < count


def any_lane(mask: Any) -> bool:
    """Whether some lane is set; a scalar is itself."""
    return bool(np.any(mask))


def all_lanes(mask: Any) -> bool:
    """Whether every lane is set; a scalar is itself."""
    return bool(np.all(mask))


def _tree(combine: Callable[[Any, Any], Any], x: Any) -> Any:
    while len(x) > 1:
        half = len(x) // 2
        x = combine(x[:half], x[half:])
    return x[0]


def hsum(x: Any) -> Any:
    """The sum of all lanes as a scalar; lanes must be a power of two."""
    return _tree(np.add, x)


def hprod(x: Any) -> Any:
    """The product of all lanes as a scalar."""
    return _tree(np.multiply, x)


def hmax(x: Any) -> Any:
    """The largest lane as a scalar; NaN where one is NaN."""
    return _tree(maximum, x)


def hmin(x: Any) -> Any:
    """The smallest lane as a scalar; NaN where one is NaN."""
    return _tree(minimum, x)


@device(splat)
def _splat(context: Any, x: Any, dtype: Any, lanes: Any) -> Any:
    result = vector(dtype_literal(dtype), *literals(lanes))
    if common((result, x)) is None:
        return None

    def lower(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return splat_value(builder, args[0], result.lanes)

    return result(result.element.scalar, dtype, lanes), lower


@device(iota)
def _iota(context: Any, dtype: Any, lanes: Any) -> Any:
    result = vector(dtype_literal(dtype), *literals(lanes))
    constants = ir.Constant(result.llvm(), [ir.Constant(result.element.element, i) for i in range(result.lanes)])
    return result(dtype, lanes), lambda context, builder, signature, args: constants


@device(tail_mask)
def _tail_mask(context: Any, count: Any, lanes: Any) -> Any:
    result = Mask(*literals(lanes))

    def lower(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        numbers = ir.Constant(ir.VectorType(INT32, result.lanes), list(range(result.lanes)))
        most = call(builder, "smin", INT64, args[0], INT64(result.lanes))
        clamped = builder.trunc(call(builder, "smax", INT64, most, INT64(0)), INT32)
        return builder.icmp_signed("<", numbers, splat_value(builder, clamped, result.lanes))

    return result(types.int64, lanes), lower


def _vote(function: Any, name: str) -> None:
    @device(function)
    def _define(context: Any, mask: Any) -> Any:
        if mask == types.boolean:
            return mask(mask), lambda context, builder, signature, args: args[0]
        if not isinstance(mask, Mask):
            return None
        return types.boolean(mask), lambda context, builder, signature, args: call(builder, name, INT1, args[0])


_vote(any_lane, "vector.reduce.or")
_vote(all_lanes, "vector.reduce.and")


def _slice(builder: Any, value: Any, start: int, lanes: int) -> Any:
    """Lanes start .. start + lanes of a register as a shorter one."""
    chosen = ir.Constant(ir.VectorType(INT32, lanes), list(range(start, start + lanes)))
    return builder.shuffle_vector(value, value, chosen)


def _reduction(function: Any, combine: Callable[[Any, str, Any, Any], Any]) -> None:
    @device(function)
    def _define(context: Any, x: Any) -> Any:
        if not isinstance(x, Vec) or isinstance(x, Mask) or x.lanes & (x.lanes - 1):
            return None

        def lower(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            value, lanes = args[0], x.lanes
            while lanes > 1:
                lanes //= 2
                low, high = (_slice(builder, value, start, lanes) for start in (0, lanes))
                value = combine(builder, x.element.kind, low, high)
            return builder.extract_element(value, INT32(0))

        return x.element.scalar(x), lower


_reduction(hsum, lambda builder, kind, a, b: builder.fadd(a, b) if kind == "f" else builder.add(a, b))
_reduction(hprod, lambda builder, kind, a, b: builder.fmul(a, b) if kind == "f" else builder.mul(a, b))
_reduction(hmax, extremum(">"))
_reduction(hmin, extremum("<"))
