"""LayerNormalization written as its parts (Ba, Kiros and Hinton, arXiv 1607.06450).

    mean = ReduceMean(x);  d = x - mean;  var = ReduceMean(d * d)         (or Pow(d, 2))
    y = d / sqrt(var + eps)            or d * (1 / sqrt(var + eps)), d * (var + eps)^-0.5
    out = y * scale + bias             in any order; scale and bias may be absent
    out = x * r + (bias - mean * r),   r = (1 / sqrt(var + eps)) * scale     (TensorFlow)

The means must run over the last axes and keep them; scale and bias must have the shape of those axes.
"""

from __future__ import annotations

import numpy as np

from jitopt.ir.graph import Node, Value
from jitopt.passes.base import Refusal
from jitopt.passes.facts import attribute, ints_of, numeric_constant, same_type, shape_of
from jitopt.passes.patterns import Any, Match, OneOf, Op, Pattern, Scalar, match
from jitopt.passes.rules import Builder, Replacement, RulePass

_X = Any("x")
_MEAN = Op("ReduceMean", _X, Any("axes"), name="mean")
_D = Op("Sub", _X, _MEAN)
_SQUARE = OneOf((Op("Pow", _D, Scalar(2.0)), Op("Mul", _D, _D)))
_VARIANCE = Op("Add", Op("ReduceMean", _SQUARE, Any("axes2"), name="variance"), Scalar(name="epsilon"))
_DEVIATION = OneOf((Op("Sqrt", _VARIANCE), Op("Pow", _VARIANCE, Scalar(0.5))))
_INVERSE = OneOf((Op("Reciprocal", _DEVIATION), Op("Div", Scalar(1.0), _DEVIATION), Op("Pow", _VARIANCE, Scalar(-0.5))))
_NORMAL = OneOf((Op("Div", _D, _DEVIATION), Op("Mul", _D, _INVERSE)))
_SCALED = OneOf((Op("Mul", _NORMAL, Any("scale")), Op("Mul", _D, Op("Mul", _INVERSE, Any("scale")))))
_FACTOR = Op("Mul", _INVERSE, Any("scale"))
_SHIFTED = Op("Add", Op("Mul", _X, _FACTOR), Op("Sub", Any("bias"), Op("Mul", _MEAN, _FACTOR)))
PATTERNS: tuple[Pattern, ...] = (_SHIFTED, Op("Add", _SCALED, Any("bias")), _SCALED, _NORMAL)


class RecogniseLayerNorm(RulePass):
    name = "recognise-layernorm"
    description = "LayerNormalization written as means, differences and a square root becomes one node"
    exactness = "bounded"
    bound = "the rounding of the decomposed form"
    outermost_first = True
    roots = frozenset({"Add", "Mul", "Div"})

    def rule(self, node: Node, build: Builder) -> Replacement | Refusal | None:
        refusal: Refusal | None = None
        for pattern in PATTERNS:
            found = match(pattern, node)
            if isinstance(found, Match):
                outcome = _layernorm(node, found, build)
                if isinstance(outcome, Replacement):
                    return outcome
                found = outcome
            refusal = found or refusal
        return refusal


def _layernorm(node: Node, found: Match, build: Builder) -> Replacement | Refusal:
    x = found["x"]
    if not same_type(x, node.output):
        return Refusal("scale or bias broadcasts x")
    axis = _first_axis(found, "mean", "axes", len(x.shape))
    if axis is None or axis != _first_axis(found, "variance", "axes2", len(x.shape)):
        return Refusal("its means do not run over the same last axes")
    epsilon = numeric_constant(found["epsilon"])
    shape = x.shape[axis:]
    if epsilon is None or not all(isinstance(d, int) for d in shape):
        return Refusal("the extent of the normalised axes is not known")
    sizes = tuple(int(d) for d in shape if isinstance(d, int))
    scale = _vector(found.values.get("scale"), sizes, 1.0, build)
    bias = _vector(found.values["bias"], sizes, 0.0, build) if "bias" in found.values else None
    if isinstance(scale, Refusal):
        return scale
    if isinstance(bias, Refusal):
        return bias
    inputs = [x, scale] if bias is None else [x, scale, bias]
    new = build.add("LayerNormalization", inputs, axis=axis - len(x.shape), epsilon=float(epsilon.reshape(-1)[0]))
    return Replacement({node.output: new}, f"{len(set(found.nodes))} nodes => LayerNormalization")


def _first_axis(found: Match, mean: str, axes: str, rank: int) -> int | None:
    """The first of the last axes that a ReduceMean averages over and keeps; None where it does otherwise."""
    node = found[mean].producer
    given = ints_of(found[axes])
    if node is None or given is None or not attribute(node, "keepdims"):
        return None
    ordered = sorted(a % rank for a in given)
    return ordered[0] if ordered and ordered == list(range(ordered[0], rank)) else None


def _vector(value: Value | None, shape: tuple[int, ...], absent: float, build: Builder) -> Value | Refusal:
    """`value` in the normalised axes' shape; a constant may need reshaping or broadcasting."""
    if value is None:
        dtype = build.root.output.dtype.numpy
        return build.constant(np.full(shape, absent, dtype), f"{build.root.name}/scale")
    if shape_of(value) == shape:
        return value
    array = numeric_constant(value)
    if array is not None:
        lead = max(0, array.ndim - len(shape))
        kept = array.shape[lead:]
        if all(d == 1 for d in array.shape[:lead]) and all(
            d in (1, s) for d, s in zip(kept[::-1], shape[::-1], strict=False)
        ):
            return build.constant(np.ascontiguousarray(np.broadcast_to(array.reshape(kept), shape)), value.name)
    return Refusal(f"'{value.name}' does not have the shape of the normalised axes")
