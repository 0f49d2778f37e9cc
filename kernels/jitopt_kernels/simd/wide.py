"""float64 building blocks of the rarer maths functions: exp, log1p, arctangent, sine and cosine of quarter turns.

The functions built from them (trigonometry, hyperbolic, power) take a float32 Vec, work in float64 and round once at
the end, so they need no compensation and stay within 0.51 ulp; they cost about twice a float32 formula. Relative
errors here are below 1e-10. Polynomials are minimax (Remez exchange). Arguments are float64, of float32's range.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .binding import inlined, spliced
from .elementwise import absolute, bitcast, copysign, select
from .floatbits import polynomial

BIAS, MANTISSA = 1023, 52
ROUNDER = 1.5 * 2.0**MANTISSA  # x + ROUNDER has no fraction bits, and its low bits hold the rounded integer
ROUNDER_BITS = int(np.float64(ROUNDER).view(np.int64))
_SQRT_HALF_BITS = int(np.float64(np.sqrt(0.5)).view(np.int64))
_MANTISSA_BITS = 2**MANTISSA - 1
_LN2, _LOG2_E = 0.6931471805599453, 1.4426950408889634
# Beyond these e**x is 0 or infinite in float32.
_EXP_LOW, _EXP_HIGH = -110.0, 90.0
_STEEP, _FLAT = 2.414213562373095, 0.41421356237309503  # tan(3 pi / 8), tan(pi / 8)
QUARTER, EIGHTH = 1.5707963267948966, 0.7853981633974483  # of a turn, in radians

# (exp(r) - 1 - r) / r**2 on |r| <= ln2 / 2.
_exp_tail = polynomial(
    0.5000000068041239,
    0.16666665864682909,
    0.04166629362973596,
    0.008333497669752636,
    0.0013944758642768795,
    0.0001979024092749181,
)
# (2 artanh(s) - 2 s) / s**3 in s**2, for |s| <= (sqrt(2) - 1) / (sqrt(2) + 1).
_log_tail = polynomial(0.6666666564035096, 0.4000033658356848, 0.2853720700032075, 0.23584298611024393)
# (atan(z) - z) / z**3 in z**2, for |z| <= tan(pi / 8).
_atan_tail = polynomial(
    -0.3333333248999683,
    0.19999903045119205,
    -0.14281981703881294,
    0.11044352649618305,
    -0.08474287767819508,
    0.04739775727393662,
)
# sin(pi/2 f) / f and (cos(pi/2 f) - 1) / f**2 in f**2, for |f| <= 0.57.
_sin_quarter = polynomial(
    1.5707963267680776, -0.6459640934744161, 0.07969252846295082, -0.004680919838609495, 0.0001575233250085993
)
_cos_quarter = polynomial(
    -1.2337005500947011, 0.2536695060905515, -0.020863455088334728, 0.0009191012940856549, -2.4754576167519782e-05
)


@inlined
def exp_wide(x: Any) -> Any:
    """e**x, bounded to the range in which float32 tells results apart."""
    x = select(x < _EXP_LOW, _EXP_LOW, x)
    x = select(x > _EXP_HIGH, _EXP_HIGH, x)
    t = x * _LOG2_E + ROUNDER
    r = x - (t - ROUNDER) * _LN2
    scale = bitcast((bitcast(t, "int64") - (ROUNDER_BITS - BIAS)) << MANTISSA, "float64")
    return (1.0 + (r + r * r * _exp_tail(r))) * scale


@inlined
def log1p_wide(x: Any) -> Any:
    """log(1 + x) for finite 1 + x > 0, accurate near 0."""
    u = 1.0 + x
    bits = bitcast(u, "int64") - _SQRT_HALF_BITS
    exponent = bits >> MANTISSA
    f = select(exponent == 0, x, bitcast((bits & _MANTISSA_BITS) + _SQRT_HALF_BITS, "float64") - 1.0)
    return _log_sum(f, exponent)


@inlined
def log_wide(x: Any) -> Any:
    """log(x) for finite x > 0."""
    bits = bitcast(x, "int64") - _SQRT_HALF_BITS
    return _log_sum(bitcast((bits & _MANTISSA_BITS) + _SQRT_HALF_BITS, "float64") - 1.0, bits >> MANTISSA)


@spliced
def _log_sum(f: Any, exponent: Any) -> Any:
    """log((1 + f) * 2**exponent) by log(1 + f) = 2 artanh(f / (2 + f))."""
    whole = bitcast(exponent + ROUNDER_BITS, "float64") - ROUNDER
    s = f / (2.0 + f)
    square = s * s
    return whole * _LN2 + (2.0 * s + s * square * _log_tail(square))


@inlined
def atan_wide(numerator: Any, denominator: Any) -> Any:
    """atan(numerator / denominator) for a denominator >= 0, the quotient itself never formed.

    Reduced by atan(z) = pi/4 + atan((z - 1) / (z + 1)) and pi/2 - atan(1 / z), with one division.
    """
    size = absolute(numerator)
    steep, middle = size > _STEEP * denominator, size > _FLAT * denominator
    top = select(steep, -denominator, select(middle, size - denominator, size))
    bottom = select(steep, size, select(middle, size + denominator, denominator))
    z = top / bottom
    square = z * z
    base = select(steep, QUARTER, select(middle, EIGHTH, 0.0))
    return copysign(base + (z + z * square * _atan_tail(square)), numerator)


@inlined
def sin_cos_quarter(f: Any) -> Any:
    """(sin, cos) of f quarter turns, |f| <= 0.57."""
    square = f * f
    return f * _sin_quarter(square), 1.0 + square * _cos_quarter(square)
