"""pow and the remainders of floats.

pow follows C's annex F: anything to the power 0 and 1 to any power are 1, a negative number to a power that is no
integer is NaN. Integers are raised by repeated squaring, and to a negative power truncate toward zero.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .arithmetic import remainder
from .binding import by_kind, inlined
from .elementwise import absolute, convert, convert_like, copysign, floor, like, select, trunc
from .lanes import any_lane
from .wide import exp_wide, log_wide

_HALF, _ONE, _INFINITY, _NAN = (np.float32(value) for value in (0.5, 1, np.inf, np.nan))
_MINUS_INFINITY = -np.inf  # a float64, beside float64 values
_STEPS, _STEP_BITS = 12, 24  # float32 quotients have up to 277 bits, found 24 at a time


def pow(x: Any, y: Any) -> Any:
    """x**y in the dtype of x."""
    return _power(np.asarray(x).dtype.kind, np.asarray(y).dtype.kind)(x, y)


def fmod(a: Any, b: Any) -> Any:
    """a - b * trunc(a / b): C's fmod for floats, `remainder` for integers; it has the sign of a."""
    return np.fmod(a, b) if np.asarray(a).dtype.kind == "f" else remainder(a, b)


def mod(a: Any, b: Any) -> Any:
    """a - b * floor(a / b): Python's %; it has the sign of b; 0 for integers where b is 0."""
    return np.mod(a, b) if np.asarray(a).dtype.kind == "f" else np.where(b == 0, 0, a % np.where(b == 0, 1, b))


@inlined
def _pow_float(x: Any, y: Any) -> Any:
    size = absolute(x)
    wide = convert(size, "float64")
    log = select(size == 0, _MINUS_INFINITY, select(size < _INFINITY, log_wide(wide), wide))
    magnitude = convert(exp_wide(convert(y, "float64") * log), "float32")
    magnitude = select(size == 1, select(y == y, _ONE, y), magnitude)
    whole = (floor(y) == y) | (absolute(y) == _INFINITY)
    half = y * _HALF
    odd = (floor(y) == y) & (floor(half) != half)
    signed = select(odd, copysign(magnitude, x), magnitude)
    result = select((x < 0) & (size < _INFINITY) & ~whole & (y == y), _NAN, signed)
    return select((x == 1) | (y == 0), _ONE, result)


@inlined
def _fmod_float(x: Any, y: Any) -> Any:
    """x - y trunc(x / y), exactly: long division of |x| by |y| * 2**(24 j), j falling; every difference is exact."""
    rest, divisor = absolute(convert(x, "float64")), absolute(convert(y, "float64"))
    scaled = divisor * 2.0 ** (_STEP_BITS * (_STEPS - 1))
    for _ in range(_STEPS):
        rest = rest - trunc(rest / scaled) * scaled
        rest = select(rest < 0.0, rest + scaled, rest)
        scaled = scaled * 2.0**-_STEP_BITS
    result = select(absolute(y) == _INFINITY, x, copysign(convert(rest, "float32"), x))
    return select((absolute(x) == _INFINITY) | (y == 0) | (x != x) | (y != y), _NAN, result)


@inlined
def _mod_float(x: Any, y: Any) -> Any:
    rest = _fmod_float(x, y)
    moved = select((rest < 0) == (y < 0), rest, rest + y)
    return select(rest == 0, copysign(rest, y), moved)


@inlined
def _mod_integer(x: Any, y: Any) -> Any:
    return x % y


@inlined
def _pow_integer(x: Any, y: Any) -> Any:
    """Repeated squaring; integers wrap. A negative power leaves 1 / x: 1 or -1 for those x, else 0."""
    one = like(x, 1)
    unit = select(x == -one, select((y & 1) == 0, one, -one), select(x == one, one, like(x, 0)))
    result, base, left = one, x, select(y < 0, 0, y)
    while any_lane(left != 0):
        result = result * select((left & 1) == 0, one, base)
        base = base * base
        left = left >> 1
    return select(y < 0, unit, result)


@inlined
def _pow_float_integer(x: Any, y: Any) -> Any:
    return _pow_float(x, convert(y, "float32"))


@inlined
def _pow_integer_float(x: Any, y: Any) -> Any:
    """A whole power by squaring, any other through float32, toward zero."""
    whole = convert_like(y, x)
    real = convert_like(_pow_float(convert(x, "float32"), y), x)
    return select(convert(whole, "float32") == y, _pow_integer(x, whole), real)


def _power(base: str, power: str) -> Any:
    """The function for these kinds of operands."""
    if power == "f":
        return _pow_float if base == "f" else _pow_integer_float
    return _pow_float_integer if base == "f" else _pow_integer


by_kind(pow, _power)
by_kind(fmod, lambda a, b: {"ff": _fmod_float, "ii": remainder, "uu": remainder}.get(a + b))
by_kind(mod, lambda a, b: {"ff": _mod_float, "ii": _mod_integer, "uu": _mod_integer}.get(a + b))
