"""The base classes hold passes to their promises: changes are reported, types kept, rules end, nothing stray stays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitopt.errors import ModelError
from jitopt.ir.graph import Graph, Node
from jitopt.passes import infer
from jitopt.passes.base import Change, Pass, PassContext, PassError, PassResult, Refusal, fingerprint, remove_dead
from jitopt.passes.rules import Builder, Replacement, RulePass

Outcome = Replacement | Refusal | None


def relu_chain() -> Graph:
    g = Graph("g")
    x = g.input("x", "float32", (2, 3))
    g.output(g.add("Relu", [g.add("Neg", [x], name="neg")], name="relu"), "y")
    infer(g)
    return g


def rule_pass(rule: Callable[[Node, Builder], Outcome], *roots: str) -> RulePass:
    class Rules(RulePass):
        name = "rules"
        description = "a rule of this test"

        def rule(self, node: Node, build: Builder) -> Outcome:
            return rule(node, build)

    Rules.roots = frozenset(roots)
    return Rules()


def plain_pass(rewrite: Callable[[Graph, PassResult], Any]) -> Pass:
    class Plain(Pass):
        name = "plain"
        description = "a pass of this test"

        def rewrite(self, graph: Graph, context: PassContext, result: PassResult) -> None:
            rewrite(graph, result)

    return Plain()


def test_a_change_that_is_not_reported() -> None:
    def rename(graph: Graph, result: PassResult) -> None:
        graph.node("neg").op = "Abs"

    with pytest.raises(PassError, match="reports 0 changes"):
        plain_pass(rename).run(relu_chain(), PassContext())


def test_a_report_without_a_change() -> None:
    with pytest.raises(PassError, match="reports 1 changes"):
        plain_pass(lambda graph, result: result.changes.append(Change("relu", "nothing"))).run(
            relu_chain(), PassContext()
        )


def test_a_graph_that_is_left_invalid() -> None:
    def break_it(graph: Graph, result: PassResult) -> None:
        graph.inputs[0].uses.clear()
        graph.node("relu").op = "Abs"
        result.changes.append(Change("relu", "broken"))

    with pytest.raises(PassError, match="not valid"):
        plain_pass(break_it).run(relu_chain(), PassContext())


def test_types_that_turn_out_not_to_fit() -> None:
    """Folding a shape may be the first to see that a model is wrong; that is the model's fault."""

    def reveal(graph: Graph, result: PassResult) -> None:
        graph.node("relu").attrs["alpha"] = 1.0
        result.changes.append(Change("relu", "revealed"))

    with pytest.raises(ModelError, match=r"node 'relu'.*found after pass 'plain'"):
        plain_pass(reveal).run(relu_chain(), PassContext())


@pytest.mark.parametrize(
    "touch",
    [
        lambda g: setattr(g.node("neg"), "op", "Abs"),
        lambda g: g.node("relu").attrs.update(alpha=1),
        lambda g: g.node("relu").set_input(0, g.inputs[0]),
        lambda g: g.outputs.append(g.inputs[0]),
        lambda g: setattr(g.outputs[0], "name", "z"),
        lambda g: g.add("Abs", [g.inputs[0]]),
    ],
)
def test_fingerprints_notice(touch: Callable[[Graph], Any]) -> None:
    g = relu_chain()
    before = fingerprint(g)
    assert fingerprint(g) == before
    touch(g)
    assert fingerprint(g) != before


def test_a_replacement_of_another_type() -> None:
    def rule(node: Node, build: Builder) -> Outcome:
        return Replacement({node.output: build.add("Cast", [node.arg(0)], to=11)}, "a cast")

    with pytest.raises(PassError, match="replaces"):
        rule_pass(rule, "Relu").run(relu_chain(), PassContext())


def test_a_rule_without_end() -> None:
    def rule(node: Node, build: Builder) -> Outcome:
        return Replacement({node.output: build.add("Relu", [node.arg(0)])}, "again")

    with pytest.raises(PassError, match="does not come to an end"):
        rule_pass(rule, "Relu").run(relu_chain(), PassContext())


def test_what_a_refused_rule_built_is_taken_back() -> None:
    def rule(node: Node, build: Builder) -> Outcome:
        build.add("Abs", [build.add("Exp", [node.arg(0)])])
        return Refusal("on second thought")

    g = relu_chain()
    result = rule_pass(rule, "Relu").run(g, PassContext(trace=True))
    assert [n.op for n in g] == ["Neg", "Relu"]
    assert result.refusals == [Refusal("on second thought", "relu")]
    assert not rule_pass(rule, "Relu").run(g, PassContext()).refusals


def test_a_rule_that_builds_something_invalid_is_refused() -> None:
    def rule(node: Node, build: Builder) -> Outcome:
        return Replacement({node.output: build.add("Transpose", [node.arg(0)], perm=[3, 1])}, "wrong")

    g = relu_chain()
    result = rule_pass(rule, "Relu").run(g, PassContext(trace=True))
    assert [n.op for n in g] == ["Neg", "Relu"]
    assert "would not be valid" in result.refusals[0].reason


def test_what_only_fed_the_replaced_node_goes() -> None:
    def rule(node: Node, build: Builder) -> Outcome:
        return Replacement({node.output: build.add("Abs", [build.graph.inputs[0]])}, "Abs")

    g = relu_chain()
    rule_pass(rule, "Relu").run(g, PassContext())
    assert [(n.op, n.name) for n in g] == [("Abs", "relu")]
    assert g.outputs[0].name == "y"


def test_names_of_nodes_stay_unique() -> None:
    def rule(node: Node, build: Builder) -> Outcome:
        inner = build.add("Abs", [node.arg(0)], name="neg")
        return Replacement({node.output: build.add("Exp", [build.add("Floor", [inner])])}, "three")

    g = relu_chain()
    rule_pass(rule, "Relu").run(g, PassContext())
    assert [n.name for n in g] == ["neg", "neg_1", "relu", "relu_1"]


def test_several_outputs_are_replaced_together() -> None:
    g = Graph("g")
    a, b = g.add("Split", [g.input("x", "float32", (4, 3))], outputs=2, axis=0, num_outputs=2)
    g.output(a, "a")
    g.output(b, "b")
    infer(g)

    def rule(node: Node, build: Builder) -> Outcome:
        parts = [build.add("Slice", [node.arg(0), build.constant(np.array([i])), build.constant(np.array([i + 2]))])
                 for i in (0, 2)]  # fmt: skip
        return Replacement(dict(zip(node.outputs, parts, strict=True)), "Split => Slices")

    rule_pass(rule, "Split").run(g, PassContext())
    assert [n.op for n in g] == ["Slice", "Slice"]
    assert [v.name for v in g.outputs] == ["a", "b"]


def test_remove_dead_keeps_what_is_read() -> None:
    g = relu_chain()
    assert not remove_dead(g, g.nodes)
    extra = g.add("Exp", [g.node("neg").output])
    assert [n.op for n in remove_dead(g, [extra.producer])] == ["Exp"]
    assert len(g) == 2
