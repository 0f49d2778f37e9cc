"""Maps of two or three tensors that broadcast: arithmetic, comparisons, logic, bits, Where, PRelu."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jitopt.ir.dims import Dim
from jitopt.ir.dtypes import DType
from jitopt.ir.graph import Node
from jitopt.ops import cases, symbolic
from jitopt.ops.cast import convert
from jitopt.ops.elementwise import FORMULAS
from jitopt.ops.operator import Array, Attribute, Attrs, Kind, Operator, Param, Sample
from jitopt.ops.rules import broadcast_inputs, broadcast_to, shape_of
from jitopt.ops.signature import BOOLS, NUMERIC, PLAIN, REALS, WHOLE, declare, dtypes
from jitopt.ops.symbolic import mapped

Types = frozenset[DType]


def binary(
    name: str, since: tuple[int, ...], function: Callable[[Array, Array], Array], *, formula: str | None = "",
    allowed: Types = NUMERIC, result: Types | None = None, content: Any = None,
    samples: Callable[[], Sequence[Sample]] | None = None,
) -> Operator:  # fmt: skip
    """Declare a map of two tensors of one type that broadcast; `result` is the output's type where it is another."""
    output = Param("C", allowed, "T") if result is None else Param("C", result, "R")
    device = None if formula is None else FORMULAS + (formula or name.lower())
    return declare(
        name, Kind.MAP, (Param("A", allowed), Param("B", allowed)), (output,), broadcast_inputs,
        lambda attrs, a, b: function(a, b), since=since, formula=device, content=content,
        samples=samples or pairs(allowed),
    )  # fmt: skip


_SHAPES = (((3, 5), (3, 5)), ((2, 3, 5), (5,)), ((4, 1, 3), (5, 1)), ((), (3,)), ((0, 3), (1, 3)))


def pairs(allowed: Types, *, positive: bool = False) -> Callable[[], list[Sample]]:
    """Samples: every broadcast in float32 (or bool), one of each other type."""

    def build() -> list[Sample]:
        names = [
            n for n in ("float32", "bool", "float64", "int8", "int32", "int64", "uint8", "uint32") if _in(n, allowed)
        ]
        out = [_pair(names[0], a, b, positive) for a, b in _SHAPES]
        return out + [_pair(name, *_SHAPES[1], positive) for name in names[1:]]

    return build


def _in(name: str, allowed: Types) -> bool:
    return bool(dtypes(name) & allowed)


def _pair(name: str, a: tuple[int, ...], b: tuple[int, ...], positive: bool) -> Sample:
    if name == "bool":
        return cases.sample(cases.bools(*a), cases.bools(*b, seed=1))
    if name.startswith("float"):
        low = 0.25 if positive else -3.0
        return cases.sample(
            cases.floats(*a, low=low, high=3, dtype=name), cases.floats(*b, low=low, high=3, dtype=name, seed=1)
        )
    low_int, high = (1, 9) if positive else (0, 255) if name.startswith("u") else (-100, 100)
    return cases.sample(
        cases.ints(*a, low=low_int, high=high, dtype=name), cases.ints(*b, low=1, high=high, dtype=name, seed=1)
    )


# arithmetic ---------------------------------------------------------------------------------------------------------
def safe_divisor(b: Array) -> Array:
    """An integer divisor with 1 in place of 0: what every kernel does, so that nothing traps."""
    return np.where(b == 0, np.ones((), b.dtype), b)


def divide(a: Array, b: Array) -> Array:
    """Integers round towards zero; a / 0 is a for them."""
    if a.dtype.kind == "f":
        return np.asarray(a / b)
    b = safe_divisor(b)
    floor = a // b
    return np.asarray(floor + ((floor < 0) & (floor * b != a)).astype(a.dtype))


def _div_content(attrs: Attrs, node: Node, *arrays: Any) -> Any:
    return mapped(symbolic.quotient(symbolic.is_float(node)))(attrs, node, *arrays)


def _mod(attrs: Attrs, a: Array, b: Array) -> Array:
    if a.dtype.kind != "f":
        b = safe_divisor(b)
    return np.asarray(np.fmod(a, b) if attrs.fmod else np.mod(a, b))


