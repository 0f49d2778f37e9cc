"""Maps of any number of tensors: Min, Max, Sum, Mean, Clip; and those that leave one alone: Identity, Dropout."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np

from jitopt.errors import ModelError
from jitopt.ir.dtypes import DType
from jitopt.ir.graph import Graph, Node, Value
from jitopt.ir.types import Type
from jitopt.ops import cases, symbolic
from jitopt.ops.elementwise import FORMULAS
from jitopt.ops.operator import ANY, Array, Attribute, Attrs, Kind, Operator, Param, Sample
from jitopt.ops.registry import register
from jitopt.ops.rules import broadcast_inputs, require, same_as_first, shape_of, show
from jitopt.ops.signature import BOOLS, NUMERIC, REALS, declare, dtypes
from jitopt.ops.symbolic import mapped
from jitopt.ops.upgrades import add_input


def variadic(
    name: str, function: Callable[..., Array], *, allowed: frozenset[DType], since: tuple[int, ...],
    formula: str | None, content: Any = None,
) -> Operator:  # fmt: skip
    """Declare a map of one or more tensors of one type, folded with a function of two."""

    def samples() -> list[Sample]:
        a, b, c = cases.floats(3, 5), cases.floats(2, 1, 5, seed=1), cases.floats(1, seed=2)
        out = [cases.sample(a), cases.sample(a, cases.floats(3, 5, seed=1), cases.floats(3, 5, seed=2))]
        out += [cases.sample(*inputs, opset=8) for inputs in ((a, b), (a, b, c), (c, cases.floats(0)))]
        if allowed - REALS:
            out += [cases.sample(cases.ints(3, dtype=n), cases.ints(2, 3, dtype=n, seed=1)) for n in ("int32", "int64")]
        return out

    return declare(
        name, Kind.MAP, (Param("data_0", allowed, variadic=True),), (Param("result", allowed),), _some_broadcast,
        lambda attrs, *arrays: function(*arrays), since=since, formula=formula, content=content, samples=samples,
    )  # fmt: skip


def _some_broadcast(node: Node, attrs: Attrs) -> Sequence[Any]:
    if not node.inputs:
        raise ModelError("needs at least one input")
    return broadcast_inputs(node, attrs)


def _sum(*arrays: Array) -> Array:
    return reduce(np.add, arrays)


def _mean(*arrays: Array) -> Array:
    return np.asarray(_sum(*arrays) / arrays[0].dtype.type(len(arrays)))


variadic(
    "Min", lambda *arrays: reduce(np.minimum, arrays), allowed=NUMERIC, since=(6, 8, 12, 13),
    formula=FORMULAS + "minimum", content=mapped(symbolic.minimum),
)  # fmt: skip
variadic(
    "Max", lambda *arrays: reduce(np.maximum, arrays), allowed=NUMERIC, since=(6, 8, 12, 13),
    formula=FORMULAS + "maximum", content=mapped(symbolic.maximum),
)  # fmt: skip
variadic("Sum", _sum, allowed=REALS, since=(6, 8, 13), formula=FORMULAS + "add")
variadic("Mean", _mean, allowed=REALS, since=(6, 8, 13), formula=None)


# Clip ---------------------------------------------------------------------------------------------------------------
def _clip(attrs: Attrs, x: Array, low: Array | None = None, high: Array | None = None) -> Array:
    """min(max(x, low), high): where low > high the result is high, as in ONNX from opset 13 on."""
    out = x if low is None else np.maximum(x, low)
    return np.asarray(out if high is None else np.minimum(out, high))


def _clip_shape(node: Node, attrs: Attrs) -> Any:
    for index, name in ((1, "min"), (2, "max")):
        if node.input(index) is not None:
            shape = node.arg(index).tensor.shape
            require(shape is None or all(d == 1 for d in shape), f"{name} must be a scalar, not {show(shape or ())}")
    return [shape_of(node)]


def _clip_content(attrs: Attrs, node: Node, *arrays: Any) -> Any:
    def clip(x: Any, *bounds: Any) -> Any:
        given = [i for i in (1, 2) if node.input(i) is not None]
        for index, bound in zip(given, bounds, strict=True):
            x = symbolic.maximum(x, bound) if index == 1 else symbolic.minimum(x, bound)
        return x

    absent = [i for i in range(len(arrays)) if node.input(i) is None]
    if absent:
        return None
    return mapped(clip)(attrs, node, *arrays)


def _bounds_to_inputs(graph: Graph, node: Node) -> None:
    """Before opset 11 the bounds were float attributes and the tensor a floating-point one."""
    value = node.input(0)
    known = value.type if value is not None else None
    name = getattr(getattr(known, "dtype", None), "name", "float32")
    for index, key in ((1, "min"), (2, "max")):
        bound = node.attrs.pop(key, None)
        if bound is not None:
            add_input(graph, node, index, np.asarray(bound, name), key)


def _clip_samples() -> list[Sample]:
    x, low, high = cases.floats(3, 5, low=-9, high=9), cases.scalar(-2.0), cases.scalar(3.5)
    whole = cases.ints(3, 5)
    return [
        cases.sample(x, low, high),
        cases.sample(x, low),
        cases.sample(x, None, high),
        cases.sample(x),
        cases.sample(cases.specials(), low, high),
        cases.sample(cases.floats(3, 5, dtype="float64"), cases.scalar(-1, "float64"), cases.scalar(1, "float64")),
        cases.sample(whole, cases.scalar(-2, "int64"), cases.scalar(5, "int64")),
        cases.sample(cases.ints(4, low=0, dtype="uint8"), cases.scalar(2, "uint8"), None),
        cases.sample(x, min=-2.0, max=3.5, opset=7),
        cases.sample(x, min=0.0, opset=7),
        cases.sample(x, opset=7),
    ]


declare(
    "Clip", Kind.MAP,
    (Param("input", NUMERIC), Param("min", NUMERIC, optional=True), Param("max", NUMERIC, optional=True)),
    (Param("output", NUMERIC),), _clip_shape, _clip, since=(6, 11, 12, 13), upgrades=((11, _bounds_to_inputs),),
    formula=FORMULAS + "clip", content=_clip_content, samples=_clip_samples,
)  # fmt: skip


# Identity and Dropout -----------------------------------------------------------------------------------------------
def _identity_infer(node: Node, attrs: Attrs) -> Sequence[Type | None]:
    return [node.arg(0).type]


register(
    Operator(
        "Identity",
        Kind.VIEW,
        (Param("input", ANY, "V"),),
        (Param("output", ANY, "V"),),
        _identity_infer,  # type: ignore[arg-type]
        lambda attrs, x: x,
        since=(1, 13, 14, 16, 19, 21, 23, 24, 25),
        content=lambda attrs, node, x: x,
        samples=lambda: [cases.sample(cases.floats(3, 5)), cases.sample(cases.ints(2, 0)), cases.sample(cases.bools())],
    )
)  # fmt: skip

_DROPPED = REALS | dtypes("float8e4m3fn float8e4m3fnuz float8e5m2 float8e5m2fnuz")


def _dropout(attrs: Attrs, x: Array, ratio: Array | None = None, training: Array | None = None) -> Any:
    """Inference only: the data, and a mask that keeps everything."""
    if training is not None and bool(training) and (ratio is None or float(ratio) > 0):
        raise ModelError("Dropout in training mode is not supported")
    return (x, np.ones(x.shape, bool))[: attrs.outputs] if attrs.outputs > 1 else x


def _dropout_shape(node: Node, attrs: Attrs) -> Any:
    training = node.input(2)
    if training is not None and training.constant is not None and training.constant.any():
        ratio = node.input(1)
        if ratio is None or ratio.constant is None or ratio.constant.any():
            raise ModelError("training mode is not supported")
    return same_as_first(node, attrs)


def _drop_ratio(graph: Graph, node: Node) -> None:
    """Before opset 12 the ratio was an attribute, there was no training mode, and the mask came out all false."""
    node.attrs.pop("ratio", None)
    _derive_mask(graph, node, "Not")


def _mask_to_data_type(graph: Graph, node: Node) -> None:
    """Before opset 10 the mask had the data's type."""
    _derive_mask(graph, node, "CastLike", node.arg(0))


