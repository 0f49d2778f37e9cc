"""Normalisations along channels: BatchNormalization, InstanceNormalization, GroupNormalization, LRN."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jitopt.errors import ModelError
from jitopt.ir.dims import Shape
from jitopt.ir.graph import Graph, Node, Value
from jitopt.ops import cases
from jitopt.ops.operator import Array, Attribute, Attrs, Kind, Param, Sample
from jitopt.ops.rules import require, same, same_as_first, shape_of, show
from jitopt.ops.signature import REALS, declare

EPSILON = Attribute("float", 1e-5, check=lambda e: e >= 0)
STASH = Attribute("int", 1)


def channel_vectors(node: Node, shape: Shape, indices: Sequence[int]) -> None:
    """Check that the inputs at `indices` are 1-D of C elements, C being the extent of axis 1 of `shape`."""
    require(len(shape) >= 2, f"the input needs a batch and a channel axis, not {show(shape)}")
    for index in indices:
        vector = shape_of(node, index)
        require(len(vector) == 1, f"input {index} must be 1-D, not {show(vector)}")
        same(vector[0], shape[1], f"input {index} and the channels differ")


def along_channels(vector: Array, rank: int) -> Array:
    """A [C] vector shaped to broadcast along axis 1 of a tensor of that rank."""
    return vector.reshape(-1, *(1,) * (rank - 2))


# BatchNormalization -------------------------------------------------------------------------------------------------
def _batch_rule(node: Node, attrs: Attrs) -> Sequence[Shape]:
    shape = shape_of(node)
    if len(node.outputs) > 1 and not attrs.training_mode:
        raise ModelError("running statistics are outputs of training mode only")
    if len(shape) == 1:
        return [shape]
    channel_vectors(node, shape, (1, 2, 3, 4))
    return [shape, (shape[1],), (shape[1],)][: len(node.outputs)]


def _batch(attrs: Attrs, x: Array, scale: Array, bias: Array, mean: Array, variance: Array) -> Any:
    """(x - mean) / sqrt(variance + epsilon) * scale + bias; in training mode with the batch's own statistics."""
    rank = max(x.ndim, 2)
    running: tuple[Array, ...] = ()
    if attrs.training_mode:
        axes = tuple(i for i in range(x.ndim) if i != 1)
        own_mean, own_variance = x.mean(axis=axes, dtype=np.float64), x.var(axis=axes, dtype=np.float64)
        pairs = ((mean, own_mean), (variance, own_variance))
        running = tuple((old * attrs.momentum + new * (1 - attrs.momentum)).astype(old.dtype) for old, new in pairs)
        mean, variance = own_mean, own_variance
    factor = scale / np.sqrt(variance.astype(np.float64) + attrs.epsilon)
    shift = bias - mean * factor
    out = x * along_channels(factor.astype(x.dtype), rank) + along_channels(shift.astype(x.dtype), rank)
    return (out, *running)[: attrs.outputs] if attrs.outputs > 1 else out


def _plain_batch_norm(graph: Graph, node: Node) -> None:
    """Before opset 14: per-channel statistics always (spatial=1), training told by the number of outputs."""
    if node.attrs.pop("spatial", 1) != 1:
        raise ModelError("BatchNormalization with spatial=0 is not supported", node=node.name)
    if any(value.uses or graph.is_output(value) for value in node.outputs[1:]):
        raise ModelError("BatchNormalization in training mode of opset 13 or older is not supported", node=node.name)
    for value in node.outputs[1:]:
        value.producer = None
    del node.outputs[1:]


def _batch_inputs(*shape: int, dtype: str = "float32") -> list[Array]:
    c = shape[1]
    vectors = [cases.floats(c, seed=i, dtype=dtype) for i in (1, 2, 3)]
    return [cases.floats(*shape, dtype=dtype), *vectors, cases.floats(c, low=0.1, high=3, seed=4, dtype=dtype)]


def _batch_samples() -> list[Sample]:
    return [
        cases.sample(*_batch_inputs(2, 3, 4, 5), opset=7),
        cases.sample(*_batch_inputs(2, 3), epsilon=0.01, opset=7),
        cases.sample(*_batch_inputs(2, 3, 4, 5)),
        cases.sample(*_batch_inputs(2, 5), epsilon=0.01),
        cases.sample(*_batch_inputs(1, 4, 7), momentum=0.5),
        cases.sample(*_batch_inputs(0, 3, 2)),
        cases.sample(*_batch_inputs(2, 3, 4, dtype="float64")),
        cases.sample(*_batch_inputs(2, 3, 4, 5), training_mode=1, outputs=3),
    ]


declare(
    "BatchNormalization", Kind.REDUCE,
    (
        Param("X", REALS), Param("scale", REALS, "T1"), Param("B", REALS, "T1"), Param("input_mean", REALS, "T2"),
        Param("input_var", REALS, "T2"),
    ),
    (
        Param("Y", REALS), Param("running_mean", REALS, "T2", optional=True),
        Param("running_var", REALS, "T2", optional=True),
    ),
    _batch_rule, _batch, since=(7, 9, 14, 15), upgrades=((14, _plain_batch_norm),), samples=_batch_samples,
    attributes={
        "epsilon": EPSILON, "momentum": Attribute("float", 0.9), "training_mode": Attribute("int", 0, choices=(0, 1)),
    },
)  # fmt: skip


# InstanceNormalization, GroupNormalization --------------------------------------------------------------------------
def _per_channel_rule(node: Node, attrs: Attrs) -> Sequence[Shape]:
    shape = shape_of(node)
    channel_vectors(node, shape, (1, 2))
    return [shape]


