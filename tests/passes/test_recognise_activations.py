"""SiLU, HardSwish, HardSigmoid and Mish written as several nodes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from jitopt.ir.graph import Graph, Value
from tests.passes.helpers import fires, refuses

Form = Callable[[Graph, Value], Value]


def c(graph: Graph, number: float) -> Value:
    return graph.constant(np.array(number, np.float32), "c")


def built(form: Form) -> Graph:
    graph = Graph("g")
    graph.output(form(graph, graph.input("x", "float32", (2, 3, 4))), "y")
    return graph


def relu6(g: Graph, x: Value, how: str = "clip", offset: float = 3.0, top: float = 6.0) -> Value:
    y = g.add("Add", [x, c(g, offset)])
    if how == "clip":
        return g.add("Clip", [y, c(g, 0.0), c(g, top)])
    low = g.add("Relu", [y]) if how == "relu" else g.add("Max", [c(g, 0.0), y])
    return g.add("Min", [low, c(g, top)])


def hard_sigmoid(g: Graph, x: Value) -> Value:
    return g.add("HardSigmoid", [x], alpha=1 / 6, beta=0.5)


def unit(g: Graph, x: Value) -> Value:
    return g.add("Clip", [x, c(g, 0.0), c(g, 1.0)])


def softplus(g: Graph, x: Value) -> Value:
    return g.add("Log", [g.add("Add", [c(g, 1.0), g.add("Exp", [x])])])


FORMS: dict[str, tuple[Form, str]] = {
    "x * sigmoid(x)": (lambda g, x: g.add("Mul", [x, g.add("Sigmoid", [x])]), "Swish"),
    "sigmoid(x) * x": (lambda g, x: g.add("Mul", [g.add("Sigmoid", [x]), x]), "Swish"),
    "quick gelu": (lambda g, x: g.add("Mul", [x, g.add("Sigmoid", [g.add("Mul", [c(g, 1.702), x])])]), "Swish"),
    "x * hard_sigmoid(x)": (lambda g, x: g.add("Mul", [x, hard_sigmoid(g, x)]), "HardSwish"),
    "(x * relu6) / 6": (lambda g, x: g.add("Div", [g.add("Mul", [x, relu6(g, x)]), c(g, 6.0)]), "HardSwish"),
    "x * (relu6 / 6)": (lambda g, x: g.add("Mul", [x, g.add("Div", [relu6(g, x), c(g, 6.0)])]), "HardSwish"),
    "(x * relu6) * 1/6": (lambda g, x: g.add("Mul", [g.add("Mul", [relu6(g, x, "max"), x]), c(g, 1 / 6)]), "HardSwish"),
    "(x / 6) * relu6": (lambda g, x: g.add("Mul", [g.add("Div", [x, c(g, 6.0)]), relu6(g, x, "relu")]), "HardSwish"),
    "relu6 / 6": (lambda g, x: g.add("Div", [relu6(g, x), c(g, 6.0)]), "HardSigmoid"),
    "relu6 * 1/6": (lambda g, x: g.add("Mul", [relu6(g, x), c(g, 1 / 6)]), "HardSigmoid"),
    "clip(x / 6 + 1/2)": (lambda g, x: unit(g, g.add("Add", [g.add("Div", [x, c(g, 6.0)]), c(g, 0.5)])), "HardSigmoid"),
    "clip(0.2 * x + 0.4)": (
        lambda g, x: unit(g, g.add("Add", [c(g, 0.4), g.add("Mul", [c(g, 0.2), x])])),
        "HardSigmoid",
    ),
    "clip((x + 3) / 6)": (lambda g, x: unit(g, g.add("Div", [g.add("Add", [x, c(g, 3.0)]), c(g, 6.0)])), "HardSigmoid"),
    "mish": (lambda g, x: g.add("Mul", [x, g.add("Tanh", [g.add("Softplus", [x])])]), "Mish"),
    "mish by log": (lambda g, x: g.add("Mul", [g.add("Tanh", [softplus(g, x)]), x]), "Mish"),
}


@pytest.mark.parametrize("name", FORMS)
def test_fires(name: str) -> None:
    form, op = FORMS[name]
    graph = fires(lambda: built(form), "recognise-activations", 1, [op])
    if name == "quick gelu":
        assert abs(graph.nodes[0].attrs["alpha"] - 1.702) < 1e-6


NEAR: dict[str, Form] = {
    "another hard sigmoid": lambda g, x: g.add("Mul", [x, g.add("HardSigmoid", [x])]),
    "another beta": lambda g, x: g.add("Mul", [x, g.add("HardSigmoid", [x], alpha=1 / 6, beta=0.4)]),
    "another offset": lambda g, x: g.add("Div", [g.add("Mul", [x, relu6(g, x, offset=2.0)]), c(g, 6.0)]),
    "another bound": lambda g, x: g.add("Div", [g.add("Mul", [x, relu6(g, x, top=5.0)]), c(g, 6.0)]),
    "another divisor": lambda g, x: g.add("Div", [g.add("Mul", [x, relu6(g, x)]), c(g, 5.0)]),
    "another interval": lambda g, x: g.add(
        "Clip", [g.add("Add", [g.add("Div", [x, c(g, 6.0)]), c(g, 0.5)]), c(g, 0.0), c(g, 2.0)]
    ),
    "another x": lambda g, x: g.add("Mul", [g.add("Abs", [x]), g.add("Sigmoid", [x])]),
    "a sum": lambda g, x: g.add("Add", [x, g.add("Sigmoid", [x])]),
}


@pytest.mark.parametrize("name", NEAR)
def test_near_misses(name: str) -> None:
    refuses(lambda: built(NEAR[name]), "recognise-activations", None)


@pytest.mark.parametrize("name", [name for name in FORMS if name != "x * (relu6 / 6)"])  # its inside is one by itself
def test_an_inner_value_is_read_elsewhere(name: str) -> None:
    def build() -> Graph:
        graph = built(FORMS[name][0])
        graph.output(graph.nodes[-2].output)
        return graph

    refuses(build, "recognise-activations", "another reader")
