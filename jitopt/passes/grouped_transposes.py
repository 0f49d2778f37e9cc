"""A Transpose between two reshapes that only group axes and split them again is one Transpose of the ungrouped axes.

x [b, 12, s, 32] -> Reshape [12*b, s, 32] -> Transpose [12*b, 32, s] -> Reshape [b, 12, 32, s]   =>   Transpose(x)
"""

from __future__ import annotations

from jitopt.ir.dims import Dim, Shape
from jitopt.ir.graph import Node
from jitopt.passes.base import Refusal
from jitopt.passes.facts import inner_use_only, shape_of
from jitopt.passes.rules import Builder, Replacement, RulePass
from jitopt.passes.transposes import permutation
from jitopt.passes.views import VIEWS


def grouping(shape: Shape, grouped: Shape) -> list[list[int]] | None:
    """The axes of `shape` that each axis of `grouped` is the product of, in order; None where it is no grouping."""
    groups: list[list[int]] = []
    axis = 0
    for extent in grouped:
        group: list[int] = []
        size: Dim = 1
        while axis < len(shape) and (size != extent or (extent == 1 and shape[axis] == 1 and not group)):
            group.append(axis)
            size = size * shape[axis]
            axis += 1
        if size != extent:
            return None
        groups.append(group)
    if any(d != 1 for d in shape[axis:]) or not groups:
        return None
    groups[-1] += range(axis, len(shape))
    return groups


class UngroupTransposes(RulePass):
    name = "ungroup-transposes"
    description = "Reshape, Transpose, Reshape that group axes and split them again become one Transpose"
    roots = VIEWS

    def rule(self, node: Node, build: Builder) -> Replacement | Refusal | None:
        transpose = node.arg(0).producer
        if transpose is None or transpose.op != "Transpose":
            return None
        before = transpose.arg(0).producer
        if before is None or before.op not in VIEWS:
            return None
        x, middle, target = before.arg(0), shape_of(transpose.arg(0)), shape_of(node.output)
        shape = shape_of(x)
        if shape is None or middle is None or target is None:
            return None
        groups = grouping(shape, middle)
        if groups is None:
            return Refusal(f"'{before.name}' does more than group axes")
        perm = [axis for p in permutation(transpose) for axis in groups[p]]
        if tuple(shape[p] for p in perm) != target:
            return Refusal("the axes are not split again the way they were grouped")
        if not inner_use_only(transpose.output):
            return Refusal(f"'{transpose.output.name}' has another reader")
        new = build.add("Transpose", [x], name=transpose.name, perm=perm)
        return Replacement({node.output: new}, f"{before.op}, Transpose, {node.op} => Transpose")
