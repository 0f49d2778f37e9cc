"""exp and what is made of it: expm1, sigmoid, tanh. At most 2 ulp, right for NaN, infinities and denormals.

Reduction after Cody and Waite (Software Manual for the Elementary Functions, 1980): x = n ln2 + r, with ln2 split so
that n times its high part is exact without a fused multiply; then a polynomial on |r| <= ln2 / 2. The polynomials are
minimax (Remez exchange), their coefficients rounded to float32 one by one with the rest refitted.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .binding import inlined, spliced
from .elementwise import absolute, copysign, fma, select
from .floatbits import ROUNDER, polynomial, power_of_two, rounded_integer

ZERO, HALF, ONE, TWO = (np.float32(value) for value in (0, 0.5, 1, 2))
LOG2_E = np.float32(1.4426950408889634)
LN2_HIGH = np.float32(0.693359375)  # nine bits
LN2_LOW = np.float32(-2.1219444005469058e-4)
# exp(x) is 0 below the first, after rounding, and infinite above the second.
_EXP_LOW, _EXP_HIGH = np.float32(-104.0), np.float32(89.0)
# Where expm1 is x itself, and where it is -1 after rounding.
_EXPM1_TINY, _EXPM1_LOW = np.float32(1e-8), np.float32(-18.0)
_LOGISTIC_LOW = np.float32(-88.0)  # below it e**t is 0 next to 1, and its power of two still representable
_TANH_SMALL, _TANH_ONE = np.float32(0.625), np.float32(10.0)

# (exp(r) - 1 - r) / r**2 on |r| <= ln2 / 2, error 0.06 * 2**-24 of exp(r).
_exp_tail = polynomial(
    0.4999999403953552, 0.16666509211063385, 0.041668009012937546, 0.0083699906244874, 0.0013847063528373837
)
# (tanh(x) - x) / x**3 in x**2 for |x| <= 0.625, error 0.08 * 2**-24 of tanh(x).
_tanh_tail = polynomial(
    -0.3333328068256378, 0.13331405818462372, -0.05373651534318924, 0.02062816731631756, -0.005692296661436558
)


@spliced
def exp_reduced(x: Any) -> Any:
    """(y, k) with exp(x) = y * 2**k, 0.7 < y < 1.42 and k an int32, for |x| < 2**21."""
    t = fma(x, LOG2_E, ROUNDER)
    n = t - ROUNDER
    high, low = fma(n, -LN2_HIGH, x), n * -LN2_LOW  # high is exact; high + low is not, so it only feeds the polynomial
    r = high + low
    return (high + fma(_exp_tail(r), r * r, low)) + ONE, rounded_integer(t)


@inlined
def exp(x: Any) -> Any:
    """e**x. The power of two is applied in halves, so that denormal results round once."""
    bounded = select(x < _EXP_LOW, _EXP_LOW, x)
    y, k = exp_reduced(select(bounded > _EXP_HIGH, _EXP_HIGH, bounded))
    half = k >> 1
    return y * power_of_two(half) * power_of_two(k - half)


@inlined
def expm1(x: Any) -> Any:
    """e**x - 1, accurate near 0."""
    bounded = select(x < _EXPM1_LOW, _EXPM1_LOW, x)
    bounded = select(bounded > _EXP_HIGH, _EXP_HIGH, bounded)
    t = fma(bounded, LOG2_E, ROUNDER)
    n = t - ROUNDER
    high, low = fma(n, -LN2_HIGH, bounded), n * -LN2_LOW
    r = high + low
    scale = power_of_two(rounded_integer(t) - 1)  # halved, so that it stays finite
    whole = fma(scale, high, scale - HALF)
    y = TWO * fma(scale, fma(_exp_tail(r), r * r, low), whole)
    return select(absolute(x) < _EXPM1_TINY, x, y)


@inlined
def sigmoid(x: Any) -> Any:
    """1 / (1 + e**-x), without overflow and with denormal results where they are due.

    With e = exp(-|x|) and q = e / (1 + e) it is 1 - q above 0 and e - e q below, which rounds better than a quotient.
    """
    e = exp(-absolute(x))
    whole = select(x < ZERO, e, ONE)
    return fma(-whole, e / (ONE + e), whole)


@inlined
def over_one_plus_exp(x: Any, t: Any) -> Any:
    """x / (1 + e**t): x sigmoid(-t) at the price of one exp without denormals and one division.

    Errs by 2 ulp where e**t is finite; beyond, for t > 88.4, it is 0 with the sign of x.
    """
    bounded = select(t < _LOGISTIC_LOW, _LOGISTIC_LOW, t)
    y, k = exp_reduced(select(bounded > _EXP_HIGH, _EXP_HIGH, bounded))
    return x / fma(y, power_of_two(k), ONE)


@inlined
def tanh(x: Any) -> Any:
    """Hyperbolic tangent: a polynomial below 0.625, 1 - 2 / (e**2|x| + 1) above."""
    size = absolute(x)
    square = x * x
    small = fma(_tanh_tail(square) * square, size, size)
    y, k = exp_reduced(TWO * select(size > _TANH_ONE, _TANH_ONE, size))
    large = ONE - TWO / (y * power_of_two(k) + ONE)
    return copysign(select(size < _TANH_SMALL, small, large), x)


@inlined
def reciprocal(x: Any) -> Any:
    """1 / x, correctly rounded."""
    return ONE / x
