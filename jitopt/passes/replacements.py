"""The table of operator replacements: a node by a cheaper one that means the same, to the bit or within a bound.

Each entry is one small rule. The bit-exact ones run in every mode, the others not in exact mode.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from jitopt.ir.graph import Node, Value
from jitopt.passes.base import Refusal
from jitopt.passes.facts import is_filled_with, numeric_constant, same_type, shape_of
from jitopt.passes.rules import Builder, Replacement, RulePass

Rule = Callable[[Node, Builder], "Value | Refusal | None"]


@dataclass(frozen=True)
class Entry:
    """One replacement of nodes of operator `op`; `bound` is "" where every bit stays."""

    op: str
    what: str
    bound: str
    rule: Rule


def _pow(power: float, build_it: Callable[[Builder, Value], Value]) -> Rule:
    """x ** power, the exponent being a constant filled with that power, of x's type."""

    def rule(node: Node, build: Builder) -> Value | None:
        x = node.arg(0)
        if not is_filled_with(node.input(1), power) or not same_type(x, node.output) or not x.dtype.is_float:
            return None
        return build_it(build, x)

    return rule


def _sqrt_reciprocal(build: Builder, x: Value) -> Value:
    return build.add("Reciprocal", [build.add("Sqrt", [x], name=f"{build.root.name}/sqrt")])


def _cube(build: Builder, x: Value) -> Value:
    return build.add("Mul", [build.add("Mul", [x, x], name=f"{build.root.name}/square"), x])


def _divide(exact: bool) -> Rule:
    """x / c as x * (1 / c): exact where every c is a power of two whose reciprocal is a normal number."""

    def rule(node: Node, build: Builder) -> Value | Refusal | None:
        divisor = numeric_constant(node.input(1))
        if divisor is None or divisor.dtype.kind != "f" or node.arg(0).constant is not None:
            return None
        with np.errstate(all="ignore"):
            inverse = (1.0 / divisor.astype(np.float64)).astype(divisor.dtype)
        tiny = np.finfo(divisor.dtype).tiny
        if not np.all(np.isfinite(inverse) & (np.abs(inverse) >= tiny) & np.isfinite(divisor)):
            return Refusal("the reciprocal of its divisor is not a normal number")
        powers = bool(np.all(np.abs(np.frexp(divisor)[0]) == 0.5))
        if powers != exact:
            return None
        return build.add("Mul", [node.arg(0), build.constant(inverse, f"{node.name}/reciprocal")])

    return rule


def _reciprocal(node: Node, build: Builder) -> Value | None:
    x = node.arg(1)
    if not is_filled_with(node.input(0), 1.0) or not same_type(x, node.output) or not x.dtype.is_float:
        return None
    return build.add("Reciprocal", [x])


def _subtract(node: Node, build: Builder) -> Value | None:
    """x - c is x + (-c), the same operation in IEEE 754."""
    constant = numeric_constant(node.input(1))
    if constant is None or constant.dtype.kind != "f" or node.arg(0).constant is not None:
        return None
    return build.add("Add", [node.arg(0), build.constant(-constant, f"{node.name}/negated")])


def _add_zero(node: Node, build: Builder) -> Value | None:
    for x, constant in ((node.arg(0), node.arg(1)), (node.arg(1), node.arg(0))):
        if is_filled_with(constant, 0.0) and same_type(x, node.output):
            return x
    return None


def _clip_to_relu(node: Node, build: Builder) -> Value | None:
    high = node.input(2)
    unbounded = high is None or is_filled_with(high, math.inf) or _is_largest(high)
    if not unbounded or not is_filled_with(node.input(1), 0.0) or not node.output.dtype.is_float:
        return None
    return build.add("Relu", [node.arg(0)])


def _is_largest(value: Value) -> bool:
    array = numeric_constant(value)
    return array is not None and array.dtype.kind == "f" and bool(np.all(array == np.finfo(array.dtype).max))


def _max_to_relu(node: Node, build: Builder) -> Value | None:
    if len(node.inputs) != 2 or not node.output.dtype.is_float:
        return None
    for x, constant in ((node.arg(0), node.arg(1)), (node.arg(1), node.arg(0))):
        if is_filled_with(constant, 0.0) and same_type(x, node.output):
            return build.add("Relu", [x])
    return None


def _sum_of_two(node: Node, build: Builder) -> Value | None:
    return build.add("Add", list(node.inputs)) if len(node.inputs) == 2 else None


