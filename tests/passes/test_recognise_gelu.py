"""GELU in every form exporters write, its approximations, and what only looks like it."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from jitopt.ir.graph import Graph, Value
from jitopt.passes import infer, optimize
from tests.passes.helpers import evaluate, fires, ops, refuses, run_pass

Form = Callable[[Graph, Value], Value]
ROOT2, ROOT = math.sqrt(2), math.sqrt(2 / math.pi)


def c(graph: Graph, number: float, dtype: str = "float32") -> Value:
    return graph.constant(np.array(number, dtype), "c")


def built(form: Form, dtype: str = "float32", shape: tuple[int, ...] = (2, 3, 4)) -> Graph:
    graph = Graph("g")
    x = graph.input("x", dtype, shape)
    graph.output(form(graph, x), "y")
    return graph


def erf_of(g: Graph, x: Value, *, divide: bool = True) -> Value:
    inner = g.add("Div", [x, c(g, ROOT2, x.dtype.name)]) if divide else g.add("Mul", [c(g, 1 / ROOT2, x.dtype.name), x])
    return g.add("Add", [g.add("Erf", [inner]), c(g, 1.0, x.dtype.name)])


def half_last(g: Graph, x: Value) -> Value:
    """(x * (1 + erf)) * 0.5, PyTorch's export."""
    return g.add("Mul", [g.add("Mul", [x, erf_of(g, x)]), c(g, 0.5)])


def half_of_x(g: Graph, x: Value) -> Value:
    """(0.5 * x) * (erf + 1), with a multiplication inside."""
    return g.add("Mul", [g.add("Mul", [c(g, 0.5), x]), erf_of(g, x, divide=False)])


def half_of_sum(g: Graph, x: Value) -> Value:
    """x * (0.5 * (1 + erf)), Keras's export."""
    return g.add("Mul", [x, g.add("Mul", [c(g, 0.5), erf_of(g, x)])])


def halved_by_division(g: Graph, x: Value) -> Value:
    return g.add("Div", [g.add("Mul", [erf_of(g, x), x]), c(g, 2.0)])


EXACT_FORMS = [half_last, half_of_x, half_of_sum, halved_by_division]


@pytest.mark.parametrize("form", EXACT_FORMS)
@pytest.mark.parametrize("outer", ["", "Mul", "Relu"])
def test_exact_forms(form: Form, outer: str) -> None:
    def with_producer(g: Graph, x: Value) -> Value:
        # x itself may be a product, whose factors must not be taken for the pattern's
        if outer:
            x = g.add("Mul", [x, g.add("Abs", [x])]) if outer == "Mul" else g.add("Relu", [x])
            x.type = g.inputs[0].type
        return form(g, x)

    left = {"": [], "Mul": ["Abs", "Mul"], "Relu": ["Relu"]}[outer]
    graph = fires(lambda: built(with_producer), "recognise-gelu", 1, [*left, "Gelu"])
    assert graph.nodes[-1].attrs["approximate"] == "none"


def test_float16_constants_may_be_rounded() -> None:
    def form(g: Graph, x: Value) -> Value:
        return g.add("Mul", [g.add("Mul", [x, erf_of(g, x)]), c(g, 0.5, "float16")])

    graph = built(form, "float16")
    assert len(run_pass(graph, "recognise-gelu").changes) == 1


def cube(g: Graph, x: Value, how: str) -> Value:
    if how == "pow":
        return g.add("Pow", [x, c(g, 3.0)])
    return g.add("Mul", [g.add("Mul", [x, x]), x]) if how == "left" else g.add("Mul", [x, g.add("Mul", [x, x])])


def tanh_form(how: str, half: str = "last") -> Form:
    def form(g: Graph, x: Value) -> Value:
        inner = g.add("Add", [x, g.add("Mul", [c(g, 0.044715), cube(g, x, how)])])
        t = g.add("Add", [g.add("Tanh", [g.add("Mul", [inner, c(g, ROOT)])]), c(g, 1.0)])
        if half == "last":
            return g.add("Mul", [c(g, 0.5), g.add("Mul", [x, t])])
        return g.add("Mul", [g.add("Mul", [x, c(g, 0.5)]), t])

    return form


def factored(how: str) -> Form:
    """sqrt(2/pi) * x * (1 + 0.044715 * x^2), as fast_gelu writes it."""

    def form(g: Graph, x: Value) -> Value:
        square = g.add("Pow", [x, c(g, 2.0)]) if how == "pow" else g.add("Mul", [x, x])
        inner = g.add("Add", [c(g, 1.0), g.add("Mul", [square, c(g, 0.044715)])])
        t = g.add("Tanh", [g.add("Mul", [g.add("Mul", [c(g, ROOT), x]), inner])])
        return g.add("Mul", [g.add("Mul", [c(g, 0.5), x]), g.add("Add", [t, c(g, 1.0)])])

    return form


