"""Pairs of nodes that undo or repeat one another: Relu of Relu, Neg of Neg, a cast to a wider type and back."""

from __future__ import annotations

from jitopt.ir.dtypes import DType
from jitopt.ir.graph import Node
from jitopt.passes.base import Refusal
from jitopt.passes.facts import same_type
from jitopt.passes.rules import Builder, Replacement, RulePass

_IDEMPOTENT = frozenset({"Relu", "Abs", "Floor", "Ceil", "Round", "Sign"})
_INVOLUTION = frozenset({"Neg", "Not", "BitwiseNot"})
_MANTISSA = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}
_EXPONENT = {"float16": 5, "bfloat16": 8, "float32": 8, "float64": 11}


class CancelPairs(RulePass):
    name = "cancel-pairs"
    description = "f(f(x)) for idempotent f, Neg and Not of themselves, lossless casts and back"
    roots = frozenset({*_IDEMPOTENT, *_INVOLUTION, "Cast"})

    def rule(self, node: Node, build: Builder) -> Replacement | Refusal | None:
        inner = node.arg(0).producer
        if inner is None or inner.op != node.op:
            return None
        what = f"{node.op} of {node.op} => "
        if node.op in _IDEMPOTENT:
            return Replacement({node.output: inner.output}, what + node.op)
        source = inner.arg(0)
        if node.op in _INVOLUTION:
            return Replacement({node.output: source}, what + "nothing")
        if not keeps_every_value(source.dtype, inner.output.dtype):
            return Refusal(f"{inner.output.dtype} does not hold every {source.dtype}")
        if same_type(source, node.output):
            return Replacement({node.output: source}, what + "nothing")
        if not source.dtype.is_float and node.output.dtype.is_integer and inner.output.dtype.is_float:
            return None  # int -> float -> int saturates, int -> int wraps
        return Replacement({node.output: build.add("Cast", [source], **node.attrs)}, what + "Cast")


def keeps_every_value(narrow: DType, wide: DType) -> bool:
    """Every value of `narrow` is a value of `wide`, so that casting there and back changes nothing."""
    if narrow is wide:
        return True
    if narrow.kind == "bool":
        return wide.is_integer or wide.is_float
    if narrow.is_float:
        return (
            wide.is_float
            and _MANTISSA.get(narrow.name, 99) <= _MANTISSA.get(wide.name, 0)
            and _EXPONENT.get(narrow.name, 99) <= _EXPONENT.get(wide.name, 0)
        )
    if not narrow.is_integer:
        return False
    digits = narrow.bits - (narrow.kind == "int")
    if wide.is_float:
        return digits <= _MANTISSA.get(wide.name, 0) and _EXPONENT.get(wide.name, 0) > 5
    return (
        wide.is_integer and digits <= wide.bits - (wide.kind == "int") and (narrow.kind == "uint" or wide.kind == "int")
    )
