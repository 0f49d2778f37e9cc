"""Constant folding and shape arithmetic: what can be known now becomes a constant.

Folding evaluates a node's NumPy reference. It does not where that would cost more than it saves: random operators,
outputs larger than 16 times the inputs and `PassContext.fold_bytes`, contractions of more than 2**27 products. In
exact mode it folds only operators whose reference and kernel agree in every bit.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jitopt.ir.graph import Graph, Node, Value
from jitopt.ir.storage import holds
from jitopt.ir.types import TensorType
from jitopt.ops.operator import Kind, Operator
from jitopt.ops.registry import operator_of
from jitopt.passes.base import PassContext, Refusal
from jitopt.passes.facts import static_shape, words
from jitopt.passes.rules import Builder, Replacement, RulePass

GROWTH = 16
_MOST_PRODUCTS = 2**27
_SMALL = 2**20  # bytes below which nobody counts
# Maps whose results IEEE 754 or integer arithmetic fixes to the bit.
_EXACT_MAPS = words(
    "Abs Add And BitwiseAnd BitwiseNot BitwiseOr BitwiseXor BitShift Cast CastLike Ceil Clip Div Equal Floor Greater "
    "GreaterOrEqual IsInf IsNaN Less LessOrEqual Max Min Mod Mul Neg Not Or Reciprocal Relu Round Sign Sqrt Sub "
    "Where Xor"
)


class FoldConstants(RulePass):
    name = "fold-constants"
    description = "nodes whose inputs are all constant become their result"
    exactness = "bounded"
    bound = "the kernels' maths: 2 ulp; exact mode folds only what is bit-exact"

    def allowed(self, context: PassContext) -> bool:
        return self.name not in context.disable

    def rule(self, node: Node, build: Builder) -> Replacement | Refusal | None:
        operator = operator_of(node)
        if any(v is not None and v.constant is None for v in node.operands) or node.subgraphs:
            return None
        if node.op == "Identity" and build.graph.is_output(node.output):
            return None
        reason = _obstacle(node, operator, build)
        if reason is not None:
            return Refusal(reason)
        assert operator.reference is not None
        attrs = operator.attrs(node)
        with np.errstate(all="ignore"):
            try:
                found = operator.reference(attrs, *(None if v is None else v.constant for v in node.inputs))
            except Exception as error:  # left for run time: the node may stand in a branch that is never taken
                return Refusal(f"its reference fails: {error!r}")
        arrays = found if isinstance(found, tuple) else (found,)
        values: dict[Value, Value] = {}
        for old, array in zip(node.outputs, arrays, strict=False):
            if not isinstance(array, (np.ndarray, np.generic)) or not _has_type(old, np.asarray(array)):
                return Refusal(f"its reference gives {type(array).__name__} where {old.type} is expected")
            values[old] = build.constant(np.ascontiguousarray(array).reshape(np.shape(array)), name=old.name)
        return Replacement(values, f"{node.op} of constants => constant")


def _obstacle(node: Node, operator: Operator, build: Builder) -> str | None:
    if operator.nondeterministic:
        return "its result differs from run to run"
    if operator.reference is None:
        return "it has no reference"
    raw = [v for v in (*node.inputs, *node.outputs) if v is not None and v.dtype.numpy is None]
    if raw and operator.kind not in (Kind.VIEW, Kind.MOVE) and node.op != "Cast":
        return f"{raw[0].dtype} cannot be computed with in NumPy"
    if build.context.exact and not _is_exact(node, operator):
        return "its reference and its kernel may differ in the last bit"
    sizes = [_bytes(v) for v in node.outputs if v.uses or build.graph.is_output(v)]
    if any(size is None for size in sizes):
        return "its output's shape is not known"
    size = sum(s for s in sizes if s is not None)
    given = sum(v.constant.nbytes for v in node.inputs if v is not None and v.constant is not None)
    limit = max(GROWTH * given, build.context.fold_bytes)
    if size > limit:
        return f"the result would take {size} bytes, more than {limit}"
    most = build.context.max_memory
    if most is not None and size > _SMALL and size + _constant_bytes(build.graph) > most:
        return f"the result would take {size} bytes, which max_memory does not leave"
    if operator.kind in (Kind.CONTRACT, Kind.WINDOW) and _products(node) > _MOST_PRODUCTS:
        return "it is a large contraction"
    return None


def _is_exact(node: Node, operator: Operator) -> bool:
    if operator.kind in (Kind.VIEW, Kind.MOVE, Kind.SHAPE):
        return True
    whole = all(isinstance(v.type, TensorType) and not v.type.dtype.is_float for v in node.outputs)
    return operator.kind is Kind.MAP and (whole or node.op in _EXACT_MAPS)


def _bytes(value: Value) -> int | None:
    shape = static_shape(value)
    return None if shape is None else math.prod(shape) * value.dtype.itemsize


def _constant_bytes(graph: Graph) -> int:
    return sum(v.constant.nbytes for v in graph.constants if v.constant is not None)


def _products(node: Node) -> int:
    """An upper bound of the multiplications: outputs times the elements of one row of the largest input."""
    outputs = math.prod(static_shape(node.output) or (1,))
    arrays = [v.constant for v in node.inputs if v is not None and v.constant is not None and v.constant.ndim]
    inputs = [array.size // max(1, array.shape[0]) for array in arrays]
    return outputs * max(inputs, default=1)


def _has_type(value: Value, array: np.ndarray[Any, Any]) -> bool:
    if not isinstance(value.type, TensorType):
        return False
    shape = static_shape(value)
    return holds(array, value.type.dtype) and (shape is None or shape == array.shape)


class ShapeArithmetic(RulePass):
    name = "shape-arithmetic"
    description = "small integer tensors whose elements are all known become constants"

    def rule(self, node: Node, build: Builder) -> Replacement | Refusal | None:
        value = node.output
        content = value.content
        if content is None or len(node.outputs) != 1 or not isinstance(value.type, TensorType):
            return None
        if node.op == "Identity" and build.graph.is_output(value):
            return None
        dtype = value.type.dtype.numpy
        if dtype is None or not all(isinstance(d, (int, float)) for d in content.flat):
            return None
        array = content.astype(dtype)
        if not np.array_equal(array.astype(object), content):
            return Refusal(f"{value.type.dtype} does not hold its elements")
        return Replacement({value: build.constant(array, name=value.name)}, f"{node.op} => constant")
