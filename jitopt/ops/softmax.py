"""Normalisations along one axis or a few, without parameters: Softmax, LogSoftmax, Hardmax, LpNormalization, MVN."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jitopt.ir.dims import Shape
from jitopt.ir.graph import Graph, Node
from jitopt.ir.types import TensorType
from jitopt.ops import cases
from jitopt.ops.contents import axes_of, axis_of
from jitopt.ops.operator import Array, Attribute, Attrs, Kind, Param, Sample
from jitopt.ops.rules import shape_of
from jitopt.ops.signature import REALS, declare
from jitopt.ops.upgrades import take_out


def _rule(node: Node, attrs: Attrs) -> Sequence[Shape]:
    shape = shape_of(node)
    axis_of(attrs.axis, len(shape))
    return [shape]


def softmax(x: Array, axis: int) -> Array:
    shifted = x - np.max(x, axis=axis, keepdims=True, initial=-np.inf)
    powers = np.exp(shifted)
    return np.asarray(powers / np.sum(powers, axis=axis, keepdims=True))


def log_softmax(x: Array, axis: int) -> Array:
    shifted = x - np.max(x, axis=axis, keepdims=True, initial=-np.inf)
    return np.asarray(shifted - np.log(np.sum(np.exp(shifted), axis=axis, keepdims=True)))


def hardmax(x: Array, axis: int) -> Array:
    """1 at the first maximum along the axis, 0 elsewhere."""
    out = np.zeros_like(x)
    if x.size:
        np.put_along_axis(out, np.expand_dims(np.argmax(x, axis=axis), axis), 1, axis=axis)
    return out


def _flatten_first(graph: Graph, node: Node) -> None:
    """Before opset 13 all axes from `axis` (default 1) on counted as one."""
    axis, x = int(node.attrs.pop("axis", 1)), node.arg(0)
    rank = x.type.rank if isinstance(x.type, TensorType) else None
    if axis == -1 or (rank is not None and axis == rank - 1):
        node.attrs["axis"] = -1
        return
    op, stem = node.op, node.name
    outputs = take_out(graph, node)
    flat = graph.add("Flatten", [x], axis=axis, name=f"{stem}/flat")
    result = graph.add(op, [flat], axis=-1, name=stem)
    graph.add(
        "Reshape", [result, graph.add("Shape", [x], name=f"{stem}/shape")], outputs=outputs, name=f"{stem}/restore"
    )


def _samples() -> list[Sample]:
    x, deep = cases.floats(3, 5, low=-9, high=9), cases.floats(2, 3, 4, 5, seed=1)
    new = [cases.sample(deep, axis=axis) for axis in (-1, 1, 0, -2)]
    new += [cases.sample(x), cases.sample(x * 100), cases.sample(cases.floats(0, 5)), cases.sample(x.astype("float64"))]
    old = [
        cases.sample(x, opset=7),
        cases.sample(deep, axis=2, opset=7),
        cases.sample(deep, axis=0, opset=7),
        cases.sample(deep, axis=3, opset=7),
        cases.sample(deep, axis=-2, opset=11),
    ]
    return new + old


for _name, _function in (("Softmax", softmax), ("LogSoftmax", log_softmax), ("Hardmax", hardmax)):
    declare(
        _name, Kind.REDUCE, (Param("input", REALS),), (Param("output", REALS),), _rule,
        lambda attrs, x, function=_function: function(x, attrs.axis), since=(1, 11, 13),
        upgrades=((13, _flatten_first),), attributes={"axis": Attribute("int", -1)}, samples=_samples,
    )  # fmt: skip


# LpNormalization, MeanVarianceNormalization -------------------------------------------------------------------------
def _lp(attrs: Attrs, x: Array) -> Array:
    """x / (sum |x|^p)^(1/p) along the axis; zeros stay zeros."""
    wide = x.astype(np.float64)
    norm = np.sum(np.abs(wide) ** attrs.p, axis=attrs.axis, keepdims=True) ** (1 / attrs.p)
    return np.asarray(wide / np.where(norm == 0, 1, norm))


def _lp_samples() -> list[Sample]:
    x = cases.floats(3, 4, 5)
    zeros = np.zeros((2, 3), np.float32)
    choices: list[dict[str, Any]] = [{}, {"axis": 1}, {"p": 1}, {"p": 1, "axis": 0}]
    return [cases.sample(x, **c) for c in choices] + [cases.sample(zeros)]


declare(
    "LpNormalization", Kind.REDUCE, (Param("input", REALS),), (Param("output", REALS),), _rule, _lp, since=(1, 22),
    samples=_lp_samples, attributes={"axis": Attribute("int", -1), "p": Attribute("int", 2, choices=(1, 2))},
)  # fmt: skip


def _mean_variance(attrs: Attrs, x: Array) -> Array:
    axes = tuple(attrs.axes)
    centred = x - x.mean(axis=axes, keepdims=True, dtype=np.float64)
    return np.asarray(centred / (np.sqrt((centred * centred).mean(axis=axes, keepdims=True)) + 1e-9))


def _mean_variance_rule(node: Node, attrs: Attrs) -> Sequence[Shape]:
    shape = shape_of(node)
    axes_of(attrs.axes, len(shape))
    return [shape]


declare(
    "MeanVarianceNormalization", Kind.REDUCE, (Param("X", REALS),), (Param("Y", REALS),), _mean_variance_rule,
    _mean_variance, since=(9, 13), attributes={"axes": Attribute("ints", (0, 2, 3))},
    samples=lambda: [cases.sample(cases.floats(2, 3, 4, 5)), cases.sample(cases.floats(2, 3, 4, 5), axes=[1, 2, 3])],
)  # fmt: skip
