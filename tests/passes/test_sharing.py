"""Dead code, common subexpressions, constants of equal bytes, captures."""

from __future__ import annotations

import numpy as np
import pytest

from jitopt.ir.graph import Graph
from jitopt.ops import find
from jitopt.passes import optimize
from tests.passes.helpers import evaluate, fires, floats, ops, refuses, run_pass


# dead code ----------------------------------------------------------------------------------------------------------
def test_dead_nodes_go() -> None:
    def build() -> Graph:
        g = Graph("g")
        x = g.input("x", "float32", (2, 3))
        y = g.add("Relu", [x])
        g.add("Exp", [g.add("Neg", [g.add("Abs", [y])])])
        g.output(y, "y")
        return g

    fires(build, "dead-code", 3, ["Relu"], exact=True)


def test_optional_outputs_go() -> None:
    def build(used: bool) -> Graph:
        g = Graph("g")
        y, indices = g.add("MaxPool", [g.input("x", "float32", (1, 2, 6, 6))], outputs=2, kernel_shape=[2, 2])
        g.output(y, "y")
        if used:
            g.output(indices, "i")
        return g

    graph = fires(lambda: build(False), "dead-code", 1, ["MaxPool"], exact=True)
    assert len(graph.nodes[0].outputs) == 1
    refuses(lambda: build(True), "dead-code", None)


def test_outputs_that_fix_the_meaning_stay() -> None:
    def build() -> Graph:
        g = Graph("g")
        a, _ = g.add("Split", [g.input("x", "float32", (4, 2))], outputs=2, axis=0, num_outputs=2)
        g.output(a, "y")
        return g

    refuses(build, "dead-code", None)


# common subexpressions ----------------------------------------------------------------------------------------------
def pair(second: str = "Relu", **attrs: float) -> Graph:
    g = Graph("g")
    x = g.input("x", "float32", (2, 3))
    a = g.add("LeakyRelu", [x], alpha=0.01)
    b = g.add(second, [x], **attrs)
    g.output(g.add("Add", [a, b]), "y")
    return g


def test_equal_nodes_are_computed_once() -> None:
    fires(lambda: pair("LeakyRelu", alpha=0.01), "common-subexpressions", 1, ["LeakyRelu", "Add"], exact=True)
    fires(lambda: pair("LeakyRelu"), "common-subexpressions", 1, ["LeakyRelu", "Add"], exact=True)  # the default


def test_different_attributes_or_operators() -> None:
    refuses(lambda: pair("LeakyRelu", alpha=0.02), "common-subexpressions", None)
    refuses(lambda: pair("Relu"), "common-subexpressions", None)


def test_constants_are_compared_by_bytes() -> None:
    def build(first: object, second: object) -> Graph:
        g = Graph("g")
        x = g.input("x", "float32", (2, 3))
        a = g.add("Add", [x, g.constant(np.array(first), "a")])
        g.output(g.add("Mul", [a, g.add("Add", [x, g.constant(np.array(second), "b")])]), "y")
        return g

    one = np.float32([1, 2, 3])
    fires(lambda: build(one, one.copy()), "common-subexpressions", 1, ["Add", "Mul"], exact=True)
    refuses(lambda: build(one, one.reshape(1, 3)), "common-subexpressions", None)
    refuses(lambda: build(np.float32([0.0] * 3), np.float32([-0.0] * 3)), "common-subexpressions", None)
    fires(lambda: build(np.float32([np.nan] * 3), np.float32([np.nan] * 3)), "common-subexpressions", 1, ["Add", "Mul"])


def test_two_outputs_stay_two() -> None:
    def build(outputs: int) -> Graph:
        g = Graph("g")
        x = g.input("x", "float32", (2, 3))
        values = [g.add("Exp", [x]), g.add("Exp", [x])]
        for i in range(outputs):
            g.output(values[i], f"y{i}")
        g.output(g.add("Add", values), "sum")
        return g

    refuses(lambda: build(2), "common-subexpressions", "both graph outputs")
    graph = fires(lambda: build(1), "common-subexpressions", 1, ["Exp", "Add"], exact=True)
    assert graph.outputs[0].name == "y0"


