"""A Concat that joins what another one joined takes its result: Concat(a, b, c) => Concat(Concat(a, b), c).

DenseNets exported from PyTorch join all layers so far before each next one. Nested, the joined layers become one
growing buffer when they are lowered (`jitopt.lower.homes`); never more bytes are copied than before.
"""

from __future__ import annotations

from jitopt.ir.graph import Node
from jitopt.passes.facts import attribute, shape_of
from jitopt.passes.rules import Builder, Replacement, RulePass


class NestConcats(RulePass):
    name = "nest-concats"
    description = "a Concat of parts that another Concat joins takes that one's result"
    roots = frozenset({"Concat"})
    outermost_first = True  # so that the longest runs are found whole

    def rule(self, node: Node, build: Builder) -> Replacement | None:
        parts, axis = node.inputs, _axis(node)
        runs = [
            (len(other.inputs), at, other)
            for at, part in enumerate(parts)
            if part is not None
            for other in node.graph.consumers(part)
            if other.op == "Concat" and 1 < len(other.inputs) < len(parts) and _axis(other) == axis
            and parts[at : at + len(other.inputs)] == other.inputs
        ]  # fmt: skip
        if not runs or axis is None:
            return None
        count, at, other = max(runs, key=lambda run: run[0])
        joined = build.like(node, [*parts[:at], other.output, *parts[at + count :]], axis=axis)
        return Replacement({node.output: joined}, f"Concat of {len(parts)} => Concat of '{other.name}'")


def _axis(node: Node) -> int | None:
    """The axis counted from the front, None where the rank is unknown."""
    shape = shape_of(node.output)
    return None if not shape else int(attribute(node, "axis")) % len(shape)
