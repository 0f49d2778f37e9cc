"""Operators without kernels run in NumPy between native segments, are listed, and may decide extents."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitopt
from jitopt import FeedError, Graph, ShapeError
from tests.networks import N, check, floats


def host_steps(session: Any) -> dict[str, str]:
    return {h["node"]: h["operator"] for h in session.explain().as_dict()["host_steps"]}


@pytest.mark.parametrize("dtype", ["float64", "float16", "uint16", "int16"])
def test_element_types_without_kernels(dtype: str) -> None:
    graph = Graph("typed")
    x = graph.input("x", dtype, (N, 4))
    doubled = (
        graph.add("Add", [x, x], name="doubled") if dtype[0] != "u" else graph.add("BitwiseNot", [x], name="doubled")
    )
    graph.output(graph.add("Cast", [doubled], name="as float", to=1))
    session = jitopt.compile(graph)
    assert host_steps(session).keys() == {"doubled", "as float"}
    assert all(dtype in h["reason"] for h in session.explain().as_dict()["host_steps"])
    check(session, graph, {"x": np.arange(12).reshape(3, 4).astype(dtype)})


def test_strings() -> None:
    graph = Graph("words")
    x, y = graph.input("x", "string", (N,)), graph.input("y", "string", ())
    same = graph.add("Equal", [x, y], name="same")
    graph.output(graph.add("Cast", [same], name="counted", to=6))
    graph.output(graph.add("Identity", [x], name="again"))
    session = jitopt.compile(graph)
    counted, again = session.run(None, {"x": ["a", "b", "a"], "y": "a"})
    assert counted.tolist() == [1, 0, 1] and again.tolist() == ["a", "b", "a"]
    assert "same" in host_steps(session)


@pytest.mark.parametrize("dtype", ["int32", "int64", "bool", "uint8", "int8", "float32"])
def test_element_types_with_kernels(dtype: str) -> None:
    graph = Graph("moved")
    x = graph.input("x", dtype, (N, 4))
    turned = graph.add("Transpose", [x], name="turned", perm=[1, 0])
    flags = graph.add("Cast", [turned], name="flags", to=9)
    graph.output(graph.add("Where", [flags, turned, turned], name="chosen"))
    graph.output(graph.add("Gather", [x, graph.constant(np.array([2, -1]), "at")], name="picked", axis=1))
    session = jitopt.compile(graph)
    assert host_steps(session) == {}
    check(session, graph, {"x": np.arange(12).reshape(3, 4).astype(dtype)})


def found() -> Graph:
    """Kernels, NonZero, kernels on as many elements as it finds, CumSum, kernels."""
    graph = Graph("found")
    x = graph.input("x", "float32", (N, 6))
    hot = graph.add("Relu", [graph.add("Sub", [x, graph.constant(np.float32(0.1))], name="lower")], name="hot")
    places = graph.add("NonZero", [hot], name="places")
    values = graph.add("GatherND", [hot, graph.add("Transpose", [places], name="pairs", perm=[1, 0])], name="values")
    doubled = graph.add("Mul", [values, graph.constant(np.float32(2))], name="doubled")
    running = graph.add("CumSum", [doubled, graph.constant(np.array(0), "axis")], name="running")
    graph.output(graph.add("Neg", [graph.add("Add", [running, doubled], name="sum")], name="y"))
    graph.output(places)
    graph.output(graph.add("ReduceSum", [hot], name="total", keepdims=0))
    return graph


def test_extents_that_data_decide() -> None:
    session = jitopt.compile(found())
    assert host_steps(session) == {"places": "NonZero", "running": "CumSum"}
    for rows, seed in ((3, 0), (3, 1), (1, 2), (5, 3), (3, 0)):
        check(session, found(), {"x": floats(rows, 6, seed=seed)})
    none, places, total = session.run(None, {"x": np.zeros((2, 6), np.float32)})
    assert none.shape == (0,) and places.shape == (2, 0) and total == 0


def test_results_that_contradict_the_model_are_refused() -> None:
    """The model declares three places; later steps were compiled for them."""
    graph = Graph("declared")
    places = graph.add("NonZero", [graph.input("x", "float32", (N,))], name="places")
    places.type = graph.input("unused", "int64", (1, 3)).type
    graph.inputs.pop()
    graph.output(graph.add("Add", [places, places], name="y"))
    session = jitopt.compile(graph)
    assert session.run(None, {"x": [1.0, 0.0, 1.0, 1.0]})[0].tolist() == [[0, 4, 6]]
    for feed in ([1.0, 0.0], [1.0] * 4):
        with pytest.raises(ShapeError, match=r"came out with the shape .* the model says \(1, 3\)") as caught:
            session.run(None, {"x": feed})
        assert (caught.value.model, caught.value.node) == ("declared", "places")


@pytest.mark.parametrize("op", ["Reshape", "Expand", "Tile"])
def test_shapes_that_are_feeds(op: str) -> None:
    """Also where the model declares a shape: it holds for the feeds that agree with it."""
    for declared in (None, (4, 6)):
        graph = Graph("fed")
        x, target = graph.input("x", "float32", (N, 6)), graph.input("target", "int64", (2,))
        made = graph.add(op, [x, target], name="made")
        if declared is not None:
            made.type = graph.input("unused", "float32", declared).type
            graph.inputs.pop()
        graph.output(graph.add("Relu", [made], name="y"))
        session = jitopt.compile(graph)
        right, rows = {"Reshape": ([4, 6], 4), "Expand": ([4, 6], 1), "Tile": ([2, 1], 2)}[op]
        check(session, graph, {"x": floats(rows, 6), "target": right})
        other = {"Reshape": [2, 12], "Expand": [3, 6], "Tile": [1, 1]}[op]
        if declared is None:
            check(session, graph, {"x": floats(rows, 6), "target": other})
        else:
            with pytest.raises(ShapeError, match=r"the model says \(4, 6\)"):
                session.run(None, {"x": floats(rows, 6), "target": other})


def branching() -> Graph:
    """An If whose branches differ in shape, and kernels on whatever comes out."""
    graph = Graph("branching")
    flag, x = graph.input("flag", "bool", ()), graph.input("x", "float32", (N, 4))
    first = graph.add("Relu", [x], name="first")
    graphs = {}
    for name in ("then_branch", "else_branch"):
        inner = Graph(name)
        inner.captures.append(inner.value("first", first.type))
        if name == "then_branch":
            axis = inner.constant(np.array([0]), "axis")
            made = inner.add("ReduceSum", [inner.captures[0], axis], name="summed", keepdims=1)
        else:
            made = inner.add("Abs", [inner.captures[0]], name="kept")
        inner.output(made)
        graphs[name] = inner
    graph.output(graph.add("Sqrt", [graph.add("If", [flag], captures=[first], name="if", **graphs)], name="y"))
    return graph


def test_branches_of_different_shapes() -> None:
    session = jitopt.compile(branching())
    assert host_steps(session) == {"if": "If"}
    for flag in (True, False, True):
        for rows in (1, 3):
            (found,) = check(session, branching(), {"flag": flag, "x": floats(rows, 4)})
            assert found.shape == (1 if flag else rows, 4)


def test_sequences_and_optionals() -> None:
    graph = Graph("sequences")
    from jitopt.ir.types import SequenceType

    parts = graph.value("parts", SequenceType(graph.input("x", "float32", (N, 2)).tensor))
    graph.inputs.append(parts)
    graph.output(graph.add("SequenceInsert", [parts, graph.inputs[0]], name="longer"))
    graph.output(graph.add("Relu", [graph.add("ConcatFromSequence", [parts], name="joined", axis=0)], name="y"))
    session = jitopt.compile(graph)
    assert [a.type for a in session.get_inputs()] == ["tensor(float)", "seq(tensor(float))"]
    x, pieces = floats(1, 2), [floats(2, 2), floats(3, 2).tolist()]
    longer, y = session.run(None, {"x": x, "parts": pieces})
    assert [a.shape for a in longer] == [(2, 2), (3, 2), (1, 2)]
    assert not any(np.may_share_memory(a, b) for a in longer for b in (x, pieces[0]))
    np.testing.assert_array_equal(y, np.maximum(np.concatenate([pieces[0], np.array(pieces[1], np.float32)]), 0))
    for wrong in (x, None, {"a": x}):
        with pytest.raises(FeedError, match="takes a list of arrays"):
            session.run(None, {"x": x, "parts": wrong})
    with pytest.raises(FeedError, match=r"parts\[1\]"):
        session.run(None, {"x": x, "parts": [x, x.astype(np.float64)]})
