"""SIMD values for Numba: types, memory, arithmetic, register tiles and maths. The only user of llvmlite.ir.

Every public function has two meanings that agree: on registers inside compiled code, and on NumPy arrays in Python
(also with NUMBA_DISABLE_JIT=1). dtypes, lanes and tile sizes are literals in compiled code.
"""

from .arithmetic import divide, isinf, isnan, quotient, remainder
from .binding import device, inlined
from .dtypes import DTYPES, DType
from .elementwise import (
    absolute,
    bitcast,
    ceil,
    convert,
    convert_like,
    copysign,
    floor,
    fma,
    like,
    maximum,
    minimum,
    rint,
    select,
    sqrt,
    trunc,
)
from .errorfunction import erf
from .exponential import exp, expm1, over_one_plus_exp, reciprocal, sigmoid, tanh
from .floatbits import lookup, polynomial
from .hyperbolic import acosh, asinh, atanh, cosh, sinh
from .lanes import all_lanes, any_lane, hmax, hmin, hprod, hsum, iota, splat, tail_mask
from .logarithm import log, log1p
from .memory import (
    compare_exchange,
    gather,
    load,
    load_constant,
    load_masked,
    load_scalar,
    load_splat,
    prefetch,
    store,
    store_masked,
    store_scalar,
)
from .power import fmod, mod, pow
from .registers import Mask, Tile, Vec
from .tile import rank1, tile_finish, tile_finish_tail, tile_get, tile_zeros
from .trigonometry import acos, asin, atan, cos, sin, tan

__all__ = [
    "DTYPES",
    "DType",
    "Mask",
    "Tile",
    "Vec",
    "absolute",
    "acos",
    "acosh",
    "all_lanes",
    "any_lane",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "bitcast",
    "ceil",
    "compare_exchange",
    "convert",
    "convert_like",
    "copysign",
    "cos",
    "cosh",
    "device",
    "divide",
    "erf",
    "exp",
    "expm1",
    "floor",
    "fma",
    "fmod",
    "gather",
    "hmax",
    "hmin",
    "hprod",
    "hsum",
    "inlined",
    "iota",
    "isinf",
    "isnan",
    "like",
    "load",
    "load_constant",
    "load_masked",
    "load_scalar",
    "load_splat",
    "log",
    "log1p",
    "lookup",
    "maximum",
    "minimum",
    "mod",
    "over_one_plus_exp",
    "polynomial",
    "pow",
    "prefetch",
    "quotient",
    "rank1",
    "reciprocal",
    "remainder",
    "rint",
    "select",
    "sigmoid",
    "sin",
    "sinh",
    "splat",
    "sqrt",
    "store",
    "store_masked",
    "store_scalar",
    "tail_mask",
    "tan",
    "tanh",
    "tile_finish",
    "tile_finish_tail",
    "tile_get",
    "tile_zeros",
    "trunc",
]