def _derive_mask(graph: Graph, node: Node, op: str, *operands: Value) -> None:
    """Put an operator between the node's mask and what reads it."""
    if len(node.outputs) > 1:
        mask = node.outputs[1]
        node.outputs[1] = graph.value(f"{mask.name}/{op}")
        node.outputs[1].producer, mask.producer = node, None
        graph.add(op, [node.outputs[1], *operands], outputs=[mask], name=f"{node.name}/{op}")


def _dropout_samples() -> list[Sample]:
    x = cases.floats(3, 5)
    return [
        cases.sample(x, cases.scalar(0.3)),
        cases.sample(x, cases.scalar(0.3), cases.scalar(False, "bool"), outputs=2),
        cases.sample(x),
        cases.sample(x, ratio=0.3, opset=10),
        cases.sample(x, ratio=0.3, outputs=2, opset=10),
        cases.sample(x, ratio=0.3, outputs=2, opset=7),
    ]


declare(
    "Dropout", Kind.MAP,
    (
        Param("data", _DROPPED), Param("ratio", _DROPPED, "T1", optional=True),
        Param("training_mode", BOOLS, "M", optional=True),
    ),
    (Param("output", _DROPPED), Param("mask", BOOLS, "M", optional=True)), _dropout_shape, _dropout,
    since=(7, 10, 12, 13, 22), upgrades=((10, _mask_to_data_type), (12, _drop_ratio)),
    attributes={"seed": Attribute("int")}, samples=_dropout_samples,
)  # fmt: skip
