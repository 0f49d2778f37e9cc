"""Maps of one tensor: arithmetic, rounding, exponentials, trigonometry, tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from jitopt.ir.dtypes import DType
from jitopt.ops import cases
from jitopt.ops.operator import Array, Attribute, Attrs, Kind, Operator, Param, Sample
from jitopt.ops.rules import same_as_first
from jitopt.ops.signature import BOOLS, NUMERIC, REALS, SIGNED, WHOLE, declare, dtypes
from jitopt.ops.symbolic import mapped

FORMULAS = "jitopt_kernels.formulas."

Samples = Callable[[], Sequence[Sample]]
_FLOAT8 = dtypes("float8e4m3fn float8e4m3fnuz float8e5m2 float8e5m2fnuz")


def unary(
    name: str, since: tuple[int, ...], function: Callable[..., Array], *, formula: str | None = "",
    allowed: frozenset[DType] = REALS, result: frozenset[DType] | None = None,
    attributes: Mapping[str, Attribute] | None = None, samples: Samples | None = None,
    **rest: Any,
) -> Operator:  # fmt: skip
    """Declare a map of one tensor: `function(x, *values of the attributes)`.

    The device formula is the name in lower case unless `formula` says otherwise (None: it has none); it takes the
    numeric attributes after the tensor, in order. `result` is the output's type where it is not the input's.
    """
    declared = dict(attributes or {})

    def reference(attrs: Attrs, x: Array) -> Array:
        return function(x, *(getattr(attrs, key) for key in declared))

    scalars = tuple(key for key, attribute in declared.items() if attribute.kind in ("int", "float"))
    device = None if formula is None else FORMULAS + (formula or name.rpartition(".")[2].lower())
    output = Param("Y", allowed, "T") if result is None else Param("Y", result, "R")
    return declare(
        name, Kind.MAP, (Param("X", allowed, "T"),), (output,), same_as_first, reference, since=since,
        attributes=declared, formula=device, scalars=scalars, samples=samples or _usual(allowed), **rest,
    )  # fmt: skip


def _usual(allowed: frozenset[DType], low: float = -4.0, high: float = 4.0, special: bool = True) -> Samples:
    """Samples over every computable dtype group that `allowed` has."""

    def build() -> list[Sample]:
        names = {d.name for d in allowed}
        out: list[Sample] = []
        if "float32" in names:
            shapes: list[tuple[int, ...]] = [(), (1,), (3, 5, 7), (2, 0, 3)]
            out += [cases.sample(cases.floats(*shape, low=low, high=high)) for shape in shapes]
            out += [cases.sample(cases.specials())] if special else []
            out += [cases.sample(cases.floats(4, 9, low=low, high=high, dtype="float64"))]
        out += [cases.sample(cases.ints(3, 11, dtype=n)) for n in ("int8", "int32", "int64") if n in names]
        out += [cases.sample(cases.ints(3, 11, low=0, high=255, dtype="uint8"))] if "uint8" in names else []
        out += [cases.sample(cases.bools(3, 5))] if "bool" in names else []
        return out

    return build


def within(low: float, high: float) -> Samples:
    """Samples of a function defined (or comparable) on an interval only."""
    return _usual(REALS, low, high, special=False)


# content: these leave an exact integer alone -------------------------------------------------------------------------
def _unchanged(attrs: Attrs, node: Any, x: Array | None) -> Array | None:
    return x


def _negated(attrs: Attrs, node: Any, x: Array | None) -> Array | None:
    return None if x is None else -x


def _sign(x: Array) -> Array:
    return np.where(np.isnan(x), x, np.sign(x)) if x.dtype.kind == "f" else np.sign(x)


# arithmetic and rounding
unary("Abs", (6, 13), np.abs, allowed=NUMERIC)
unary("Neg", (6, 13), np.negative, allowed=REALS | SIGNED, content=_negated)
unary("Sign", (9, 13), _sign, allowed=NUMERIC)
unary("Ceil", (6, 13), np.ceil, content=_unchanged)
unary("Floor", (6, 13), np.floor, content=_unchanged)
unary("Round", (11, 22), np.rint, content=_unchanged)
unary("Reciprocal", (6, 13), np.reciprocal)
unary("Sqrt", (6, 13), np.sqrt)
unary("BitwiseNot", (18,), np.invert, allowed=WHOLE, formula="bitwise_not")
unary("Not", (1,), np.logical_not, allowed=BOOLS, formula="logical_not", content=mapped(lambda a: 1 - a))

# exponentials, hyperbolic and trigonometric functions
unary("Exp", (6, 13), np.exp)
unary("Log", (6, 13), np.log)
unary("Sinh", (9, 22), np.sinh, samples=within(-8, 8))
unary("Cosh", (9, 22), np.cosh, samples=within(-8, 8))
unary("Tanh", (6, 13), np.tanh)
unary("Asinh", (9, 22), np.arcsinh)
unary("Acosh", (9, 22), np.arccosh, samples=within(1, 9))
unary("Atanh", (9, 22), np.arctanh, samples=within(-0.99, 0.99))
unary("Sin", (7, 22), np.sin, samples=within(-9, 9))
unary("Cos", (7, 22), np.cos, samples=within(-9, 9))
unary("Tan", (7, 22), np.tan, samples=within(-1.5, 1.5))
unary("Asin", (7, 22), np.arcsin, samples=within(-1, 1))
unary("Acos", (7, 22), np.arccos, samples=within(-1, 1))
unary("Atan", (7, 22), np.arctan)


# tests
def _isinf(x: Array, negative: int, positive: int) -> Array:
    return (np.isposinf(x) & bool(positive)) | (np.isneginf(x) & bool(negative))


def _isinf_samples() -> list[Sample]:
    flags = [{}, {"detect_negative": 0}, {"detect_positive": 0}, {"detect_negative": 0, "detect_positive": 0}]
    return [cases.sample(cases.specials(dtype), **f) for f in flags for dtype in ("float32", "float64")]


unary("IsNaN", (9, 13, 20), np.isnan, allowed=REALS | _FLOAT8, result=BOOLS)
unary(
    "IsInf", (10, 20), _isinf, allowed=REALS | _FLOAT8, result=BOOLS, samples=_isinf_samples,
    attributes={"detect_negative": Attribute("int", 1), "detect_positive": Attribute("int", 1)},
)  # fmt: skip
