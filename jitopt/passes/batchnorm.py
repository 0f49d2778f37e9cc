"""BatchNormalization into the contraction before it, or into scale and shift.

scale = g / sqrt(v + e),  shift = beta - m * scale            (Ioffe and Szegedy, arXiv 1502.03167, section 3)
BatchNormalization(conv(x; W) + b)  =>  conv(x; W * scale) + (b * scale + shift)
BatchNormalization(x)               =>  x * scale + shift
"""

from __future__ import annotations

import numpy as np

from jitopt.ir.graph import Node
from jitopt.passes.base import Refusal
from jitopt.passes.facts import Array, attribute, numeric_constant, shape_of
from jitopt.passes.merge_affine import MOST_CANCELLATION
from jitopt.passes.rules import Builder, Replacement, RulePass
from jitopt.passes.weights import Linear, linear_producer


def scale_and_shift(node: Node) -> tuple[Array, Array] | Refusal:
    """What a BatchNormalization does to each channel, float64 [C]; refused where it is not known and finite."""
    if attribute(node, "training_mode"):
        return Refusal("it runs in training mode")
    if any(v.uses or node.graph.is_output(v) for v in node.outputs[1:]):
        return Refusal("its statistics are read")
    found = [numeric_constant(node.input(i)) for i in range(1, 5)]
    params = [p.astype(np.float64) for p in found if p is not None]
    if len(params) < 4:
        return Refusal("its parameters are not all constant")
    gamma, beta, mean, variance = params
    with np.errstate(all="ignore"):
        scale = gamma / np.sqrt(variance + float(attribute(node, "epsilon")))
        shift = beta - mean * scale
    if not np.all(np.isfinite(scale)) or not np.all(np.isfinite(shift)):
        return Refusal("its scale or shift is not finite")
    return scale, shift


class FoldBatchNorm(RulePass):
    name = "fold-batchnorm"
    description = "BatchNormalization into the weights of the Conv, ConvTranspose, Gemm or MatMul before it"
    exactness = "bounded"
    bound = "one rounding of each weight and bias"
    roots = frozenset({"BatchNormalization"})

    def rule(self, node: Node, build: Builder) -> Replacement | Refusal | None:
        before = linear_producer(node.arg(0))
        if not isinstance(before, Linear):
            return before
        if before.axis != 1:
            return Refusal(f"channels of '{before.node.name}' lie along axis {before.axis}, not 1")
        found = scale_and_shift(node)
        if isinstance(found, Refusal):
            return found
        new = before.scaled(build, *found)
        if isinstance(new, Refusal):
            return new
        return Replacement({node.output: new}, f"{before.node.op} + BatchNormalization => {before.node.op}")


class BatchNormToAffine(RulePass):
    name = "batchnorm-to-affine"
    description = "BatchNormalization that folds into nothing becomes a Mul and an Add with one constant a channel"
    roots = frozenset({"BatchNormalization"})

    def rule(self, node: Node, build: Builder) -> Replacement | Refusal | None:
        x = node.arg(0)
        shape = shape_of(x)
        if shape is None or len(shape) < 2 or x.dtype.numpy is None:
            return None
        found = scale_and_shift(node)
        if isinstance(found, Refusal):
            return found
        scale, shift = found
        beta = numeric_constant(node.arg(2))
        assert beta is not None
        size = np.maximum(1.0, np.maximum(np.abs(beta), np.abs(numeric_constant(node.arg(1)))))  # type: ignore[arg-type]
        if x.dtype.name != "float64" and np.any(np.abs(shift - beta) > MOST_CANCELLATION * size):
            return Refusal("x * scale + shift would cancel: the mean is too large beside the deviation")
        along = (-1, *(1,) * (len(shape) - 2))
        with np.errstate(all="ignore"):
            s, t = (a.astype(x.dtype.numpy).reshape(along) for a in (scale, shift))
        if not (np.all(np.isfinite(s)) and np.all(np.isfinite(t))):
            return Refusal(f"its scale or shift does not fit {x.dtype}")
        scaled = build.add("Mul", [x, build.constant(s, f"{node.name}/scale")], name=f"{node.name}/scaled")
        shifted = build.add("Add", [scaled, build.constant(t, f"{node.name}/shift")])
        return Replacement({node.output: shifted}, "BatchNormalization => Mul, Add")