def test_an_output_that_repeats_an_earlier_node_keeps_its_name() -> None:
    def build() -> Graph:
        g = Graph("g")
        x = g.input("x", "float32", (2, 3))
        a, b = g.add("Exp", [x]), g.add("Exp", [x])
        g.output(g.add("Neg", [a]), "z")
        g.output(b, "y")
        return g

    fires(build, "common-subexpressions", 1, ["Exp", "Neg"], exact=True)


def test_random_operators_are_not_merged() -> None:
    if find("RandomNormalLike") is None:
        pytest.skip("no random operator is declared")

    def build() -> Graph:
        g = Graph("g")
        x = g.input("x", "float32", (2, 3))
        g.output(g.add("Sub", [g.add("RandomNormalLike", [x]), g.add("RandomNormalLike", [x])]), "y")
        return g

    refuses(build, "common-subexpressions", None)


def test_merge_constants() -> None:
    def build() -> Graph:
        g = Graph("g")
        y = g.input("x", "float32", (2, 5000))
        for _ in range(3):
            y = g.add("Add", [y, g.constant(floats(5000), "c")])
        g.output(y, "y")
        return g

    graph = fires(build, "merge-constants", 2, ["Add"] * 3, exact=True)
    assert len(graph.constants) == 1


def test_equal_weights_still_fold() -> None:
    """Sharing them comes last, so that it keeps no BatchNormalization from folding."""
    g = Graph("g")
    y = g.input("x", "float32", (1, 4, 6, 6))
    for i in range(2):
        y = g.add("Conv", [y, g.constant(np.ones((4, 4, 1, 1), np.float32), "w")])
        params = [g.constant(floats(4, seed=i + j, low=0.1), "p") for j in range(4)]
        y = g.add("BatchNormalization", [y, *params])
    g.output(y, "y")
    optimize(g)
    assert ops(g) == ["Conv", "Conv"]


# captures -----------------------------------------------------------------------------------------------------------
def branch(name: str, captures: list[str], body: object) -> Graph:
    g = Graph(name)
    inner = {}
    for c in captures:
        inner[c] = g.value(c)
        g.captures.append(inner[c])
    g.output(body(g, inner), f"{name}_out")  # type: ignore[operator]
    return g


def with_if() -> Graph:
    g = Graph("g")
    x, go = g.input("x", "float32", (2, 3)), g.input("go", "bool", ())
    w = g.add("Neg", [g.constant(floats(3), "w")])
    names = ["x", "w", "unused"]
    then = branch("then", names, lambda b, v: b.add("Add", [v["x"], v["w"]]))
    other = branch("else", names, lambda b, v: b.add("Mul", [v["w"], v["x"]]))
    unused = g.add("Exp", [x])
    g.output(g.add("If", [go], captures=[x, w, unused], then_branch=then, else_branch=other, name="if"), "y")
    return g


def test_captured_constants_become_the_subgraphs_own() -> None:
    for go in (True, False):
        feeds = {"x": floats(2, 3), "go": np.array(go)}
        g = with_if()
        run_pass(g, "fold-constants")
        before = evaluate(g, feeds)["y"]
        assert len(run_pass(g, "local-constants").changes) == 1
        assert len(run_pass(g, "dead-code").changes) == 2
        node = g.node("if")
        assert [v.name for v in node.captures] == ["x"]
        assert all(len(b.captures) == 1 for b in node.subgraphs)
        assert evaluate(g, feeds)["y"].tobytes() == before.tobytes()
        assert not run_pass(g, "local-constants").changes
        assert not run_pass(g, "dead-code").changes


def test_passes_walk_into_subgraphs() -> None:
    g = with_if()
    then = g.node("if").attrs["then_branch"]
    then.output(then.add("Identity", [then.outputs.pop()]), "doubled")
    optimize(g)
    assert ops(then) == ["Add"]