def _normalised(x: Array, groups: int, epsilon: float) -> Array:
    """x with mean 0 and variance 1 over every group of channels and all positions, in float64."""
    wide = x.astype(np.float64).reshape(x.shape[0], groups, x.shape[1] // groups, *x.shape[2:])
    axes = tuple(range(2, wide.ndim))
    wide = wide - wide.mean(axis=axes, keepdims=True)
    return np.reshape(wide / np.sqrt((wide * wide).mean(axis=axes, keepdims=True) + epsilon), x.shape)


def _instance(attrs: Attrs, x: Array, scale: Array, bias: Array) -> Array:
    out = _normalised(x, x.shape[1], attrs.epsilon)
    return out * along_channels(scale, x.ndim) + along_channels(bias, x.ndim)


def _group_rule(node: Node, attrs: Attrs) -> Sequence[Shape]:
    shape = shape_of(node)
    channel_vectors(node, shape, (1, 2))
    if isinstance(shape[1], int) and shape[1] % attrs.num_groups:
        raise ModelError(f"{shape[1]} channels do not divide into {attrs.num_groups} groups")
    return [shape]


def _group(attrs: Attrs, x: Array, scale: Array, bias: Array) -> Array:
    out = _normalised(x, attrs.num_groups, attrs.epsilon)
    return out * along_channels(scale, x.ndim) + along_channels(bias, x.ndim)


def _per_group_to_channel(graph: Graph, node: Node) -> None:
    """Before opset 21 scale and bias had one element a group; repeat each for the channels of its group."""
    stem, groups = node.name, int(node.attrs["num_groups"])
    numbers = {"one": [1], "two": [2], "groups": [groups], "flat": [-1], "column": [groups, 1]}
    constant = {k: graph.constant(np.array(v, np.int64), name=f"{stem}/{k}") for k, v in numbers.items()}
    shape = graph.add("Shape", [node.arg(0)], name=f"{stem}/shape")
    channels = graph.add("Slice", [shape, constant["one"], constant["two"]], name=f"{stem}/channels")
    each = graph.add("Div", [channels, constant["groups"]], name=f"{stem}/each")
    target = graph.add("Concat", [constant["groups"], each], axis=0, name=f"{stem}/target")

    def repeated(vector: Value, name: str) -> Value:
        column = graph.add("Reshape", [vector, constant["column"]], name=f"{stem}/{name}/column")
        wide = graph.add("Expand", [column, target], name=f"{stem}/{name}/wide")
        found: Value = graph.add("Reshape", [wide, constant["flat"]], name=f"{stem}/{name}")
        return found

    for index, name in ((1, "scale"), (2, "bias")):
        node.set_input(index, repeated(node.arg(index), name))


def _instance_samples() -> list[Sample]:
    scale, bias = cases.floats(3, seed=1), cases.floats(3, seed=2)
    shapes = ((2, 3, 4, 5), (1, 3, 7), (2, 3, 2, 3, 4))
    return [cases.sample(cases.floats(*s, high=4), scale, bias) for s in shapes] + [
        cases.sample(cases.floats(2, 3, 4, 5), scale, bias, epsilon=0.1)
    ]


def _group_samples() -> list[Sample]:
    x, scale, bias = cases.floats(2, 6, 4, 5, high=4), cases.floats(6, seed=1), cases.floats(6, seed=2)
    pair = cases.floats(2, seed=1), cases.floats(2, seed=2)
    new = [cases.sample(x, scale, bias, num_groups=g) for g in (1, 2, 6)]
    return [*new, cases.sample(x, *pair, num_groups=2, epsilon=0.01, opset=18)]


declare(
    "InstanceNormalization", Kind.REDUCE, (Param("input", REALS), Param("scale", REALS), Param("B", REALS)),
    (Param("output", REALS),), _per_channel_rule, _instance, since=(6, 22), attributes={"epsilon": EPSILON},
    samples=_instance_samples,
)  # fmt: skip
declare(
    "GroupNormalization", Kind.REDUCE, (Param("X", REALS), Param("scale", REALS), Param("bias", REALS)),
    (Param("Y", REALS),), _group_rule, _group, since=(18, 21), upgrades=((21, _per_group_to_channel),),
    samples=_group_samples,
    attributes={
        "epsilon": EPSILON, "num_groups": Attribute("int", required=True, check=lambda g: g >= 1), "stash_type": STASH,
    },
)  # fmt: skip


# LRN ----------------------------------------------------------------------------------------------------------------
def _lrn(attrs: Attrs, x: Array) -> Array:
    """x / (bias + alpha / size * sum of squares over `size` neighbouring channels) ** beta."""
    squares = x.astype(np.float64) ** 2
    before = (attrs.size - 1) // 2
    sums = np.pad(np.cumsum(squares, axis=1), [(0, 0), (1, 0)] + [(0, 0)] * (x.ndim - 2))
    channels = np.arange(x.shape[1])
    low, high = np.maximum(channels - before, 0), np.minimum(channels + attrs.size - before, x.shape[1])
    return np.asarray(x / (attrs.bias + attrs.alpha / attrs.size * (sums[:, high] - sums[:, low])) ** attrs.beta)


def _lrn_samples() -> list[Sample]:
    x = cases.floats(2, 7, 3, 4, high=9)
    return [cases.sample(x, size=3), cases.sample(x, size=5, alpha=0.3, beta=0.5, bias=2.0)]


declare(
    "LRN", Kind.WINDOW, (Param("X", REALS),), (Param("Y", REALS),), same_as_first, _lrn, since=(1, 13),
    samples=_lrn_samples,
    attributes={
        "alpha": Attribute("float", 1e-4), "beta": Attribute("float", 0.75), "bias": Attribute("float", 1.0),
        "size": Attribute("int", required=True, check=lambda s: s >= 1),
    },
)  # fmt: skip
