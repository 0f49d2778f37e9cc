"""The reference interpreter: what it computes, what it keeps, and how it complains."""

from __future__ import annotations

import numpy as np
import pytest

from jitopt.errors import ExecutionError, FeedError, ShapeError, UnsupportedOperator
from jitopt.ir.dims import symbol
from jitopt.ir.graph import Graph
from jitopt.ir.interpreter import Interpreter
from jitopt.ir.types import tensor
from jitopt.ops import find

X = np.array([[1.0, -2.0, 3.0]], np.float32)


def chain() -> Graph:
    """y = relu(x + w) * w, named a, b, y."""
    graph = Graph("chain")
    x = graph.input("x", "float32", (symbol("n"), 3))
    w = graph.constant(np.array([1.0, 1.0, 2.0], np.float32), name="w")
    a = graph.add("Add", [x, w], name="a")
    b = graph.add("Relu", [a], name="b")
    graph.output(graph.add("Mul", [b, w], name="mul"), name="y")
    return graph


def branch() -> Graph:
    """y = sqrt(a) if c else -a, where a = abs(x) is captured."""
    graph = Graph("branch")
    c = graph.input("c", "bool", ())
    x = graph.input("x", "float32", (2,))
    a = graph.add("Abs", [x], name="a")
    branches = {}
    for name, op in (("then_branch", "Sqrt"), ("else_branch", "Neg")):
        inner = Graph(name)
        captured = inner.value("a", tensor("float32", (2,)))
        inner.captures.append(captured)
        inner.output(inner.add(op, [captured], name=f"{name}/{op}"), name=f"{name}/p")
        branches[name] = inner
    graph.output(graph.add("If", [c], captures=[a], name="if", **branches), name="y")
    return graph


def test_outputs_by_name_and_in_order() -> None:
    found = Interpreter(chain(), find).run({"x": X})
    assert list(found) == ["y"] and found["y"].tolist() == [[2, 0, 10]]
    assert found["y"].dtype == np.float32


def test_any_value_can_be_asked_for_and_only_what_it_needs_runs() -> None:
    graph = chain()
    found = Interpreter(graph, find).run({"x": X}, ["b", "w"])
    assert found["b"].tolist() == [[2, 0, 5]] and found["w"].tolist() == [1, 1, 2]
    graph.output(graph.add("Gather", [graph.inputs[0], graph.constant(9)], name="fails"))
    interpreter = Interpreter(graph, find)
    assert list(interpreter.run({"x": X}, ["y"])) == ["y"]
    with pytest.raises(ExecutionError, match="fails"):
        interpreter.run({"x": X})
    with pytest.raises(FeedError, match="no value 'nothing'"):
        interpreter.run({"x": X}, ["nothing"])


def test_all_values() -> None:
    found = Interpreter(chain(), find).run({"x": X}, all_values=True)
    assert list(found) == ["y", "x", "a", "b"]


def test_dead_values_are_freed() -> None:
    interpreter = Interpreter(chain(), find)
    (plan,) = interpreter._plans.values()
    assert [[v.name for v in step.dead] for step in plan] == [["x"], ["a"], ["b"]]


def test_subgraphs_see_what_they_capture() -> None:
    interpreter = Interpreter(branch(), find)
    x = np.array([4.0, -9.0], np.float32)
    assert interpreter.run({"c": np.array(True), "x": x})["y"].tolist() == [2, 3]
    assert interpreter.run({"c": np.array(False), "x": x})["y"].tolist() == [-4, -9]


@pytest.mark.parametrize(
    ("feeds", "error", "message"),
    [
        ({}, FeedError, r"input 'x' \(float32\[n, 3\]\) is missing"),
        ({"x": X, "z": X}, FeedError, "no input 'z'; the inputs are x"),
        ({"x": X.astype(np.float64)}, FeedError, "'x' is float64, expected float32"),
        ({"x": X[0]}, ShapeError, r"shape \[3\], expected float32\[n, 3\]"),
        ({"x": X[:, :2]}, ShapeError, r"shape \[1, 2\], expected float32\[n, 3\] with 3 = 3"),
    ],
)
def test_wrong_feeds(feeds: dict, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Interpreter(chain(), find).run(feeds)


def test_one_symbol_stands_for_one_extent() -> None:
    graph = Graph("two")
    n = symbol("n")
    a, b = graph.input("a", "float32", (n,)), graph.input("b", "float32", (n,))
    graph.output(graph.add("Concat", [a, b], axis=0), name="y")
    interpreter = Interpreter(graph, find)
    assert interpreter.run({"a": X[0], "b": X[0]})["y"].shape == (6,)
    with pytest.raises(ShapeError, match="with n = 3"):
        interpreter.run({"a": X[0], "b": X[0, :2]})


def test_errors_name_node_and_graph() -> None:
    graph = Graph("g")
    x = graph.input("x", "float32", (symbol("n"), 3))
    graph.output(graph.add("Reshape", [x, graph.constant(np.array([7, -1]))], name="odd"), name="y")
    with pytest.raises(ShapeError, match="odd") as caught:
        Interpreter(graph, find).run({"x": X})
    assert (caught.value.model, caught.value.node) == ("g", "odd")


def test_operators_without_a_reference_are_refused_at_once() -> None:
    graph = chain()
    graph.output(graph.add("org.example.Odd", [graph.inputs[0]], name="odd"))
    with pytest.raises(UnsupportedOperator, match=r"'org\.example\.Odd' has no reference") as caught:
        Interpreter(graph, find)
    assert caught.value.node == "odd"


def test_a_wrong_dtype_from_a_reference_is_found() -> None:
    graph = chain()
    graph.find_value("a").type = tensor("float64", (symbol("n"), 3))
    with pytest.raises(ExecutionError, match="gave 'a' as float32, its type is float64"):
        Interpreter(graph, find).run({"x": X})
