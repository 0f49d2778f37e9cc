"""log and log1p. At most 2 ulp, right for NaN, infinities, zero and denormals.

x = 2**e * (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)) read from the bits; log(1 + f) = f - f**2 / 2 + f**3 P(f), as
in Cody and Waite's manual, P minimax (Remez exchange) with its coefficients rounded to float32 one by one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .binding import inlined, spliced
from .elementwise import absolute, bitcast, convert, fma, maximum, select
from .exponential import HALF, LN2_HIGH, LN2_LOW, ONE, ZERO
from .floatbits import MANTISSA_BITS, polynomial, power_of_two

_SQRT_HALF_BITS = int(np.float32(np.sqrt(0.5)).view(np.int32))
_MANTISSA = 2**MANTISSA_BITS - 1
_SMALLEST_NORMAL = np.float32(2.0**-126)
_LIFT, _LIFT_EXPONENT = np.float32(2.0**MANTISSA_BITS), np.float32(MANTISSA_BITS)
_GREATEST = np.int32(127)  # beyond it, what rounding loses no longer matters
_INFINITY, _NAN = np.float32(np.inf), np.float32(np.nan)

# (log(1 + f) - f + f**2 / 2) / f**3 on [sqrt(1/2) - 1, sqrt(2) - 1], error 0.1 * 2**-24 of log(1 + f).
_log_tail = polynomial(
    0.3333333134651184,
    -0.2500081956386566,
    0.2000124156475067,
    -0.166234090924263,
    0.14201581478118896,
    -0.1315961331129074,
    0.12762200832366943,
    -0.07636403292417526,
)


@spliced
def _log_sum(f: Any, e: Any) -> Any:
    """log((1 + f) * 2**e) for f in [sqrt(1/2) - 1, sqrt(2) - 1] and e a float32 that holds an integer."""
    square = f * f
    tail = fma(e, LN2_LOW, _log_tail(f) * (f * square))
    return fma(e, LN2_HIGH, fma(-HALF, square, tail) + f)


@spliced
def _log_limits(x: Any, y: Any) -> Any:
    """y where x is positive and finite, else the limits of log(x): -inf at 0, NaN below, x at infinity and NaN."""
    y = select(x < _INFINITY, y, x)
    return select(x == ZERO, -_INFINITY, select(x < ZERO, _NAN, y))


@inlined
def log(x: Any) -> Any:
    """Natural logarithm."""
    tiny = x < _SMALLEST_NORMAL
    bits = bitcast(select(tiny, x * _LIFT, x), "int32") - _SQRT_HALF_BITS
    e = convert(convert(bits >> MANTISSA_BITS, "int32"), "float32") - select(tiny, _LIFT_EXPONENT, ZERO)
    mantissa = bitcast(convert((bits & _MANTISSA) + _SQRT_HALF_BITS, "int32"), "float32")
    return _log_limits(x, _log_sum(mantissa - ONE, e))


@inlined
def log1p(x: Any) -> Any:
    """log(1 + x), accurate near 0: what rounding 1 + x loses is added to the mantissa."""
    u = ONE + x
    lost = select(absolute(x) < ONE, x - (u - ONE), ONE - (u - x))
    bits = bitcast(u, "int32") - _SQRT_HALF_BITS
    k = convert(bits >> MANTISSA_BITS, "int32")
    mantissa = bitcast(convert((bits & _MANTISSA) + _SQRT_HALF_BITS, "int32"), "float32")
    f = fma(lost, power_of_two(maximum(-k, -_GREATEST)), mantissa - ONE)
    return select(x == ZERO, x, _log_limits(u, _log_sum(f, convert(k, "float32"))))
