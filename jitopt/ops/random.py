"""Random tensors: RandomNormal, RandomUniform, their Like forms, Bernoulli, Multinomial.

Nothing promises the numbers of another runtime; with a seed every run of one node gives the same ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jitopt.errors import ModelError
from jitopt.ir.dims import Shape
from jitopt.ir.dtypes import BY_ONNX_CODE, DType
from jitopt.ir.graph import Node
from jitopt.ops.cases import counting, floats, sample
from jitopt.ops.operator import ANY, INDICES, Array, Attribute, Attrs, Kind, Param
from jitopt.ops.rules import require, same_as_first, shape_of, show
from jitopt.ops.signature import BOOLS, NUMERIC, REALS, declare, dtypes

REAL = REALS - dtypes("bfloat16")
SEED = Attribute("float")
SHAPE = Attribute("ints", required=True, check=lambda dims: all(d >= 0 for d in dims))


def _generator(attrs: Attrs) -> np.random.Generator:
    seed = None if attrs.seed is None else int(np.float32(attrs.seed).view(np.uint32))
    return np.random.default_rng(seed)


def _code(allowed: frozenset[DType], default: int | None = None) -> Attribute:
    codes = {d.onnx_code for d in allowed}
    return Attribute("int", default, check=lambda code: code in codes)


def _result(var: str) -> Callable[[Node, Attrs], dict[str, DType]]:
    """The dtype attribute, else the first input's dtype."""

    def rule(node: Node, attrs: Attrs) -> dict[str, DType]:
        found = node.arg(0).dtype if attrs.dtype is None else BY_ONNX_CODE[attrs.dtype]
        return {var: found}

    return rule


def _numpy(attrs: Attrs, like: Array | None = None) -> Any:
    if attrs.dtype is None:
        assert like is not None
        return like.dtype
    return BY_ONNX_CODE[attrs.dtype].numpy


def _like_shape(node: Node, attrs: Attrs) -> list[Shape | None]:
    found = node.arg(0).dtype if attrs.dtype is None else BY_ONNX_CODE[attrs.dtype]
    if found not in REAL:
        raise ModelError(f"random values cannot be {found}; set the attribute 'dtype'")
    return [shape_of(node)]


def _normal(attrs: Attrs, shape: Any, dtype: Any) -> Array:
    return np.asarray(_generator(attrs).normal(attrs.mean, attrs.scale, shape)).astype(dtype)


def _uniform(attrs: Attrs, shape: Any, dtype: Any) -> Array:
    return np.asarray(_generator(attrs).uniform(attrs.low, attrs.high, shape)).astype(dtype)


for _name, _draw, _parameters in (
    ("Normal", _normal, {"mean": Attribute("float", 0.0), "scale": Attribute("float", 1.0)}),
    ("Uniform", _uniform, {"low": Attribute("float", 0.0), "high": Attribute("float", 1.0)}),
):
    declare(
        f"Random{_name}", Kind.OPAQUE, [], [Param("output", REAL)], lambda node, attrs: [tuple(attrs.shape)],
        lambda attrs, draw=_draw: draw(attrs, tuple(attrs.shape), _numpy(attrs)), dtype=_result("T"),
        attributes={**_parameters, "seed": SEED, "shape": SHAPE, "dtype": _code(REAL, 1)}, since=(1, 22),
        nondeterministic=True,
        samples=lambda: [sample(shape=[3, 5]), sample(shape=[2, 0], dtype=11, seed=3.0)],
    )  # fmt: skip
    declare(
        f"Random{_name}Like", Kind.OPAQUE, [Param("input", ANY, "T1")], [Param("output", REAL, "T2")], _like_shape,
        lambda attrs, x, draw=_draw: draw(attrs, x.shape, _numpy(attrs, x)), dtype=_result("T2"),
        attributes={**_parameters, "seed": SEED, "dtype": _code(REAL)}, since=(1, 22), nondeterministic=True,
        samples=lambda: [sample(floats(3, 5)), sample(counting(2, 3, dtype="int64"), dtype=1, seed=1.0)],
    )  # fmt: skip


def _bernoulli(attrs: Attrs, probability: Array) -> Array:
    return (_generator(attrs).random(probability.shape) < probability).astype(_numpy(attrs, probability))


declare(
    "Bernoulli", Kind.OPAQUE, [Param("input", REAL, "T1")], [Param("output", NUMERIC | BOOLS, "T2")], same_as_first,
    _bernoulli, dtype=_result("T2"), since=(15, 22), nondeterministic=True,
    attributes={"seed": SEED, "dtype": _code(NUMERIC | BOOLS)},
    samples=lambda: [sample(floats(3, 5, low=0.0)), sample(floats(2, 3, low=0.0, high=1.0), dtype=9, seed=5.0)],
)  # fmt: skip


def _multinomial_shape(node: Node, attrs: Attrs) -> list[Shape | None]:
    shape = shape_of(node)
    require(len(shape) == 2, f"needs a matrix of log-probabilities, not {show(shape)}")
    return [(shape[0], attrs.sample_size)]


def _multinomial(attrs: Attrs, logits: Array) -> Array:
    """Classes drawn by their unnormalised log-probabilities, a row of samples for each row."""
    wide = logits.astype(np.float64)
    weights = np.exp(wide - wide.max(axis=1, keepdims=True))
    ends = np.cumsum(weights, axis=1)
    drawn = _generator(attrs).random((len(wide), attrs.sample_size)) * ends[:, -1:]
    return np.asarray((drawn[:, :, None] >= ends[:, None, :]).sum(axis=2)).astype(_numpy(attrs))


declare(
    "Multinomial", Kind.OPAQUE, [Param("input", REAL, "T1")], [Param("output", INDICES, "T2")], _multinomial_shape,
    _multinomial, dtype=_result("T2"), since=(7, 22), nondeterministic=True,
    attributes={"seed": SEED, "sample_size": Attribute("int", 1, check=lambda n: n > 0), "dtype": _code(INDICES, 6)},
    samples=lambda: [sample(floats(3, 4)), sample(floats(2, 5), sample_size=7, dtype=7, seed=2.0)],
)  # fmt: skip