def _mod_content(attrs: Attrs, node: Node, *arrays: Any) -> Any:
    return mapped(symbolic.remainder)(attrs, node, *arrays) if not attrs.fmod else None


def _pow(attrs: Attrs, x: Array, y: Array) -> Array:
    """x ** y in x's type; integers to a negative power round towards zero."""
    if x.dtype.kind == "f":
        return np.asarray(np.power(x, y.astype(x.dtype)))
    real = convert(np.power(x.astype(np.float64), y.astype(np.float64)), x.dtype)
    if y.dtype.kind == "f":
        return real
    return np.where(y < 0, real, np.power(x, np.maximum(y, 0).astype(x.dtype)))


def _add(a: Dim, b: Dim) -> Dim:
    return a + b


def _sub(a: Dim, b: Dim) -> Dim:
    return a - b


def _mul(a: Dim, b: Dim) -> Dim:
    return a * b


def _mod_samples() -> list[Sample]:
    whole = list(pairs(WHOLE)())
    real = list(pairs(REALS)())
    return whole + [Sample(s.inputs, {"fmod": 1}) for s in whole + real]


def _pow_samples() -> list[Sample]:
    base, signed = cases.floats(3, 5, low=0.25, high=3), cases.floats(3, 5, low=-3, high=3)
    return [
        cases.sample(base, cases.floats(5, seed=1)),
        cases.sample(signed, cases.scalar(2.0)),
        cases.sample(signed, cases.scalar(3.0)),
        cases.sample(base, cases.scalar(0.5)),
        cases.sample(signed, cases.ints(5, low=-2, high=4)),
        cases.sample(cases.ints(3, 5, dtype="int32"), cases.ints(5, low=0, high=4, dtype="int32")),
        cases.sample(cases.ints(3, 5, low=0), cases.floats(5, low=0, high=3)),
        cases.sample(cases.floats(2, 0), cases.floats(1)),
    ]


binary("Add", (7, 13, 14), np.add, content=mapped(_add))
binary("Sub", (7, 13, 14), np.subtract, content=mapped(_sub), formula="sub")
binary("Mul", (7, 13, 14), np.multiply, content=mapped(_mul))
binary("Div", (7, 13, 14), divide, content=_div_content)
declare(
    "Mod", Kind.MAP, (Param("A", NUMERIC), Param("B", NUMERIC)), (Param("C", NUMERIC),), broadcast_inputs, _mod,
    since=(10, 13, 28), attributes={"fmod": Attribute("int", 0, choices=(0, 1))}, content=_mod_content,
    formula=FORMULAS + "mod", samples=_mod_samples,
)  # fmt: skip
declare(
    "Pow", Kind.MAP, (Param("X", REALS | dtypes("int32 int64")), Param("Y", NUMERIC, "T1")),
    (Param("Z", REALS | dtypes("int32 int64")),), broadcast_inputs, _pow, since=(7, 12, 13, 15),
    content=mapped(symbolic.power), formula=FORMULAS + "pow", samples=_pow_samples,
)  # fmt: skip

# comparisons and logic
binary(
    "Equal",
    (7, 11, 13, 19),
    np.equal,
    allowed=NUMERIC | dtypes("bool string"),
    result=BOOLS,
    content=mapped(symbolic.equal),
)
binary("Greater", (7, 9, 13), np.greater, result=BOOLS, content=mapped(symbolic.greater))
binary("Less", (7, 9, 13), np.less, result=BOOLS, content=mapped(lambda a, b: symbolic.greater(b, a)))
binary(
    "GreaterOrEqual", (12, 16), np.greater_equal, result=BOOLS, formula="greater_or_equal",
    content=mapped(symbolic.greater_or_equal),
)  # fmt: skip
binary(
    "LessOrEqual", (12, 16), np.less_equal, result=BOOLS, formula="less_or_equal",
    content=mapped(lambda a, b: symbolic.greater_or_equal(b, a)),
)  # fmt: skip
binary("And", (7,), np.logical_and, allowed=BOOLS, formula="logical_and", content=mapped(symbolic.conjunction))
binary("Or", (7,), np.logical_or, allowed=BOOLS, formula="logical_or", content=mapped(symbolic.disjunction))
binary("Xor", (7,), np.logical_xor, allowed=BOOLS, formula="logical_xor")