def scaled_through(g: Graph, x: Value) -> Value:
    """x * (0.0356774 * x * x + 0.797885), as com.microsoft.FastGelu's function body writes it."""
    square = g.add("Mul", [x, x])
    inner = g.add("Add", [g.add("Mul", [c(g, 0.044715 * ROOT), square]), c(g, ROOT)])
    t = g.add("Tanh", [g.add("Mul", [x, inner])])
    return g.add("Mul", [x, g.add("Mul", [c(g, 0.5), g.add("Add", [t, c(g, 1.0)])])])


TANH_FORMS = [*(tanh_form(h) for h in ("pow", "left", "right")), tanh_form("pow", "x"), factored("pow"),
              factored("mul"), scaled_through]  # fmt: skip


@pytest.mark.parametrize("form", TANH_FORMS)
def test_tanh_forms(form: Form) -> None:
    graph = fires(lambda: built(form), "recognise-gelu", 1, ["Gelu"])
    assert graph.nodes[0].attrs["approximate"] == "tanh"


# near misses --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("divisor", "one", "half"), [(1.5, 1.0, 0.5), (ROOT2, 2.0, 0.5), (ROOT2, 1.0, 0.4)])
def test_other_constants(divisor: float, one: float, half: float) -> None:
    def form(g: Graph, x: Value) -> Value:
        e = g.add("Add", [g.add("Erf", [g.add("Div", [x, c(g, divisor)])]), c(g, one)])
        return g.add("Mul", [g.add("Mul", [x, e]), c(g, half)])

    refuses(lambda: built(form), "recognise-gelu", None)


def test_another_value_outside() -> None:
    def form(g: Graph, x: Value) -> Value:
        return g.add("Mul", [g.add("Mul", [g.input("z", "float32", (2, 3, 4)), erf_of(g, x)]), c(g, 0.5)])

    refuses(lambda: built(form), "recognise-gelu", None)


@pytest.mark.parametrize("op", ["Erf", "Add", "Mul"])
def test_an_inner_value_is_read_elsewhere(op: str) -> None:
    def as_reader() -> Graph:
        graph = built(half_last)
        inner = next(n for n in graph if n.op == op)
        graph.output(graph.add("Abs", [inner.output]), "other")
        return graph

    def as_output() -> Graph:
        graph = built(half_last)
        graph.output(next(n for n in graph if n.op == op).output)
        return graph

    refuses(as_reader, "recognise-gelu", "another reader")
    refuses(as_output, "recognise-gelu", "another reader")


def test_a_constant_that_broadcasts() -> None:
    def form(g: Graph, x: Value) -> Value:
        half = g.constant(np.full((1, 1, 1, 1), 0.5, np.float32))
        return g.add("Mul", [g.add("Mul", [x, erf_of(g, x)]), half])

    refuses(lambda: built(form), "recognise-gelu", "broadcast")


# approximations -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("options", "op", "bound"),
    [
        ({}, "Gelu none", 1e-6),
        ({"gelu": "tanh"}, "Gelu tanh", 5e-4),
        ({"precision": "fast"}, "Gelu tanh", 5e-4),
        ({"gelu": "sigmoid"}, "Swish", 2.1e-2),
    ],
)
def test_approximations_are_taken_only_where_asked(options: dict[str, str], op: str, bound: float) -> None:
    graph = built(half_last, shape=(200,))
    feeds = {"x": np.linspace(-8, 8, 200, dtype=np.float32)}
    infer(graph)
    before = evaluate(graph, feeds)["y"]
    optimize(graph, **options)
    node = graph.nodes[0]
    assert f"{node.op} {node.attrs.get('approximate', '')}".strip() == op
    error = float(np.max(np.abs(evaluate(graph, feeds)["y"] - before)))
    assert error <= bound
    assert error >= bound / 100 or not options  # the approximation is one


def test_exact_mode_leaves_the_parts() -> None:
    graph = built(half_last)
    optimize(graph, precision="exact")
    assert "Erf" in ops(graph)
    graph = built(half_last)
    optimize(graph, precision="exact", gelu="tanh")
    assert "Erf" in ops(graph)


def test_a_model_of_the_tanh_form_keeps_it() -> None:
    graph = built(tanh_form("pow"))
    optimize(graph)
    assert [n.attrs.get("approximate") for n in graph] == ["tanh"]