def _matmul_add(node: Node, build: Builder) -> Value | Refusal | None:
    """x @ W + b of matrices, b a vector along columns, as Gemm."""
    for product, bias in ((node.arg(0), node.arg(1)), (node.arg(1), node.arg(0))):
        matmul = product.producer
        if matmul is None or matmul.op != "MatMul" or numeric_constant(bias) is None:
            continue
        shape, columns = shape_of(bias), node.output.shape[-1:]
        if not same_type(product, node.output) or any(
            shape_of(v) is None or len(v.shape) != 2 for v in matmul.inputs if v
        ):
            continue
        if shape not in (columns, (1, *columns)):
            return Refusal("its bias is not one number a column")
        if len(product.uses) != 1 or build.graph.is_output(product):
            return Refusal(f"'{product.name}' has another reader")
        return build.add("Gemm", [*matmul.inputs, bias], name=matmul.name)
    return None


def _clip_of_clip(node: Node, build: Builder) -> Value | None:
    """Clip(Clip(x, a, b), c, d) where [c, d] lies within [a, b] is Clip(x, c, d)."""
    inner = node.arg(0).producer
    if inner is None or inner.op != "Clip":
        return None
    bounds = [numeric_constant(n.input(i)) for n in (inner, node) for i in (1, 2)]
    if any(b is None or b.size != 1 for b in bounds):
        return None
    a, b, c, d = (float(x.reshape(-1)[0]) for x in bounds if x is not None)
    return build.like(node, [inner.arg(0), *node.inputs[1:]]) if a <= c <= d <= b else None


ENTRIES: tuple[Entry, ...] = (
    Entry("Div", "x / 2^k => x * 2^-k", "", _divide(exact=True)),
    Entry("Div", "1 / x => Reciprocal", "", _reciprocal),
    Entry("Sub", "x - c => x + (-c)", "", _subtract),
    Entry("Sum", "Sum of two => Add", "", _sum_of_two),
    Entry("Add", "MatMul + Add => Gemm", "", _matmul_add),
    Entry("Clip", "Clip of a wider Clip => Clip", "", _clip_of_clip),
    Entry("Pow", "x^2 => x * x", "1 ulp", _pow(2.0, lambda build, x: build.add("Mul", [x, x]))),
    Entry("Pow", "x^3 => x * x * x", "2 ulp", _pow(3.0, _cube)),
    Entry("Pow", "x^0.5 => Sqrt", "1 ulp; NaN at -inf", _pow(0.5, lambda build, x: build.add("Sqrt", [x]))),
    Entry("Pow", "x^-1 => Reciprocal", "1 ulp", _pow(-1.0, lambda build, x: build.add("Reciprocal", [x]))),
    Entry("Pow", "x^-0.5 => Reciprocal of Sqrt", "2 ulp", _pow(-0.5, _sqrt_reciprocal)),
    Entry("Div", "x / c => x * (1 / c)", "1.5 ulp", _divide(exact=False)),
    Entry("Add", "x + 0 => x", "the sign of a zero", _add_zero),
    Entry("Clip", "Clip(x, 0) => Relu", "the sign of a zero", _clip_to_relu),
    Entry("Max", "Max(x, 0) => Relu", "the sign of a zero", _max_to_relu),
)


class _Replacements(RulePass):
    entries: tuple[Entry, ...]

    def rule(self, node: Node, build: Builder) -> Replacement | Refusal | None:
        refusal: Refusal | None = None
        for entry in self.entries:
            if entry.op != node.op:
                continue
            new = entry.rule(node, build)
            if isinstance(new, Refusal):
                refusal = refusal or new
            elif new is not None:
                return Replacement({node.output: new}, entry.what)
        return refusal


class ReplaceExactly(_Replacements):
    name = "replace-operators"
    description = "cheaper operators of the same bits: " + "; ".join(e.what for e in ENTRIES if not e.bound)
    entries = tuple(e for e in ENTRIES if not e.bound)
    roots = frozenset(e.op for e in entries)


class ReplaceWithinBound(_Replacements):
    name = "replace-operators-bounded"
    description = "cheaper operators within a bound: " + "; ".join(f"{e.what} ({e.bound})" for e in ENTRIES if e.bound)
    exactness = "bounded"
    bound = "2 ulp"
    entries = tuple(e for e in ENTRIES if e.bound)
    roots = frozenset(e.op for e in entries)
