"""Chains of reshapes become one; computed shape operands become constants.

A shape operand that depends on symbolic extents can still be constant where 0 (copy) and -1 (what is left) say it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jitopt.ir.dims import Dim, Shape
from jitopt.ir.graph import Node
from jitopt.ops.operator import Kind
from jitopt.ops.registry import operator_of
from jitopt.passes.base import Refusal
from jitopt.passes.facts import attribute, same_type, shape_of
from jitopt.passes.rules import Builder, Replacement, RulePass

VIEWS = frozenset({"Reshape", "Squeeze", "Unsqueeze", "Flatten"})


def reshape_operand(target: Sequence[Dim], source: Shape) -> list[int] | None:
    """The constant operand with which Reshape turns `source` into `target`: 0 copies an extent, -1 takes what is left.

    None where more than one symbolic extent is neither copied nor left over, or an extent is literally 0.
    """
    out: list[int] = []
    for axis, d in enumerate(target):
        if isinstance(d, int):
            out.append(int(d))
        elif axis < len(source) and source[axis] == d:
            out.append(0)
        else:
            out.append(-1)
    if out.count(-1) > 1 or any(isinstance(d, int) and d == 0 for d in target):
        return None
    return out


class MergeViews(RulePass):
    name = "merge-views"
    description = "a reshape of a reshape (Reshape, Squeeze, Unsqueeze, Flatten) becomes one Reshape, or nothing"
    roots = VIEWS

    def rule(self, node: Node, build: Builder) -> Replacement | Refusal | None:
        inner = node.arg(0).producer
        if inner is None or operator_of(inner).kind is not Kind.VIEW or inner.op not in VIEWS:
            return None
        x = inner.arg(0)
        what = f"{inner.op}, {node.op} => "
        if same_type(x, node.output):
            return Replacement({node.output: x}, what + "nothing")
        source, target = shape_of(x), shape_of(node.output)
        if source is None or target is None:
            return None
        operand = reshape_operand(target, source)
        if operand is not None:
            shape = build.constant(np.array(operand, np.int64), f"{node.name}/shape")
        elif node.op == "Reshape" and _copies_nothing(node):
            shape = node.arg(1)
        else:
            return Refusal("two symbolic extents of the result cannot be told in one shape operand")
        return Replacement({node.output: build.add("Reshape", [x, shape])}, what + "Reshape")


def _copies_nothing(node: Node) -> bool:
    """The shape operand is known to hold no 0, so that it means the same for any input of as many elements."""
    content = node.arg(1).content
    return (
        content is not None
        and not attribute(node, "allowzero")
        and all(not isinstance(d, int) or d != 0 for d in content.flat)
    )


class ConstantShapes(RulePass):
    name = "constant-shapes"
    description = "shape operands of Reshape and Expand that are computed from shapes become constants"
    roots = frozenset({"Reshape", "Expand"})

    def rule(self, node: Node, build: Builder) -> Replacement | Refusal | None:
        operand = node.arg(1)
        source = shape_of(node.arg(0))
        if operand.constant is not None or operand.content is None or source is None:
            return None
        if node.op == "Expand":
            found = _expand_operand(list(operand.content.flat), source)
        else:
            found = reshape_operand(node.output.shape, source)
        if found is None:
            return Refusal("its symbolic extents are more than 0 and -1 can say")
        shape = build.constant(np.array(found, np.int64), f"{node.name}/shape")
        new = build.add(node.op, [node.arg(0), shape])
        return Replacement({node.output: new}, f"{node.op} of a computed shape => {node.op} of a constant")


def _expand_operand(dims: list[Dim], source: Shape) -> list[int] | None:
    """Expand's operand, 1 standing for an extent the input has already."""
    ones: list[Dim] = [1] * (len(dims) - len(source))
    padded = [*ones, *source]
    if len(padded) != len(dims):
        return None
    out = [1 if d == s else d for d, s in zip(dims, padded, strict=True)]
    return [int(d) for d in out if isinstance(d, int)] if all(isinstance(d, int) for d in out) else None
