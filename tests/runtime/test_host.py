"""Host steps run between native segments, and need nothing of the graph they come from."""

from __future__ import annotations

import numpy as np

import jitopt
from jitopt.ir.clone import clone, isolate
from jitopt.ir.dims import symbol
from jitopt.ir.graph import Graph
from jitopt.ir.interpreter import Interpreter
from jitopt.ops import find
from jitopt.passes.infer import infer
from jitopt.verify import compare


def around_a_host_step() -> Graph:
    """CumSum has no kernel; what the first convolution makes, 12 channels in blocks, is read after it as well."""
    graph = Graph("around")
    x = graph.input("x", "float32", (symbol("n"), 12, 6, 6))
    weights = graph.constant(np.linspace(-1, 1, 144, dtype=np.float32).reshape(12, 12, 1, 1), "w")
    early = graph.add("Conv", [x, weights], name="early")
    total = graph.add("CumSum", [x, graph.constant(np.array(1, np.int64), "axis")], name="running")
    late = graph.add("Add", [graph.add("Conv", [early, weights], name="late"), early], name="sum")
    graph.output(graph.add("Relu", [late], name="y"))
    graph.output(total)
    return graph


def test_blocked_values_cross_a_host_step() -> None:
    graph = around_a_host_step()
    session = jitopt.compile(graph, num_threads=1)
    infer(graph)
    for batch in (1, 3):
        feeds = {"x": np.random.default_rng(batch).standard_normal((batch, 12, 6, 6), np.float32)}
        expected = Interpreter(graph, find).run(feeds)
        for found, name in zip(session.run(None, feeds), expected, strict=True):
            assert compare(found, expected[name])


def test_an_isolated_node_keeps_constants_and_shares_no_value() -> None:
    graph = around_a_host_step()
    infer(graph)
    node = graph.node("running")
    alone = isolate(node)
    assert [v.name for v in alone.inputs] == ["x"] and [v.name for v in alone.outputs] == ["running"]
    assert alone.nodes[0].arg(1).constant is node.arg(1).constant
    assert not {*alone.values()} & {*graph.values()}


def test_an_isolated_node_has_each_operand_and_capture_once() -> None:
    graph = Graph("twice")
    x = graph.input("x", "float32", (2,))
    flag = graph.input("flag", "bool", ())
    branches = {}
    for name in ("then_branch", "else_branch"):
        inner = Graph(name)
        inner.captures.append(inner.value("x", x.type))
        inner.output(inner.add("Add", [inner.captures[0], inner.captures[0]]))
        branches[name] = inner
    graph.output(graph.add("If", [flag], captures=[x], name="if", **branches))
    infer(graph)
    alone = isolate(graph.node("if"))
    assert [v.name for v in alone.inputs] == ["flag", "x"]
    again = clone(alone)
    result = Interpreter(again, find).run({"flag": np.array(True), "x": np.array([1, 2], np.float32)})
    np.testing.assert_array_equal(result["if"], [2, 4])
