"""LayerNormalization in exporters' variants, and means that normalise something else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from jitopt.ir.graph import Graph, Value
from jitopt.passes import optimize
from tests.passes.helpers import evaluate, feeds_of, fires, floats, ops, refuses, same_numbers


def c(graph: Graph, number: Any, dtype: Any = np.float32) -> Value:
    return graph.constant(np.array(number, dtype), "c")


def layernorm(
    *, square: str = "pow", inverse: str = "div", scale: Any = (8,), bias: Any = (8,), axes: Sequence[int] = (-1,),
    axes2: Sequence[int] | None = None, keepdims: int = 1, swap: bool = False, twice: bool = False,
    dtype: str = "float32", shape: tuple[int, ...] = (2, 5, 8), fed_scale: bool = False, epsilon: float = 1e-5,
) -> Graph:  # fmt: skip
    g = Graph("g")
    x = g.input("x", dtype, shape)
    mean = g.add("ReduceMean", [x, c(g, axes, np.int64)], keepdims=keepdims, name="mean")
    d = g.add("Sub", [x, mean], name="d")
    d2 = g.add("Sub", [x, mean]) if twice else d
    s = {
        "pow": lambda: g.add("Pow", [d2, c(g, 2.0, dtype)]),
        "mul": lambda: g.add("Mul", [d2, d2]),
    }[square]()
    v = g.add("ReduceMean", [s, c(g, axes if axes2 is None else axes2, np.int64)], keepdims=keepdims)
    v = g.add("Add", [c(g, epsilon, dtype), v] if swap else [v, c(g, epsilon, dtype)], name="v")
    if inverse == "div":
        y = g.add("Div", [d, g.add("Sqrt", [v])])
    else:
        r = {
            "reciprocal": lambda: g.add("Reciprocal", [g.add("Sqrt", [v])]),
            "one over": lambda: g.add("Div", [c(g, 1.0, dtype), g.add("Sqrt", [v])]),
            "power": lambda: g.add("Pow", [v, c(g, -0.5, dtype)]),
        }[inverse]()
        y = g.add("Mul", [d, r])
    if scale is not None:
        k = g.input("k", dtype, scale) if fed_scale else g.constant(floats(*scale, dtype=dtype), "scale")
        y = g.add("Mul", [k, y] if swap else [y, k], name="scaled")
    if bias is not None:
        b = g.constant(floats(*bias, seed=1, dtype=dtype), "bias")
        y = g.add("Add", [b, y] if swap else [y, b])
    g.output(y, "y")
    return g


@pytest.mark.parametrize("square", ["pow", "mul"])
@pytest.mark.parametrize("inverse", ["div", "reciprocal", "one over", "power"])
@pytest.mark.parametrize("swap", [False, True])
def test_forms(square: str, inverse: str, swap: bool) -> None:
    graph = fires(lambda: layernorm(square=square, inverse=inverse, swap=swap), "recognise-layernorm", 1,
                  ["LayerNormalization"])  # fmt: skip
    assert len(graph.nodes[0].inputs) == 3
    assert abs(graph.nodes[0].attrs["epsilon"] - 1e-5) < 1e-9


@pytest.mark.parametrize(
    "options",
    [
        {"bias": None},
        {"scale": None, "bias": None},
        {"scale": (1,), "bias": (1,)},
        {"scale": (1, 1, 8)},
        {"axes": (2,)},
        {"axes": (1, 2), "scale": (5, 8), "bias": (5, 8)},
        {"axes": (-1, -2), "scale": (8,), "bias": (5, 1)},
        {"fed_scale": True},
        {"twice": True},
        {"dtype": "float64"},
        {"epsilon": 1e-12},
    ],
)
def test_variants(options: dict[str, Any]) -> None:
    fires(lambda: layernorm(**options), "recognise-layernorm", 1, ["LayerNormalization"])


def test_tensorflow_form() -> None:
    def build() -> Graph:
        g = Graph("g")
        x = g.input("x", "float32", (2, 5, 8))
        axes = c(g, [2], np.int64)
        mean = g.add("ReduceMean", [x, axes])
        d = g.add("Sub", [x, mean])
        v = g.add("Add", [g.add("ReduceMean", [g.add("Mul", [d, d]), axes]), c(g, 1e-3)])
        r = g.add("Mul", [g.add("Reciprocal", [g.add("Sqrt", [v])]), g.constant(floats(8), "scale")])
        shift = g.add("Sub", [g.constant(floats(8, seed=1), "bias"), g.add("Mul", [mean, r])])
        g.output(g.add("Add", [g.add("Mul", [x, r]), shift]), "y")
        return g

    fires(build, "recognise-layernorm", 1, ["LayerNormalization"])


def test_a_residual_behind_it_is_no_bias() -> None:
    def build() -> Graph:
        g = layernorm(bias=None)
        y = g.outputs.pop()
        g.output(g.add("Add", [y, g.input("r", "float32", (2, 5, 8))]), "z")
        return g

    fires(build, "recognise-layernorm", 1, ["LayerNormalization", "Add"])


def test_casts_around_it_go_first() -> None:
    g = layernorm(scale=None, bias=None)
    cast = g.add("Cast", [g.inputs[0]], to=1)
    for node in g.nodes[:2]:
        node.set_input(0, cast)
    g.sort()
    optimize(g)
    assert ops(g) == ["LayerNormalization"]


# near misses --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"axes": (1,), "scale": (1, 5, 1), "bias": (1, 5, 1)}, "last axes"),
        ({"axes": (0, 2), "scale": None, "bias": None}, "last axes"),
        ({"axes": (-1,), "axes2": (1, 2)}, "last axes"),
        ({"scale": (5, 8), "bias": None}, None),
        ({"scale": (2, 5, 8), "bias": None}, None),
        ({"keepdims": 0, "shape": (8, 8), "bias": None}, None),
    ],
)
def test_near_misses(options: dict[str, Any], reason: str | None) -> None:
    g = layernorm(**options)
    if reason is None:
        # only the inner part may be taken, never the scale that does not fit
        before, feeds = layernorm(**options), None
        optimize(before, precision="exact")
        feeds = feeds_of(before)
        optimize(g)
        same_numbers(list(evaluate(g, feeds).values()), list(evaluate(before, feeds).values()), exact=False)
        assert all(len(n.inputs) == 2 for n in g if n.op == "LayerNormalization")
    else:
        refuses(lambda: layernorm(**options), "recognise-layernorm", reason)


def test_the_mean_is_read_elsewhere() -> None:
    def build() -> Graph:
        g = layernorm()
        g.output(g.node("mean").output)
        return g

    refuses(build, "recognise-layernorm", "another reader")


def test_the_difference_of_another_value() -> None:
    def build() -> Graph:
        g = layernorm()
        g.node("d").set_input(0, g.input("z", "float32", (2, 5, 8)))
        return g

    refuses(build, "recognise-layernorm", None)


def test_epsilon_that_is_not_constant() -> None:
    def build() -> Graph:
        g = layernorm()
        g.node("v").set_input(1, g.input("e", "float32", (1,)))
        return g

    refuses(build, "recognise-layernorm", None)
