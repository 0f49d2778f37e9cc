"""Softmax written as its parts, and Softmax between reshapes that leave its axis alone.

    e = Exp(x - ReduceMax(x));  e / ReduceSum(e)           =>  Softmax(x)
    Reshape(Softmax(Reshape(x, [rows, n]), axis=1), shape of x)   =>  Softmax(x, axis=-1)      (opset < 13)

Without the maximum taken out the parts overflow where Softmax does not; that form is left alone.
"""

from __future__ import annotations

from jitopt.ir.graph import Node
from jitopt.ops.operator import Kind
from jitopt.ops.registry import operator_of
from jitopt.passes.base import Refusal
from jitopt.passes.facts import attribute, inner_use_only, ints_of, same_type
from jitopt.passes.patterns import Any, Match, Op, match
from jitopt.passes.rules import Builder, Replacement, RulePass

_X = Any("x")
_E = Op("Exp", Op("Sub", _X, Op("ReduceMax", _X, Any("axes"), name="max")))
SOFTMAX = Op("Div", _E, Op("ReduceSum", _E, Any("axes2"), name="sum"))


class RecogniseSoftmax(RulePass):
    name = "recognise-softmax"
    description = "Softmax written as maximum, exponentials and their sum becomes one node"
    exactness = "bounded"
    bound = "the rounding of the decomposed form"
    outermost_first = True
    roots = frozenset({"Div"})

    def rule(self, node: Node, build: Builder) -> Replacement | Refusal | None:
        found = match(SOFTMAX, node)
        if not isinstance(found, Match):
            return found
        x = found["x"]
        axes = {_axis(found, "max", "axes", len(x.shape)), _axis(found, "sum", "axes2", len(x.shape))}
        (axis,) = axes if len(axes) == 1 else (None,)
        if axis is None or not same_type(x, node.output):
            return Refusal("maximum and sum do not run over the same one axis")
        return Replacement(
            {node.output: build.add("Softmax", [x], axis=axis)}, f"{len(set(found.nodes))} nodes => Softmax"
        )


def _axis(found: Match, reduction: str, axes: str, rank: int) -> int | None:
    node = found[reduction].producer
    given = ints_of(found[axes])
    if node is None or given is None or len(given) != 1 or not attribute(node, "keepdims"):
        return None
    return given[0] % rank


class UnwrapSoftmax(RulePass):
    name = "unwrap-softmax"
    description = "Softmax of a tensor flattened to rows and shaped back works on the tensor itself"
    roots = frozenset({"Reshape", "Flatten", "Squeeze", "Unsqueeze"})

    def rule(self, node: Node, build: Builder) -> Replacement | Refusal | None:
        softmax = node.arg(0).producer
        if softmax is None or softmax.op not in ("Softmax", "LogSoftmax"):
            return None
        before = softmax.arg(0).producer
        if before is None or operator_of(before).kind is not Kind.VIEW or not same_type(before.arg(0), node.output):
            return None
        x, rows = before.arg(0), softmax.output.shape
        if attribute(softmax, "axis") not in (-1, len(rows) - 1) or not x.shape or rows[-1] != x.shape[-1]:
            return Refusal("the reshape changes the last axis")
        if not inner_use_only(softmax.output):
            return Refusal(f"'{softmax.output.name}' has another reader")
        new = build.like(softmax, [x], axis=-1)
        return Replacement({node.output: new}, f"{before.op}, {softmax.op}, {node.op} => {softmax.op}")
