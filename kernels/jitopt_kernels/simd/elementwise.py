"""Elementwise functions that have an instruction: select, min and max, rounding, sqrt, fma, conversions.

Each works on a Vec and on a scalar of the same dtype. NaN propagates through minimum and maximum, as NumPy's and
ONNX's do (the x86 instructions and llvm.maxnum would drop it).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types

from .binding import device, dtype_literal
from .dtypes import DTYPES, DType, numpy_dtype
from .emit import call, common, constant, element, formal, lanes_of, mismatch, operand, spread, with_lanes
from .registers import Mask, Vec, vector


def select(mask: Any, a: Any, b: Any) -> Any:
    """Lane by lane `a` where the mask is set, else `b`. A literal takes the other's dtype."""
    return np.where(mask, a, b)[()]


def like(x: Any, value: Any) -> Any:
    """`value` in every lane, with the dtype and lanes of `x`."""
    return np.full_like(x, value)[()]


def minimum(a: Any, b: Any) -> Any:
    """The smaller operand; NaN where either is NaN; of -0 and 0 either."""
    return np.minimum(a, b)


def maximum(a: Any, b: Any) -> Any:
    """The larger operand; NaN where either is NaN; of -0 and 0 either."""
    return np.maximum(a, b)


def absolute(x: Any) -> Any:
    """|x|; the lowest integer stays itself."""
    return np.absolute(x)


def floor(x: Any) -> Any:
    """The largest whole number not above x."""
    return np.floor(x)


def ceil(x: Any) -> Any:
    """The smallest whole number not below x."""
    return np.ceil(x)


def trunc(x: Any) -> Any:
    """x without its fraction."""
    return np.trunc(x)


def rint(x: Any) -> Any:
    """The nearest whole number, the even one of two."""
    return np.rint(x)


def sqrt(x: Any) -> Any:
    """The correctly rounded square root; NaN below 0."""
    return np.sqrt(x)


def copysign(x: Any, sign: Any) -> Any:
    """|x| with the sign bit of `sign`."""
    return np.copysign(x, sign)


def fma(a: Any, b: Any, c: Any) -> Any:
    """a * b + c, in one operation where the target has it and in two where it has not (llvm.fmuladd)."""
    return a * b + c


def convert(x: Any, dtype: str) -> Any:
    """x as another dtype. Float to integer truncates, saturates and turns NaN to 0; integers wrap; to bool is != 0."""
    x = np.asarray(x)
    to = numpy_dtype(dtype)
    if to.kind not in "iu" or x.dtype.kind != "f":
        with np.errstate(over="ignore", invalid="ignore"):
            return (x != 0 if to.kind == "b" else x.astype(to))[()]
    low, high = np.iinfo(to).min, np.iinfo(to).max
    with np.errstate(invalid="ignore"):
        inside = np.where((x >= float(low)) & (x < float(high)), x, 0).astype(to)
    return np.where(x >= float(high), to.type(high), np.where(x < float(low), to.type(low), inside))[()]


def convert_like(x: Any, other: Any) -> Any:
    """x as the dtype of `other`, by the rules of `convert`."""
    return convert(x, np.asarray(other).dtype.name)


def bitcast(x: Any, dtype: str) -> Any:
    """The bits of x read as another dtype of the same size."""
    return np.asarray(x).view(numpy_dtype(dtype))[()]


