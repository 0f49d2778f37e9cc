"""What the maths functions are built from: polynomials and the exponent field of a float.

`polynomial` makes a function of its coefficients that compiled code emits as chains of fmuladd, so a formula's compile
time does not grow with the degree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils

from .binding import device
from .elementwise import bitcast
from .emit import INT1, INT32, INT64, call, common, constant, lanes_of, splat
from .registers import vector

DOUBLE = ir.DoubleType()
_TWO_CHAINS = 6
EXPONENT_BIAS, MANTISSA_BITS = 127, 23
# x + ROUNDER has no fraction bits left, and its low bits hold the rounded integer, for |x| < 2**22.
ROUNDER = np.float32(1.5 * 2**MANTISSA_BITS)
_ROUNDER_BITS = int(ROUNDER.view(np.int32))


def polynomial(*coefficients: float) -> Callable[[Any], Any]:
    """A function x -> c0 + c1 x + c2 x**2 + ... in the dtype of x, by Horner's rule.

    From six coefficients on, even and odd powers are two chains in x**2: one multiplication more, half the latency
    (an erf over an array is 15 % faster for it).
    """
    chains = [coefficients[::2], coefficients[1::2]] if len(coefficients) >= _TWO_CHAINS else [coefficients]

    def evaluate(x: Any) -> Any:
        at = x * x if len(chains) == 2 else x
        first, *second = (_horner(lambda c: x.dtype.type(c), lambda a, b, c: a * b + c, chain, at) for chain in chains)
        return second[0] * x + first if second else first

    @device(evaluate)
    def _define(context: Any, x: Any) -> Any:
        if common((x,), "f") is None:
            return None

        def lower(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            x = args[0]

            def fma(a: Any, b: Any, c: Any) -> Any:
                return call(builder, "fmuladd", x.type, a, b, c)

            at = builder.fmul(x, x) if len(chains) == 2 else x
            first, *second = (_horner(lambda c: constant(x.type, c), fma, chain, at) for chain in chains)
            return fma(second[0], x, first) if second else first

        return x(x), lower

    return evaluate


def _horner(literal: Callable[[float], Any], fma: Callable[..., Any], coefficients: Sequence[float], x: Any) -> Any:
    """c0 + x (c1 + x (c2 + ...)) with the given constants and multiply-adds."""
    total = literal(coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        total = fma(total, x, literal(coefficient))
    return total


def lookup(*values: float) -> Callable[[Any], Any]:
    """A function index -> float64 of a constant table that lies in the object; the int32 index must be in range."""
    table = np.array(values, np.float64)

    def find(index: Any) -> Any:
        return table[index]

    @device(find)
    def _define(context: Any, index: Any) -> Any:
        if common((index,), "i") is None:
            return None
        lanes = lanes_of(index)
        result = types.float64 if lanes is None else vector("float64", lanes)

        def lower(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            data = ir.Constant(ir.ArrayType(DOUBLE, len(values)), [ir.Constant(DOUBLE, value) for value in values])
            held = cgutils.global_constant(builder, "table", data)
            if lanes is None:
                return builder.load(builder.gep(held, [INT32(0), args[0]]))
            base = splat(builder, builder.ptrtoint(held, INT64), lanes)
            offsets = builder.shl(builder.zext(args[0], base.type), constant(base.type, 3))
            pointers = ir.VectorType(DOUBLE.as_pointer(), lanes)
            where, vec = builder.inttoptr(builder.add(base, offsets), pointers), ir.VectorType(DOUBLE, lanes)
            everywhere = constant(ir.VectorType(INT1, lanes), 1)
            masked = (where, INT32(table.itemsize), everywhere, constant(vec, 0))
            return call(builder, "masked.gather", vec, *masked, over=(vec, pointers))

        return result(types.int32 if lanes is None else index), lower

    return find


def rounded_integer(t: Any) -> Any:
    """The int32 n of a float32 t = n + ROUNDER; arbitrary for NaN."""
    return bitcast(t, "int32") - np.int32(_ROUNDER_BITS)


def power_of_two(k: Any) -> Any:
    """2.0**k as float32 for int32 -127 < k < 128; 0 for k = -127, infinity for k = 128."""
    return bitcast((k + np.int32(EXPONENT_BIAS)) << np.int32(MANTISSA_BITS), "float32")


@device(rounded_integer)
def _rounded_integer(context: Any, t: Any) -> Any:
    if common((t,), "f") is None:
        return None
    lanes = lanes_of(t)
    result = types.int32 if lanes is None else vector("int32", lanes)

    def lower(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        bits = builder.bitcast(args[0], context.get_value_type(result))
        return builder.sub(bits, constant(bits.type, _ROUNDER_BITS))

    return result(t), lower


@device(power_of_two)
def _power_of_two(context: Any, k: Any) -> Any:
    if common((k,), "i") is None:
        return None
    lanes = lanes_of(k)
    result = types.float32 if lanes is None else vector("float32", lanes)
    argument = types.int32 if lanes is None else vector("int32", lanes)

    def lower(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        biased = builder.add(args[0], constant(args[0].type, EXPONENT_BIAS))
        bits = builder.shl(biased, constant(biased.type, MANTISSA_BITS))
        return builder.bitcast(bits, context.get_value_type(result))

    return result(argument), lower
