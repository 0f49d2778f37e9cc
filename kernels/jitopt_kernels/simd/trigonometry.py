"""sin, cos, tan and their inverses on float32, right for every argument however large.

The reduction is Payne and Hanek's (Radian reduction for trigonometric functions, 1983) in float64: x is m * 2**k with
m of 24 bits, and a table holds 2**k * 2/pi modulo 4 in three parts, so short that the leading product is exact.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .binding import inlined
from .elementwise import absolute, bitcast, convert, copysign, maximum, minimum, select, sqrt
from .floatbits import MANTISSA_BITS, lookup
from .wide import BIAS, MANTISSA, QUARTER, ROUNDER, atan_wide, sin_cos_quarter

_FRACTION_BITS = 256
_TWO_OVER_PI = 0xA2F9836E4E441529FC2757D1F534DDC0DB6295993C439041FE5163ABDEBBC561  # times 2**256
_UNSHIFTED = 150  # the exponent field of the largest floats whose last bit is 1: larger ones are m * 2**k with k > 0
_LARGEST_SHIFT = 104  # float32's largest exponent field less that
_HIGH_BITS, _MIDDLE_BITS = 27, 56
_INFINITY, _QUARTER = np.float32(np.inf), np.float32(QUARTER)


def _parts(shift: int) -> tuple[float, float, float]:
    """2**shift * 2/pi modulo 4 as a sum of multiples of 2**-27 and 2**-56 and a rest."""
    one = 1 << _FRACTION_BITS
    value = (_TWO_OVER_PI << shift) % (4 * one)
    value -= 4 * one if value > 2 * one else 0
    parts = []
    for bits in (_HIGH_BITS, _MIDDLE_BITS):
        unit = one >> bits
        part = (value + unit // 2) // unit
        value -= part * unit
        parts.append(part / 2.0**bits)
    return parts[0], parts[1], value / one


_high, _middle, _low = (lookup(*column) for column in zip(*map(_parts, range(_LARGEST_SHIFT + 1)), strict=True))


@inlined
def _quarter_turns(x: Any) -> Any:
    """(n, f): x is n + f quarter turns, n an int64 right modulo 4 and |f| <= 0.57; NaN for infinities."""
    exponent = convert((bitcast(x, "int32") >> MANTISSA_BITS) & 255, "int32")
    index = convert(minimum(maximum(exponent, _UNSHIFTED) - _UNSHIFTED, _LARGEST_SHIFT), "int32")
    power = bitcast((BIAS - convert(index, "int64")) << MANTISSA, "float64")
    m = convert(x, "float64") * power
    product = m * _high(index)
    t = product + ROUNDER
    f = (product - (t - ROUNDER)) + m * _middle(index) + m * _low(index)
    return bitcast(t, "int64"), f


@inlined
def sin(x: Any) -> Any:
    """Sine."""
    n, f = _quarter_turns(x)
    s, c = sin_cos_quarter(f)
    y = select((n & 1) == 0, s, c)
    return select(x == 0, x, convert(select((n & 2) == 0, y, -y), "float32"))


@inlined
def cos(x: Any) -> Any:
    """Cosine."""
    n, f = _quarter_turns(x)
    s, c = sin_cos_quarter(f)
    y = select((n & 1) == 0, c, s)
    return convert(select(((n + 1) & 2) == 0, y, -y), "float32")


@inlined
def tan(x: Any) -> Any:
    """Tangent."""
    n, f = _quarter_turns(x)
    s, c = sin_cos_quarter(f)
    even = (n & 1) == 0
    return select(x == 0, x, convert(select(even, s, -c) / select(even, c, s), "float32"))


@inlined
def atan(x: Any) -> Any:
    """Arc tangent."""
    infinite = absolute(x) == _INFINITY
    y = convert(atan_wide(convert(x, "float64"), 1.0), "float32")
    return select(infinite, copysign(_QUARTER, x), y)


@inlined
def asin(x: Any) -> Any:
    """Arc sine, NaN outside [-1, 1]."""
    wide = convert(x, "float64")
    return convert(atan_wide(wide, sqrt((1.0 - wide) * (1.0 + wide))), "float32")


@inlined
def acos(x: Any) -> Any:
    """Arc cosine, NaN outside [-1, 1]."""
    wide = convert(x, "float64")
    return convert(QUARTER - atan_wide(wide, sqrt((1.0 - wide) * (1.0 + wide))), "float32")
