"""erf, at most 2 ulp (1.96 over every float32 where multiply-adds are not fused), without exp or a division.

An odd polynomial below 1.1, a polynomial of degree 12 about the middle of [1.1, 3.92] above it; beyond 3.92 the
result rounds to 1. Both are minimax (Remez exchange), coefficients rounded to float32 one by one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .binding import inlined
from .elementwise import absolute, copysign, fma, select
from .floatbits import polynomial

_ONE, _SMALL, _MIDDLE, _ONE_FROM = (np.float32(value) for value in (1, 1.1, 2.51, 3.92))

# erf(x) / x - 1 in x**2 for |x| <= 1.1, error 0.08 * 2**-24 of erf(x).
_erf_small = polynomial(
    0.12837916612625122,
    -0.37612611055374146,
    0.11283364146947861,
    -0.026843518018722534,
    0.005167731083929539,
    -0.0007824738859198987,
    7.236063538584858e-05,
)
# erf(2.51 + t) for 1.1 <= 2.51 + t <= 3.92, error 0.46 * 2**-24.
_erf_large = polynomial(
    0.9996142983436584,
    0.0020716707222163677,
    -0.005200921557843685,
    0.008014188148081303,
    -0.0083154970780015,
    0.005936767440289259,
    -0.0027752781752496958,
    0.0005905877915211022,
    0.0002596845733933151,
    -0.00027167669031769037,
    6.500212475657463e-05,
    1.9764454918913543e-05,
    -9.264501386496704e-06,
)


@inlined
def erf(x: Any) -> Any:
    """The error function."""
    size = absolute(x)
    small = fma(_erf_small(x * x), x, x)
    large = select(size > _ONE_FROM, _ONE, _erf_large(size - _MIDDLE))
    return select(size < _SMALL, small, copysign(large, x))
