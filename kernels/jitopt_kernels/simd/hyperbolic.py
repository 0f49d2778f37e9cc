"""sinh, cosh and the inverse hyperbolic functions on float32, computed in float64 and rounded once."""

from __future__ import annotations

from typing import Any

import numpy as np

from .binding import inlined
from .elementwise import absolute, convert, copysign, select, sqrt
from .floatbits import polynomial
from .wide import exp_wide, log1p_wide

_INFINITY, _NAN = np.float32(np.inf), np.float32(np.nan)
# (sinh(x) - x) / x**3 in x**2 for |x| <= 1.
_sinh_tail = polynomial(0.166666664975604, 0.008333350058116288, 0.0001983615980091448, 2.816951040851963e-06)


@inlined
def sinh(x: Any) -> Any:
    """(e**x - e**-x) / 2, a polynomial below 1."""
    wide = convert(x, "float64")
    square = wide * wide
    e = exp_wide(wide)
    return convert(select(square < 1.0, wide + wide * square * _sinh_tail(square), 0.5 * (e - 1.0 / e)), "float32")


@inlined
def cosh(x: Any) -> Any:
    """(e**x + e**-x) / 2."""
    e = exp_wide(convert(x, "float64"))
    return convert(0.5 * (e + 1.0 / e), "float32")


@inlined
def asinh(x: Any) -> Any:
    """log(x + sqrt(x**2 + 1)), as log1p of its excess over 1."""
    size = absolute(convert(x, "float64"))
    square = size * size
    y = convert(log1p_wide(size + square / (1.0 + sqrt(square + 1.0))), "float32")
    return select(absolute(x) < _INFINITY, copysign(y, x), x)


@inlined
def acosh(x: Any) -> Any:
    """log(x + sqrt(x**2 - 1)), NaN below 1."""
    above = convert(x, "float64") - 1.0
    y = convert(log1p_wide(above + sqrt(above * (above + 2.0))), "float32")
    return select(x < 1, _NAN, select(x < _INFINITY, y, x))


@inlined
def atanh(x: Any) -> Any:
    """log((1 + x) / (1 - x)) / 2, NaN outside [-1, 1]."""
    size = absolute(x)
    wide = convert(size, "float64")
    y = copysign(convert(0.5 * log1p_wide(2.0 * wide / (1.0 - wide)), "float32"), x)
    limit = select(size == 1, copysign(_INFINITY, x), _NAN)
    return select(size < 1, y, limit)
