"""Normalisations over trailing axes: LayerNormalization, RMSNormalization."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jitopt.ir.dims import Shape
from jitopt.ir.dtypes import FLOAT32, DType
from jitopt.ir.graph import Node
from jitopt.ops import cases
from jitopt.ops.contents import axis_of
from jitopt.ops.normalisation import EPSILON, STASH
from jitopt.ops.operator import Array, Attribute, Attrs, Kind, Param, Sample
from jitopt.ops.rules import broadcast_to, shape_of, shape_or_none
from jitopt.ops.signature import REALS, declare, dtypes


def _layer_rule(node: Node, attrs: Attrs) -> Sequence[Shape]:
    shape = shape_of(node)
    axis = axis_of(attrs.axis, len(shape))
    for index, name in ((1, "the scale"), (2, "the bias")):
        if (vector := shape_or_none(node, index)) is not None:
            broadcast_to(shape, vector, name)
    kept = (*shape[:axis], *(1,) * (len(shape) - axis))
    return [shape, kept, kept][: len(node.outputs)]


def _statistics_type(node: Node, attrs: Attrs) -> Mapping[str, DType]:
    return {"U": FLOAT32}


def _layer(attrs: Attrs, x: Array, scale: Array, bias: Array | None = None) -> Any:
    axes = tuple(range(attrs.axis % x.ndim, x.ndim))
    wide = x.astype(np.float64)
    mean = wide.mean(axis=axes, keepdims=True)
    centred = wide - mean
    inverse = 1 / np.sqrt((centred * centred).mean(axis=axes, keepdims=True) + attrs.epsilon)
    out = centred * inverse * scale
    results: tuple[Array, ...] = (
        out if bias is None else out + bias,
        mean.astype(np.float32),
        inverse.astype(np.float32),
    )
    return results[: attrs.outputs] if attrs.outputs > 1 else results[0]


def _layer_samples() -> list[Sample]:
    x, scale, bias = cases.floats(2, 3, 8, high=5), cases.floats(8, seed=1), cases.floats(8, seed=2)
    wide = [cases.floats(*s, dtype="float64", seed=i) for i, s in enumerate([(3, 8), (8,), (8,)])]
    return [
        cases.sample(x, scale, bias),
        cases.sample(x, scale, epsilon=1e-3),
        cases.sample(x, cases.floats(3, 8), cases.floats(3, 8), axis=1),
        cases.sample(x, cases.floats(2, 3, 8), axis=0),
        cases.sample(x, scale, bias, outputs=3),
        cases.sample(x * 100 + 1000, scale, bias),
        cases.sample(*wide),
        cases.sample(cases.floats(0, 8), scale, bias),
    ]


declare(
    "LayerNormalization", Kind.REDUCE, (Param("X", REALS), Param("Scale", REALS), Param("B", REALS, optional=True)),
    (
        Param("Y", REALS), Param("Mean", dtypes("float32 bfloat16"), "U", optional=True),
        Param("InvStdDev", dtypes("float32 bfloat16"), "U", optional=True),
    ),
    _layer_rule, _layer, dtype=_statistics_type, since=(17,), samples=_layer_samples,
    attributes={"axis": Attribute("int", -1), "epsilon": EPSILON, "stash_type": STASH},
)  # fmt: skip


def _rms(attrs: Attrs, x: Array, scale: Array) -> Array:
    """x / sqrt(mean(x^2) + epsilon) * scale (Zhang and Sennrich, arXiv 1910.07467)."""
    axes = tuple(range(attrs.axis % x.ndim, x.ndim))
    wide = x.astype(np.float64)
    return np.asarray(wide / np.sqrt((wide * wide).mean(axis=axes, keepdims=True) + attrs.epsilon) * scale)


def _rms_samples() -> list[Sample]:
    x, scale = cases.floats(2, 3, 8), cases.floats(8, seed=1)
    shaped = cases.sample(x, cases.floats(3, 8), axis=1)
    return [
        cases.sample(x, scale),
        cases.sample(x, scale, epsilon=0.1),
        shaped,
        cases.sample(cases.floats(0, 8), scale),
    ]


declare(
    "RMSNormalization", Kind.REDUCE, (Param("X", REALS), Param("scale", REALS, "V")), (Param("Y", REALS, "V"),),
    _layer_rule, _rms, since=(23,), samples=_rms_samples,
    attributes={"axis": Attribute("int", -1), "epsilon": EPSILON, "stash_type": STASH},
)  # fmt: skip
