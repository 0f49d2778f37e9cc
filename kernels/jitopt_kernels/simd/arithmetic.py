"""Operators on Vec, Mask and scalars: + - * / // %, comparisons, & | ^ ~, << >>, unary minus.

A scalar may stand on either side and takes the Vec's dtype; a float beside an integer Vec is refused. Integer
arithmetic wraps. `//` and `%` are for integers, floor as in Python, and give 0 where the divisor is 0, as NumPy does;
`quotient` truncates toward zero instead. No operation on integers can trap. Shift counts outside the width give what
shifting one bit at a time would. Python bodies are the operators of NumPy's arrays themselves.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types

from .binding import device
from .emit import call, common, constant, element, formal, lanes_of, spread
from .registers import Mask, Vec

Emit = Callable[[ir.IRBuilder, str, Any, Any], ir.Value]


def quotient(a: Any, b: Any) -> Any:
    """Integer a / b rounded toward zero; a where b is 0 (the divisor becomes 1); the lowest integer over -1 wraps."""
    a, b = np.broadcast_arrays(a, b)
    safe = np.where(b == 0, 1, b)
    with np.errstate(over="ignore"):
        floor = a // safe
        inexact = (floor * safe != a) & (floor < 0)
        return (floor + inexact).astype(a.dtype)[()]


def remainder(a: Any, b: Any) -> Any:
    """Integer a - b * quotient(a, b): the sign of a; 0 where b is 0."""
    a, b = np.broadcast_arrays(a, b)
    with np.errstate(over="ignore"):
        return np.where(b == 0, 0, a - b * quotient(a, b)).astype(a.dtype)[()]


def divide(a: Any, b: Any) -> Any:
    """a / b of floats, `quotient` of integers."""
    return a / b if np.asarray(a).dtype.kind == "f" or np.asarray(b).dtype.kind == "f" else quotient(a, b)


def _binary(function: Any, kinds: str, emit: Emit) -> None:
    """Give `function` the meaning `emit(builder, kind, x, y)` on two operands of one type, at least one a Vec.

    `quotient` and `remainder`, which no scalar has built in, take two scalars as well.
    """
    builtin = getattr(operator, function.__name__, None) is function

    def define(context: Any, x: Any, y: Any) -> Any:
        result = common((x, y), kinds)
        if result is None or (builtin and not isinstance(result, Vec)):
            return None

        def lower(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return emit(builder, element(result).kind, *spread(builder, result, args))

        return result(*formal(result, (x, y))), lower

    device(function)(define)
    if builtin:
        device(getattr(operator, f"i{function.__name__.rstrip('_')}"))(
            define
        )  # registers are values: x += y is x = x + y


def _by_kind(float_: str, integer: str) -> Emit:
    return lambda builder, kind, x, y: getattr(builder, float_ if kind == "f" else integer)(x, y)


def _safe_division(builder: Any, kind: str, x: Any, y: Any) -> tuple[Any, Any]:
    """(truncated quotient, remainder) with 1 in place of a divisor 0, so that nothing traps."""
    zero, one = constant(y.type, 0), constant(y.type, 1)
    safe = builder.select(builder.icmp_unsigned("==", y, zero), one, y)
    if kind == "u":
        q = builder.udiv(x, safe)
    else:
        by_minus_one = builder.icmp_unsigned("==", y, constant(y.type, -1))
        q = builder.sdiv(x, builder.select(by_minus_one, one, safe))
        q = builder.select(by_minus_one, builder.neg(x), q)
    return q, builder.sub(x, builder.mul(q, safe))


def _quotient(builder: Any, kind: str, x: Any, y: Any) -> Any:
    return _safe_division(builder, kind, x, y)[0]


def _remainder(builder: Any, kind: str, x: Any, y: Any) -> Any:
    return _safe_division(builder, kind, x, y)[1]


def _rounded_down(builder: Any, kind: str, r: Any, y: Any) -> Any:
    """Where the floor differs from the truncation: a remainder whose sign is not the divisor's."""
    zero = constant(y.type, 0)
    negative = builder.icmp_signed("<", builder.xor(r, y), zero)
    return builder.and_(builder.icmp_unsigned("!=", r, zero), negative)


def _floordiv(builder: Any, kind: str, x: Any, y: Any) -> Any:
    q, r = _safe_division(builder, kind, x, y)
    zero = constant(y.type, 0)
    if kind != "u":
        q = builder.select(_rounded_down(builder, kind, r, y), builder.sub(q, constant(y.type, 1)), q)
    return builder.select(builder.icmp_unsigned("==", y, zero), zero, q)


