"""What each reducing operator computes, as instructions over one folded axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitopt.ir.graph import Node, Value
from jitopt.lower.body import BodyBuilder
from jitopt.ops.operator import Attrs

Expansion = Callable[[BodyBuilder, Node, Attrs], None]
EXPANSIONS: dict[str, Expansion] = {}


def expansion(*names: str) -> Callable[[Expansion], Expansion]:
    """Register the expansion of operators."""

    def enter(function: Expansion) -> Expansion:
        EXPANSIONS.update(dict.fromkeys(names, function))
        return function

    return enter


def _input(b: BodyBuilder, node: Node) -> str:
    return b.ref(node.arg(0))


def _mean(b: BodyBuilder, x: str) -> str:
    return b.emit("div", b.emit("reduce_sum", x), "length")


def _square(b: BodyBuilder, x: str) -> str:
    return b.emit("mul", x, x)


@expansion("ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd", "GlobalMaxPool")
def _fold(b: BodyBuilder, node: Node, attrs: Attrs) -> None:
    fold = {"ReduceSum": "sum", "ReduceMax": "max", "ReduceMin": "min", "ReduceProd": "prod", "GlobalMaxPool": "max"}
    b.define(node.output, b.emit(f"reduce_{fold[node.op]}", _input(b, node)))


@expansion("ReduceMean", "GlobalAveragePool")
def _average(b: BodyBuilder, node: Node, attrs: Attrs) -> None:
    b.define(node.output, _mean(b, _input(b, node)))


@expansion("ReduceL1")
def _l1(b: BodyBuilder, node: Node, attrs: Attrs) -> None:
    b.define(node.output, b.emit("reduce_sum", b.emit("abs", _input(b, node))))


@expansion("ReduceL2", "ReduceSumSquare")
def _l2(b: BodyBuilder, node: Node, attrs: Attrs) -> None:
    total = b.emit("reduce_sum", _square(b, _input(b, node)))
    b.define(node.output, b.emit("sqrt", total) if node.op == "ReduceL2" else total)


@expansion("ReduceLogSum")
def _log_sum(b: BodyBuilder, node: Node, attrs: Attrs) -> None:
    b.define(node.output, b.emit("log", b.emit("reduce_sum", _input(b, node))))


def _shifted(b: BodyBuilder, x: str) -> tuple[str, str]:
    """The maximum and x minus it."""
    top = b.emit("reduce_max", x)
    return top, b.emit("sub", x, top)


@expansion("Softmax", "LogSoftmax")
def _softmax(b: BodyBuilder, node: Node, attrs: Attrs) -> None:
    _, shifted = _shifted(b, _input(b, node))
    powers = b.emit("exp", shifted)
    total = b.emit("reduce_sum", powers)
    if node.op == "Softmax":
        b.define(node.output, b.emit("div", powers, total))
    else:
        b.define(node.output, b.emit("sub", shifted, b.emit("log", total)))


@expansion("ReduceLogSumExp")
def _log_sum_exp(b: BodyBuilder, node: Node, attrs: Attrs) -> None:
    """An infinite maximum is not taken out: the row's result is that infinity, not the NaN of inf - inf."""
    x, zero, both = _input(b, node), b.literal(0.0, "float32"), b.literal(1.0, "float32")
    top = b.emit("reduce_max", x)
    top = b.emit("where", b.emit("isinf", top, both, both, dtype="bool"), zero, top, dtype="float32")
    total = b.emit("reduce_sum", b.emit("exp", b.emit("sub", x, top)))
    b.define(node.output, b.emit("add", b.emit("log", total), top))


def _normalised(b: BodyBuilder, x: str, epsilon: float) -> tuple[str, str, str]:
    """Mean, reciprocal standard deviation and (x - mean) times it; two passes, so no cancellation."""
    mean = _mean(b, x)
    centred = b.emit("sub", x, mean)
    variance = _mean(b, _square(b, centred))
    spread = b.emit("sqrt", b.emit("add", variance, b.literal(epsilon, "float32")))
    inverse = b.emit("reciprocal", spread)
    return mean, inverse, b.emit("mul", centred, inverse)


def _scale_shift(b: BodyBuilder, x: str, scale: Value | None, shift: Value | None) -> str:
    out = x if scale is None else b.emit("mul", x, b.ref(scale))
    return out if shift is None else b.emit("add", out, b.ref(shift))


@expansion("LayerNormalization")
def _layer_norm(b: BodyBuilder, node: Node, attrs: Attrs) -> None:
    mean, inverse, unit = _normalised(b, _input(b, node), attrs.epsilon)
    b.define(node.output, _scale_shift(b, unit, node.input(1), node.input(2)))
    for value, ref in zip(node.outputs[1:], (mean, inverse), strict=False):
        b.define(value, ref)


@expansion("RMSNormalization")
def _rms_norm(b: BodyBuilder, node: Node, attrs: Attrs) -> None:
    x = _input(b, node)
    spread = b.emit("sqrt", b.emit("add", _mean(b, _square(b, x)), b.literal(attrs.epsilon, "float32")))
    b.define(node.output, _scale_shift(b, b.emit("div", x, spread), node.input(1), None))


@expansion("LpNormalization")
def _lp_norm(b: BodyBuilder, node: Node, attrs: Attrs) -> None:
    x = _input(b, node)
    powers = b.emit("abs", x) if attrs.p == 1 else _square(b, x)
    total = b.emit("reduce_sum", powers)
    norm = total if attrs.p == 1 else b.emit("sqrt", total)
    zero = b.literal(0.0, "float32")
    b.define(
        node.output,
        b.emit("where", b.emit("equal", norm, zero, dtype="bool"), zero, b.emit("div", x, norm), dtype="float32"),
    )


@expansion("InstanceNormalization")
def _instance_norm(b: BodyBuilder, node: Node, attrs: Attrs) -> None:
    _, _, unit = _normalised(b, _input(b, node), attrs.epsilon)
    spatial = len(node.arg(0).shape) - 2
    b.define(node.output, _scale_shift(b, unit, _per_channel(node.arg(1), spatial), _per_channel(node.arg(2), spatial)))


def _per_channel(value: Value, spatial: int) -> Value:
    """A constant [C] as [C, 1, ..., 1], to broadcast over channels."""
    assert value.constant is not None
    shaped = Value(value.name, value.tensor.with_shape((*value.shape, *(1,) * spatial)))
    shaped.constant = value.constant.reshape(value.constant.shape + (1,) * spatial)
    return shaped


def folded_axes(node: Node, attrs: Any) -> tuple[int, ...] | None:
    """Logical axes the operator folds, in range and sorted; None where they are not known at compile time."""
    rank = len(node.arg(0).shape)
    if node.op in ("GlobalAveragePool", "GlobalMaxPool", "InstanceNormalization"):
        return tuple(range(2, rank))
    if node.op in ("Softmax", "LogSoftmax", "LpNormalization"):
        return (attrs.axis % rank,)
    if node.op in ("LayerNormalization", "RMSNormalization"):
        return tuple(range(attrs.axis % rank, rank))
    axes = node.input(1)
    if axes is None:
        return () if getattr(attrs, "noop_with_empty_axes", 0) else tuple(range(rank))
    if axes.constant is None:
        return None
    found = tuple(sorted({int(a) % rank for a in axes.constant.ravel()}))
    return found or (() if getattr(attrs, "noop_with_empty_axes", 0) else tuple(range(rank)))
