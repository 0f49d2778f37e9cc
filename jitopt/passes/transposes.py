"""Transposes merged, cancelled, turned into reshapes, and pulled through maps where they then cancel.

Transpose(Transpose(x, p), q)            =>  Transpose(x, q after p)
Transpose(f(Transpose(x, p), c), p^-1)   =>  f(x, Transpose(c, p^-1))       f elementwise, Concat or Softmax
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jitopt.ir.graph import Node, Value
from jitopt.ops.operator import Kind
from jitopt.ops.registry import operator_of
from jitopt.passes.base import Refusal
from jitopt.passes.facts import attribute, inner_use_only, shape_of
from jitopt.passes.rules import Builder, Replacement, RulePass
from jitopt.passes.views import reshape_operand

_DEPTH = 12
_ALONG_AXIS = frozenset({"Concat", "Softmax", "LogSoftmax"})


def permutation(node: Node) -> list[int]:
    """The axes of the input in the order of the output."""
    perm = node.attrs.get("perm")
    return list(range(len(node.output.shape)))[::-1] if perm is None else [int(p) for p in perm]


def after(outer: Sequence[int], inner: Sequence[int]) -> list[int]:
    """One permutation for `inner` followed by `outer`."""
    return [inner[i] for i in outer]


def _is_identity(perm: Sequence[int]) -> bool:
    return list(perm) == list(range(len(perm)))


class MergeTransposes(RulePass):
    name = "merge-transposes"
    description = "a Transpose of a Transpose becomes one or none; one that moves only extents of 1 becomes a Reshape"
    roots = frozenset({"Transpose"})

    def rule(self, node: Node, build: Builder) -> Replacement | Refusal | None:
        x, perm = node.arg(0), permutation(node)
        inner = x.producer
        if inner is not None and inner.op == "Transpose":
            merged = after(perm, permutation(inner))
            if _is_identity(merged):
                return Replacement({node.output: inner.arg(0)}, "Transpose, Transpose => nothing")
            new = build.add("Transpose", [inner.arg(0)], perm=merged)
            return Replacement({node.output: new}, "Transpose, Transpose => Transpose")
        shape = shape_of(x)
        if shape is None or _is_identity(perm):
            return None
        moved = [p for p in perm if shape[p] != 1]
        operand = reshape_operand(node.output.shape, shape) if moved == sorted(moved) else None
        if operand is None:
            return None
        target = build.constant(np.array(operand, np.int64), f"{node.name}/shape")
        return Replacement({node.output: build.add("Reshape", [x, target])}, "Transpose of extents of 1 => Reshape")


class CancelTransposes(RulePass):
    name = "cancel-transposes"
    description = "a Transpose goes through elementwise nodes, Concat and Softmax where fewer Transposes remain"
    roots = frozenset({"Transpose"})

    def rule(self, node: Node, build: Builder) -> Replacement | Refusal | None:
        source, perm = node.arg(0), permutation(node)
        if source.producer is None or not _passes(source.producer):
            return None
        if not inner_use_only(source):
            return Refusal(f"'{source.name}' has another reader")
        gain = 1 + _gain(source, perm, _DEPTH)
        if gain <= 0:
            return Refusal("as many Transposes would remain")
        new = _pulled(source, perm, build, _DEPTH, name=source.producer.name)
        return Replacement({node.output: new}, f"{gain} Transposes fewer across {source.producer.op}")


def _passes(node: Node) -> bool:
    """A Transpose of the node's output may become Transposes of its inputs."""
    if len(node.outputs) != 1 or node.subgraphs:
        return False
    if node.op in _ALONG_AXIS:
        return True
    operator = operator_of(node)
    return (
        operator.kind is Kind.MAP
        and "axis" not in operator.attributes
        and any(v is not None and v.constant is None for v in node.inputs)
    )


def _inner(value: Value, depth: int) -> Node | None:
    """The node through which the Transpose of `value` may go further up."""
    node = value.producer
    return node if depth > 0 and node is not None and _passes(node) and inner_use_only(value) else None


def _gain(value: Value, perm: Sequence[int], depth: int) -> int:
    """Transposes saved (negative: added) by pulling one above what makes `value`."""
    node = _inner(value, depth)
    assert node is not None
    return sum(_operand_gain(v, perm, depth - 1) for v in node.inputs if v is not None)


def _operand_gain(value: Value, perm: Sequence[int], depth: int) -> int:
    shape = shape_of(value)
    if value.constant is not None or shape == () or (shape is not None and all(d == 1 for d in shape)):
        return 0
    if shape is None or len(shape) != len(perm):
        return -1000  # broadcasting by rank: not worth it
    node = value.producer
    if node is not None and node.op == "Transpose":
        cancels = _is_identity(after(perm, permutation(node)))
        return (1 if inner_use_only(value) else 0) if cancels else (0 if inner_use_only(value) else -1)
    further = _gain(value, perm, depth) if _inner(value, depth) is not None else -1
    return max(further, -1)


def _pulled(value: Value, perm: Sequence[int], build: Builder, depth: int, name: str = "") -> Value:
    """Build what makes `value` anew so that it comes out permuted."""
    node = _inner(value, depth)
    assert node is not None
    inputs = [None if v is None else _operand(v, perm, build, depth - 1) for v in node.inputs]
    if node.op not in _ALONG_AXIS:
        return build.like(node, inputs)
    axis = int(attribute(node, "axis")) % len(perm)
    return build.like(node, inputs, axis=list(perm).index(axis))


def _operand(value: Value, perm: Sequence[int], build: Builder, depth: int) -> Value:
    shape = shape_of(value)
    if shape is None or all(d == 1 for d in shape):
        return value
    if value.constant is not None:
        array = value.constant
        full = array.reshape((1,) * (len(perm) - array.ndim) + array.shape)
        return build.constant(np.ascontiguousarray(full.transpose(perm)), value.name)
    node = value.producer
    if node is not None and node.op == "Transpose":
        merged = after(perm, permutation(node))
        return node.arg(0) if _is_identity(merged) else build.add("Transpose", [node.arg(0)], perm=merged)
    if _inner(value, depth) is not None and _gain(value, perm, depth) > -1:
        return _pulled(value, perm, build, depth)
    return build.add("Transpose", [value], perm=list(perm))