# bits
binary("BitwiseAnd", (18,), np.bitwise_and, allowed=WHOLE, formula="bitwise_and")
binary("BitwiseOr", (18,), np.bitwise_or, allowed=WHOLE, formula="bitwise_or")
binary("BitwiseXor", (18,), np.bitwise_xor, allowed=WHOLE, formula="bitwise_xor")


def _bit_shift(attrs: Attrs, x: Array, y: Array) -> Array:
    """Shifting by the width or more leaves what the sign bit fills in: 0, or -1 for a negative x to the right."""
    bits = x.dtype.itemsize * 8
    beyond = (y < 0) | (y >= bits)
    if attrs.direction == "RIGHT":
        filled = np.right_shift(x, np.where(beyond, bits - 1, y).astype(x.dtype))
        return np.where(beyond & (x >= 0), np.zeros((), x.dtype), filled)
    return np.where(beyond, np.zeros((), x.dtype), np.left_shift(x, np.where(beyond, 0, y).astype(x.dtype)))


def _shift_samples() -> list[Sample]:
    x, y = cases.ints(3, 5, low=0, high=250, dtype="uint8"), cases.ints(5, low=0, high=8, dtype="uint8")
    out = [cases.sample(x, y, direction=d) for d in ("LEFT", "RIGHT")]
    wide = [cases.ints(4, low=0, high=9999, dtype="uint64"), cases.vector(0, 1, 33, 63, dtype="uint64")]
    return out + [cases.sample(*wide, direction=d) for d in ("LEFT", "RIGHT")]


declare(
    "BitShift", Kind.MAP, (Param("X", WHOLE), Param("Y", WHOLE)), (Param("Z", WHOLE),), broadcast_inputs, _bit_shift,
    since=(11, 28), samples=_shift_samples,
    attributes={"direction": Attribute("string", required=True, choices=("LEFT", "RIGHT"))},
)  # fmt: skip


# selection ----------------------------------------------------------------------------------------------------------
def _where_samples() -> list[Sample]:
    x, y = cases.floats(3, 5), cases.floats(5, seed=1)
    return [
        cases.sample(cases.bools(3, 5), x, y),
        cases.sample(cases.bools(2, 1, 1), x, cases.scalar(-1e9)),
        cases.sample(cases.bools(3, 1), cases.ints(1, 5), cases.ints(3, 5, seed=1)),
        cases.sample(cases.bools(4), cases.ints(4, dtype="uint8", low=0), cases.ints(4, dtype="uint8", low=0, seed=1)),
        cases.sample(cases.bools(0), cases.floats(0), cases.floats(1)),
    ]


declare(
    "Where", Kind.MAP, (Param("condition", BOOLS, "B"), Param("X", PLAIN | REALS), Param("Y", PLAIN | REALS)),
    (Param("output", PLAIN | REALS),), broadcast_inputs, lambda attrs, c, x, y: np.where(c, x, y), since=(9, 16),
    content=mapped(symbolic.choose), formula=FORMULAS + "where", samples=_where_samples,
)  # fmt: skip


def _prelu_shape(node: Node, attrs: Attrs) -> Any:
    broadcast_to(shape_of(node), shape_of(node, 1), "the slope")
    return [shape_of(node)]


def _prelu_samples() -> list[Sample]:
    x = cases.floats(2, 3, 4, 5)
    slopes = [cases.floats(*shape, seed=1) for shape in ((3, 1, 1), (1,), (2, 3, 4, 5), (5,))]
    return [cases.sample(x, slope) for slope in slopes]


_SLOPED = REALS | dtypes("int32 int64 uint32 uint64")
declare(
    "PRelu", Kind.MAP, (Param("X", _SLOPED), Param("slope", _SLOPED)), (Param("Y", _SLOPED),), _prelu_shape,
    lambda attrs, x, slope: np.where(x < 0, x * slope, x), since=(7, 9, 16), formula=FORMULAS + "prelu",
    samples=_prelu_samples,
)  # fmt: skip
