"""If with a constant condition."""

from __future__ import annotations

import numpy as np
import pytest

from jitopt.ir.graph import Graph
from jitopt.passes import infer, optimize
from tests.passes.helpers import evaluate, feeds_of, fires, floats, ops, refuses
from tests.passes.test_sharing import branch


def graph_with(condition: bool | None, nested: bool = False) -> Graph:
    g = Graph("g")
    x = g.input("x", "float32", (2, 3))
    w = g.add("Abs", [x], name="w")
    go = g.input("go", "bool", ()) if condition is None else g.constant(np.array(condition), "go")

    def then(b: Graph, v: dict) -> object:
        if not nested:
            return b.add("Add", [v["x"], b.constant(floats(3), "c")], name="body")
        inner = branch("inner", ["x", "w"], lambda c, u: c.add("Sub", [u["x"], u["w"]], name="body"))
        other = branch("other", ["x", "w"], lambda c, u: c.add("Identity", [u["w"]]))
        flag = b.constant(np.array([True]), "flag")
        return b.add("If", [flag], captures=[v["x"], v["w"]], then_branch=inner, else_branch=other, name="nested")

    taken = branch("then", ["x", "w"], then)
    other = branch("else", ["x", "w"], lambda b, v: v["w"] if condition is not None else b.add("Identity", [v["w"]]))
    y = g.add("If", [go], captures=[x, w], then_branch=taken, else_branch=other, name="if")
    g.output(y, "y")
    g.output(g.add("Neg", [y]), "z")
    return g


@pytest.mark.parametrize("condition", [True, False])
def test_the_taken_branch_is_inlined(condition: bool) -> None:
    fires(lambda: graph_with(condition), "inline-if", 1, ["Abs", "Add", "Neg"] if condition else ["Abs", "Neg"],
          exact=True)  # fmt: skip


def test_nested() -> None:
    g = graph_with(True, nested=True)
    infer(g)
    feeds = feeds_of(g)
    before = evaluate(g, feeds)
    optimize(g)
    assert ops(g) == ["Abs", "Sub", "Neg"]
    after = evaluate(g, feeds)
    assert all(after[k].tobytes() == before[k].tobytes() for k in before)


def test_names_do_not_clash() -> None:
    def build() -> Graph:
        g = graph_with(True)
        g.node("w").name = "body"
        return g

    graph = fires(build, "inline-if", 1, ["Abs", "Add", "Neg"], exact=True)
    assert len({n.name for n in graph}) == 3


def test_a_condition_that_is_not_constant() -> None:
    refuses(lambda: graph_with(None), "inline-if", "not constant")


def test_a_branch_that_hands_out_a_constant() -> None:
    def build() -> Graph:
        g = Graph("g")
        x = g.input("x", "float32", (3,))
        one = branch("then", ["x"], lambda b, v: b.constant(floats(3), "c"))
        two = branch("else", ["x"], lambda b, v: b.add("Neg", [v["x"]]))
        y = g.add("If", [g.constant(np.array(True))], captures=[x], then_branch=one, else_branch=two)
        g.output(y, "y")
        return g

    graph = fires(build, "inline-if", 1, ["Identity"], exact=True)
    assert graph.outputs[0].name == "y"
