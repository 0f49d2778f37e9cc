"""Contractions with constant weights, seen as what folding needs: a weight and a bias along output channels.

    y = linear(x; W) + b,  channel c of y being linear in slice c of W
    y * s + t  =  linear(x; W * s) + (b * s + t)        s, t: one number a channel

Arithmetic is float64, rounded once to the weight's dtype.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from jitopt.ir.graph import Node, Value
from jitopt.passes.base import Refusal
from jitopt.passes.facts import Array, attribute, inner_use_only, numeric_constant, same_type, shape_of
from jitopt.passes.rules import Builder

CONTRACTIONS = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"})
_FLOATS = ("float16", "float32", "float64")


@dataclass(frozen=True)
class Linear:
    """A contraction that may be rebuilt with other weights.

    node      Conv, ConvTranspose, Gemm or MatMul
    add       the Add of a constant bias behind a MatMul, else None
    weight    float64 copy is made on use; bias float64 [channels], None where there is none
    axis      the output's channel axis
    """

    node: Node
    add: Node | None
    weight: Array
    bias: Array | None
    channels: int
    axis: int

    def scaled(self, build: Builder, scale: Array, shift: Array) -> Value | Refusal:
        """The same contraction with channel c of its output times scale[c] plus shift[c] (float64 [channels])."""
        bias = shift if self.bias is None else self.bias * scale + shift
        needs_bias = self.bias is not None or bool(np.any(shift != 0))
        return self.rebuilt(build, self.node.arg(0), _along_channels(self, scale), bias if needs_bias else None)

    def rebuilt(self, build: Builder, x: Value, weight: Array, bias: Array | None) -> Value | Refusal:
        """The same contraction of `x` with float64 `weight` and `bias`; refused where they do not fit the dtype."""
        dtype = self.weight.dtype
        with np.errstate(all="ignore"):
            narrow = weight.astype(dtype)
            offset = None if bias is None else bias.astype(dtype)
        if not np.all(np.isfinite(narrow)) or (offset is not None and not np.all(np.isfinite(offset))):
            return Refusal(f"the folded weights do not fit {dtype}")
        if _vanishes(weight, dtype):
            return Refusal(f"the folded weights are too small for {dtype}")
        node = self.node
        w = build.constant(narrow, name=f"{node.name}/weight")
        b = None if offset is None else build.constant(offset, name=f"{node.name}/bias")
        if node.op == "MatMul":
            return self._matmul(build, x, w, b)
        inputs = [x, w] if b is None else [x, w, b]
        return build.like(node, inputs, beta=None) if node.op == "Gemm" else build.like(node, inputs)

    def _matmul(self, build: Builder, x: Value, w: Value, b: Value | None) -> Value:
        if b is None:
            return build.like(self.node, [x, w])
        if len(x.shape) == 2:
            return build.add("Gemm", [x, w, b], name=self.node.name)
        name = self.node.name if self.add is None else self.add.name
        return build.add("Add", [build.like(self.node, [x, w]), b], name=name)


def linear_producer(value: Value) -> Linear | Refusal | None:
    """The contraction that alone makes `value`, for nobody but one reader."""
    node = value.producer
    if node is None:
        return None
    add = node if node.op == "Add" else None
    bias: Array | None = None
    if add is not None:
        product, constant = add.arg(0), numeric_constant(add.arg(1))
        if constant is None:
            product, constant = add.arg(1), numeric_constant(add.arg(0))
        if constant is None or product.producer is None or product.producer.op != "MatMul":
            return None
        if not same_type(product, value):
            return None
        node, bias = product.producer, constant
        if not inner_use_only(product):
            return Refusal(f"the output of '{node.name}' has another reader")
    if node.op not in CONTRACTIONS:
        return None
    if not inner_use_only(value):
        return Refusal(f"the output of '{node.name}' has another reader")
    found = contraction(node)
    if not isinstance(found, Linear) or add is None or bias is None:
        return found
    vector = channel_vector(bias, len(value.shape), found.axis, found.channels)
    return None if vector is None else Linear(node, add, found.weight, vector, found.channels, found.axis)


def contraction(node: Node) -> Linear | Refusal | None:
    """The node as a contraction whose weights may be changed: constant, finite, its own."""
    value = node.input(1)
    weight = numeric_constant(value)
    if value is None or weight is None or weight.dtype.name not in _FLOATS:
        return Refusal(f"the weight of '{node.name}' is not constant")
    if len(value.uses) != 1 or node.graph.is_output(value):
        return Refusal(f"the weight of '{node.name}' is shared")
    if not np.all(np.isfinite(weight)):
        return Refusal(f"the weight of '{node.name}' is not finite")
    rank = shape_of(node.output)
    if rank is None or (node.op == "MatMul" and weight.ndim != 2):
        return None
    channels = _channels(node, weight)
    axis = len(rank) - 1 if node.op in ("Gemm", "MatMul") else 1
    if node.input(2) is None:
        return Linear(node, None, weight, None, channels, axis)
    bias = numeric_constant(node.arg(2))
    if bias is None or not np.all(np.isfinite(bias)):
        return Refusal(f"the bias of '{node.name}' is not a finite constant")
    vector = channel_vector(bias, len(rank), axis, channels) if node.op == "Gemm" else bias.astype(np.float64)
    if vector is None:
        return Refusal(f"the bias of '{node.name}' varies along rows")
    if node.op == "Gemm":
        vector = vector * float(attribute(node, "beta"))
    return Linear(node, None, weight, vector, channels, axis)


def channel_vector(array: Array, rank: int, axis: int, channels: int) -> Array | None:
    """A constant that broadcasts over a tensor of `rank` as one float64 number a channel; None where it varies more."""
    if array.ndim > rank:
        return None
    shape = (1,) * (rank - array.ndim) + array.shape
    if any(d != 1 for i, d in enumerate(shape) if i != axis) or shape[axis] not in (1, channels):
        return None
    return np.broadcast_to(array.reshape(-1).astype(np.float64), (channels,))


def _channels(node: Node, weight: Array) -> int:
    if node.op == "Conv":
        return int(weight.shape[0])
    if node.op == "ConvTranspose":
        return int(weight.shape[1]) * int(attribute(node, "group"))
    return int(weight.shape[0 if node.op == "Gemm" and attribute(node, "transB") else 1])


def _along_channels(self: Linear, scale: Array) -> Array:
    """The weight, float64, times one number for each output channel."""
    node, w = self.node, self.weight.astype(np.float64)
    if node.op == "Conv":  # [M, C/g, taps...]
        return np.asarray(w * scale.reshape(-1, *(1,) * (w.ndim - 1)))
    if node.op == "ConvTranspose":  # [C, M/g, taps...]: output channel g*(M/g) + j reads rows of group g only
        group = int(attribute(node, "group"))
        blocks = w.reshape(group, w.shape[0] // group, *w.shape[1:])
        return np.asarray(blocks * scale.reshape(group, 1, -1, *(1,) * (w.ndim - 2))).reshape(w.shape)
    transposed = node.op == "Gemm" and attribute(node, "transB")
    return np.asarray(w * (scale[:, None] if transposed else scale[None, :]))


def along_inputs(self: Linear, scale: Array) -> Array:
    """The weight, float64, times one number for each input channel (Conv, ConvTranspose) or row (Gemm, MatMul)."""
    node, w = self.node, self.weight.astype(np.float64)
    if node.op == "Conv":  # group g of the outputs reads input channels g*(C/g) + j
        group = int(attribute(node, "group"))
        blocks = w.reshape(group, w.shape[0] // group, *w.shape[1:])
        return np.asarray(blocks * scale.reshape(group, 1, -1, *(1,) * (w.ndim - 2))).reshape(w.shape)
    if node.op == "ConvTranspose":
        return np.asarray(w * scale.reshape(-1, *(1,) * (w.ndim - 1)))
    transposed = node.op == "Gemm" and attribute(node, "transB")
    return np.asarray(w * (scale[None, :] if transposed else scale[:, None]))


def _vanishes(weight: Array, dtype: np.dtype[Any]) -> bool:
    """A weight whose largest element lies among the denormals of `dtype` or near them."""
    largest = float(np.max(np.abs(weight), initial=0.0))
    return 0 < largest < 1024 * float(np.finfo(dtype).tiny)