def _modulo(builder: Any, kind: str, x: Any, y: Any) -> Any:
    _, r = _safe_division(builder, kind, x, y)
    return r if kind == "u" else builder.select(_rounded_down(builder, kind, r, y), builder.add(r, y), r)


def _shift(left: bool) -> Emit:
    def emit(builder: Any, kind: str, x: Any, y: Any) -> Any:
        bits = (x.type.element if isinstance(x.type, ir.VectorType) else x.type).width
        outside = builder.icmp_unsigned(">=", y, constant(y.type, bits))
        signed = kind == "i" and not left
        count = builder.select(outside, constant(y.type, bits - 1), y)
        shifted = (builder.shl if left else builder.ashr if signed else builder.lshr)(x, count)
        return shifted if signed else builder.select(outside, constant(x.type, 0), shifted)

    return emit


_binary(operator.add, "fiu", _by_kind("fadd", "add"))
_binary(operator.sub, "fiu", _by_kind("fsub", "sub"))
_binary(operator.mul, "fiu", _by_kind("fmul", "mul"))
_binary(operator.truediv, "f", lambda builder, kind, x, y: builder.fdiv(x, y))
_binary(operator.floordiv, "iu", _floordiv)
_binary(operator.mod, "iu", _modulo)
_binary(
    divide, "fiu", lambda builder, kind, x, y: builder.fdiv(x, y) if kind == "f" else _quotient(builder, kind, x, y)
)
_binary(quotient, "iu", _quotient)
_binary(remainder, "iu", _remainder)
_binary(operator.and_, "iub", lambda builder, kind, x, y: builder.and_(x, y))
_binary(operator.or_, "iub", lambda builder, kind, x, y: builder.or_(x, y))
_binary(operator.xor, "iub", lambda builder, kind, x, y: builder.xor(x, y))
_binary(operator.lshift, "iu", _shift(left=True))
_binary(operator.rshift, "iu", _shift(left=False))


def _compare(function: Any, sign: str) -> None:
    """A comparison: false where an operand is NaN, except that != is true there."""

    @device(function)
    def _define(context: Any, x: Any, y: Any) -> Any:
        kinds = "fiub" if sign in ("==", "!=") else "fiu"
        operands = common((x, y), kinds)
        if not isinstance(operands, Vec):
            return None

        def lower(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            kind, (a, b) = operands.element.kind, spread(builder, operands, args)
            if kind == "f":
                return builder.fcmp_unordered(sign, a, b) if sign == "!=" else builder.fcmp_ordered(sign, a, b)
            return builder.icmp_signed(sign, a, b) if kind == "i" else builder.icmp_unsigned(sign, a, b)

        return Mask(operands.lanes)(*formal(operands, (x, y))), lower


for _function, _sign in (
    (operator.lt, "<"),
    (operator.le, "<="),
    (operator.gt, ">"),
    (operator.ge, ">="),
    (operator.eq, "=="),
    (operator.ne, "!="),
):
    _compare(_function, _sign)


@device(operator.neg)
def _negative(context: Any, x: Any) -> Any:
    if not isinstance(x, Vec) or x.element.kind == "b":
        return None

    def lower(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.fneg(args[0]) if x.element.kind == "f" else builder.neg(args[0])

    return x(x), lower


@device(operator.invert)
def _invert(context: Any, x: Any) -> Any:
    if not isinstance(x, Vec) or x.element.kind == "f":
        return None
    return x(x), lambda context, builder, signature, args: builder.not_(args[0])


def isnan(x: Any) -> Any:
    """Lanes that are not a number."""
    return np.isnan(x)


def isinf(x: Any) -> Any:
    """Lanes that are an infinity of either sign."""
    return np.isinf(x)


def _classify(function: Any, emit: Callable[[Any, Any], Any]) -> None:
    @device(function)
    def _define(context: Any, x: Any) -> Any:
        if common((x,), "f") is None:
            return None
        lanes = lanes_of(x)
        result = types.boolean if lanes is None else Mask(lanes)
        return result(x), lambda context, builder, signature, args: emit(builder, args[0])


_classify(isnan, lambda builder, x: builder.fcmp_unordered("uno", x, x))
_classify(
    isinf, lambda builder, x: builder.fcmp_ordered("==", call(builder, "fabs", x.type, x), constant(x.type, np.inf))
)