@device(select)
def _select(context: Any, mask: Any, a: Any, b: Any) -> Any:
    result = common((a, b))
    if result is None:
        raise mismatch("select", (mask, a, b))
    if isinstance(mask, Mask) and not isinstance(result, Vec):
        result = vector(element(result).name, mask.lanes)
    condition = Mask(result.lanes) if isinstance(mask, Mask) else types.boolean
    if condition != types.unliteral(mask):
        raise mismatch("select", (mask, a, b))

    def lower(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.select(args[0], *spread(builder, result, args[1:]))

    return result(condition, *formal(result, (a, b))), lower


@device(like)
def _like(context: Any, x: Any, value: Any) -> Any:
    result = common((x, value))
    if result is None or result != types.unliteral(x):
        raise mismatch("like", (x, value))

    def lower(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return spread(builder, result, args)[1]

    return result(*formal(result, (x, value))), lower


Emit = Callable[..., ir.Value]


def _elementwise(function: Any, kinds: str, arity: int, emit: Emit) -> None:
    """Give `function` the meaning `emit(builder, kind, *registers)` on `arity` operands of one type."""

    def define(context: Any, *operands: Any) -> Any:
        result = common(operands, kinds)
        if result is None:
            raise mismatch(function.__name__, operands)

        def lower(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return emit(builder, element(result).kind, *spread(builder, result, args))

        return result(*formal(result, operands)), lower

    # Numba reads the definition's signature, so the arity has to stand in it.
    unary, binary, ternary = (
        lambda context, a: define(context, a),
        lambda context, a, b: define(context, a, b),
        lambda context, a, b, c: define(context, a, b, c),
    )
    device(function)((unary, binary, ternary)[arity - 1])


def _intrinsic(name: str) -> Emit:
    return lambda builder, kind, *xs: call(builder, name, xs[0].type, *xs)


def extremum(sign: str) -> Emit:
    def emit(builder: Any, kind: str, a: Any, b: Any) -> Any:
        if kind != "f":
            compare = builder.icmp_signed if kind == "i" else builder.icmp_unsigned
            return builder.select(compare(sign, a, b), a, b)
        chosen = builder.select(builder.fcmp_ordered(sign, a, b), a, b)  # one minps or maxps: b where one is NaN
        return builder.select(builder.fcmp_unordered("uno", a, a), a, chosen)

    return emit


def _absolute(builder: Any, kind: str, x: Any) -> Any:
    if kind == "f":
        return call(builder, "fabs", x.type, x)
    if kind == "u":
        return x
    return builder.select(builder.icmp_signed("<", x, constant(x.type, 0)), builder.neg(x), x)


_elementwise(minimum, "fiu", 2, extremum("<"))
_elementwise(maximum, "fiu", 2, extremum(">"))
_elementwise(absolute, "fiu", 1, _absolute)
_elementwise(floor, "f", 1, _intrinsic("floor"))
_elementwise(ceil, "f", 1, _intrinsic("ceil"))
_elementwise(trunc, "f", 1, _intrinsic("trunc"))
_elementwise(rint, "f", 1, _intrinsic("roundeven"))
_elementwise(sqrt, "f", 1, _intrinsic("sqrt"))
_elementwise(copysign, "f", 2, _intrinsic("copysign"))
_elementwise(fma, "f", 3, _intrinsic("fmuladd"))


def _convert_value(builder: Any, x: Any, source: Any, target: Any, lanes: int | None) -> Any:
    to = with_lanes(target.element, lanes)
    kinds = source.kind + target.kind
    if source == target:
        return x
    if target.kind == "b":
        zero = constant(x.type, 0)
        return builder.fcmp_unordered("!=", x, zero) if source.kind == "f" else builder.icmp_unsigned("!=", x, zero)
    if kinds in ("fi", "fu"):
        return call(builder, "fptosi.sat" if target.kind == "i" else "fptoui.sat", to, x, over=(to, x.type))
    if kinds == "ff":
        return builder.fpext(x, to) if target.size > source.size else builder.fptrunc(x, to)
    if target.kind == "f":
        return builder.sitofp(x, to) if source.kind == "i" else builder.uitofp(x, to)
    if source.kind == "b" or (source.kind == "u" and target.size > source.size):
        return builder.zext(x, to)
    if target.size > source.size:
        return builder.sext(x, to)
    return builder.trunc(x, to) if target.size < source.size else x


def _convert_to(x: Any, target: DType, how: Any) -> Any:
    source, lanes = element(x), lanes_of(x)
    result = target.scalar if lanes is None else vector(target.name, lanes)

    def lower(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _convert_value(builder, args[0], source, target, lanes)

    return result(types.unliteral(x), how), lower


@device(convert)
def _convert(context: Any, x: Any, dtype: Any) -> Any:
    return _convert_to(x, DTYPES[dtype_literal(dtype)], dtype) if operand(x) else None


@device(convert_like)
def _convert_like(context: Any, x: Any, other: Any) -> Any:
    return _convert_to(x, element(other), other) if operand(x) and operand(other) else None


@device(bitcast)
def _bitcast(context: Any, x: Any, dtype: Any) -> Any:
    target, lanes = DTYPES[dtype_literal(dtype)], lanes_of(x)
    if not operand(x) or element(x).kind == "b" or target.kind == "b" or element(x).size != target.size:
        return None
    result = target.scalar if lanes is None else vector(target.name, lanes)

    def lower(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], with_lanes(target.element, lanes))

    return result(types.unliteral(x), dtype), lower
