"""Multiplications and additions of constants into the contraction before or behind them.

conv(x; W) * s + t     =>  conv(x; W * s) + (b * s + t)
conv(x * s + t; W)     =>  conv(x; s * W) + (b + W . t)       the shift only where no padding reads beside it
"""

from __future__ import annotations

import numpy as np

from jitopt.ir.graph import Node, Value
from jitopt.passes.base import Refusal
from jitopt.passes.facts import Array, attribute, inner_use_only, numeric_constant, same_type, shape_of
from jitopt.passes.rules import Builder, Replacement, RulePass
from jitopt.passes.weights import CONTRACTIONS, Linear, along_inputs, channel_vector, contraction, linear_producer

_MAPS = frozenset({"Add", "Sub", "Mul", "Div"})
_MOVES = frozenset({"Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten"})


def affine_of(node: Node, axis: int, channels: int) -> tuple[Value, Array, Array] | None:
    """The node as x -> x * scale + shift (float64 [channels] along `axis`); None where it is no such thing."""
    left, right = node.arg(0), node.arg(1)
    swapped = numeric_constant(left) is not None
    x, constant = (right, numeric_constant(left)) if swapped else (left, numeric_constant(right))
    if constant is None or constant.dtype.kind != "f" or not same_type(x, node.output):
        return None
    vector = channel_vector(constant, len(x.shape), axis, channels)
    if vector is None or not np.all(np.isfinite(vector)):
        return None
    one, zero = np.ones(channels), np.zeros(channels)
    if node.op == "Mul":
        return x, vector, zero
    if node.op == "Add":
        return x, one, vector
    if node.op == "Sub":
        return (x, -one, vector) if swapped else (x, one, -vector)
    return None if swapped or np.any(vector == 0) else (x, 1.0 / vector, zero)


class FoldAffine(RulePass):
    name = "fold-affine"
    description = "a constant factor or summand for each channel into the weights and bias of the contraction before it"
    exactness = "bounded"
    bound = "one rounding of each weight and bias"
    roots = _MAPS

    def rule(self, node: Node, build: Builder) -> Replacement | Refusal | None:
        candidates = [v for v in (node.arg(0), node.arg(1)) if v.constant is None]
        if len(candidates) != 1:
            return None
        source, moves = _through_moves(node, candidates[0])
        before = linear_producer(source)
        if not isinstance(before, Linear):
            return before
        if before.node.op == "MatMul" and before.add is None and node.op in ("Add", "Sub"):
            return None  # a MatMul takes no bias; the pair is one group already
        # Behind moves the constant is a scalar: on axis 0 it stands for every element, whatever was moved.
        found = affine_of(node, 0 if moves else before.axis, before.channels)
        if found is None:
            return Refusal(f"its constant is not one number for each channel of '{before.node.name}'")
        new = before.scaled(build, *found[1:])
        if isinstance(new, Refusal):
            return new
        for move in reversed(moves):
            new = build.like(move, [new, *move.inputs[1:]])
        return Replacement({node.output: new}, f"{before.node.op} + {node.op} => {before.node.op}")


def _through_moves(node: Node, value: Value) -> tuple[Value, list[Node]]:
    """What a scalar factor or summand meets once it has gone through reshapes and transposes, and those, last first."""
    constant = next(v for v in node.inputs if v is not None and v is not value)
    moves: list[Node] = []
    while constant.constant is not None and constant.constant.size == 1 and inner_use_only(value):
        move = value.producer
        if move is None or move.op not in _MOVES:
            break
        moves.append(move)
        value = move.arg(0)
    return value, moves


class FoldAffineBefore(RulePass):
    name = "fold-affine-before"
    description = "a constant factor or summand for each channel into the weights and bias of the contraction behind it"
    exactness = "bounded"
    bound = "one rounding of each weight and bias"
    roots = CONTRACTIONS

    def rule(self, node: Node, build: Builder) -> Replacement | Refusal | None:
        x = node.arg(0)
        source = x.producer
        shape = shape_of(x)
        if source is None or source.op not in _MAPS or shape is None or source.graph is not node.graph:
            return None
        if not inner_use_only(x):
            return Refusal(f"'{x.name}' has another reader")
        behind = contraction(node)
        if not isinstance(behind, Linear):
            return behind
        axis = 1 if node.op in ("Conv", "ConvTranspose") else len(shape) - 1
        channels = shape[axis]
        if not isinstance(channels, int) or (node.op == "Gemm" and attribute(node, "transA")):
            return None
        found = affine_of(source, axis, channels)
        if found is None:
            return None
        inner, scale, shift = found
        bias = behind.bias
        if np.any(shift != 0):
            if not _reads_no_padding(node):
                return Refusal(f"padding beside '{x.name}' is zero, not shifted")
            row = along_inputs(behind, shift)
            if node.op == "Gemm":
                row = row * float(attribute(node, "alpha"))
            moved = _summed(node, row)
            bias = moved if bias is None else bias + moved
        new = behind.rebuilt(build, inner, along_inputs(behind, scale), bias)
        if isinstance(new, Refusal):
            return new
        return Replacement({node.output: new}, f"{source.op} + {node.op} => {node.op}")


def _summed(node: Node, weight: Array) -> Array:
    """The weight summed over all it is multiplied with: one number for each output channel."""
    if node.op == "Conv":
        return np.asarray(weight.reshape(weight.shape[0], -1).sum(axis=1))
    return np.asarray(weight.sum(axis=1 if node.op == "Gemm" and attribute(node, "transB") else 0))


def _reads_no_padding(node: Node) -> bool:
    """Every tap of every output lies inside the input (never so for ConvTranspose, whose borders see fewer taps)."""
    if node.op != "Conv":
        return node.op != "ConvTranspose"
    auto = attribute(node, "auto_pad")
    return auto == "VALID" or (auto == "NOTSET" and not any(node.attrs.get("pads") or ()))
