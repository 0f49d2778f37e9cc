"""`optimize`: options, order, fixpoint, report."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest

from jitopt.errors import ModelError
from jitopt.ir.graph import Graph
from jitopt.passes import optimize
from jitopt.passes.base import Change, Pass, PassContext, PassError, PassResult
from jitopt.passes.pipelines import PASSES, STAGES
from tests.passes.helpers import evaluate, feeds_of, floats, ops
from tests.passes.test_batchnorm import batchnorm, conv_graph


def block() -> Graph:
    """Conv, BatchNormalization, HardSwish in parts, an identity, a residual."""
    g = Graph("block")
    x = g.input("x", "float32", (1, 4, 6, 6))
    y = g.add("Conv", [g.add("Identity", [x]), g.constant(floats(4, 4, 3, 3))], pads=[1] * 4, name="conv")
    y = batchnorm(g, y, 4)
    six = g.add("Clip", [g.add("Add", [y, g.constant(3.0)]), g.constant(0.0), g.constant(6.0)])
    y = g.add("Div", [g.add("Mul", [y, six]), g.constant(6.0)])
    g.output(g.add("Add", [y, x]), "y")
    return g


def test_the_whole() -> None:
    g = block()
    optimize(g, disable=list(PASSES))
    feeds = feeds_of(g)
    before = evaluate(g, feeds)["y"]
    report = optimize(g)
    assert ops(g) == ["Conv", "HardSwish", "Add"]
    assert np.allclose(evaluate(g, feeds)["y"], before, atol=1e-5)
    assert (report.nodes_before, report.nodes_after) == (8, 3)
    assert report.ops_before["BatchNormalization"] == 1
    assert report.ops_after == {"Conv": 1, "HardSwish": 1, "Add": 1}
    assert report.firing == () and report.rounds == 2
    assert [c.what for c in report.changes("fold-batchnorm")] == ["Conv + BatchNormalization => Conv"]
    assert set(report.seconds()) <= set(PASSES)
    assert all(r.nodes_before - r.nodes_after == 0 or r.changes for r in report.records)


def test_every_pass_stands_in_a_stage_and_says_what_it_is() -> None:
    listed = {name for _, names in STAGES for name in names}
    assert listed == set(PASSES)
    for name, rewrite in PASSES.items():
        assert rewrite.name == name and rewrite.description
        assert (rewrite.exactness == "bit-exact") == (not rewrite.bound)


@pytest.mark.parametrize("name", PASSES)
def test_disable(name: str) -> None:
    report = optimize(block(), disable=[name])
    assert not report.changes(name)
    assert name not in {r.name for r in report.records}


def test_disabling_one_fold_leaves_its_node() -> None:
    g = block()
    optimize(g, disable=("fold-batchnorm", "batchnorm-to-affine"))
    assert "BatchNormalization" in ops(g)


def test_exact_mode_runs_bit_exact_passes_only() -> None:
    g = block()
    report = optimize(g, precision="exact")
    assert ops(g) == ["Conv", "Mul", "Add", "Add", "Clip", "Mul", "Div", "Add"]
    ran = {r.name for r in report.records}
    assert {n for n in ran if PASSES[n].exactness != "bit-exact"} <= {"fold-constants"}


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"disable": ["fold-batchnrm"]}, "did you mean 'fold-batchnorm'"),
        ({"disable": ["zzz"]}, "it is one of"),
        ({"precision": "exactly"}, "did you mean 'exact'"),
        ({"gelu": "tan"}, "did you mean 'tanh'"),
    ],
)
def test_unknown_options(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        optimize(block(), **options)


def test_refusals_are_kept_on_request() -> None:
    def build() -> Graph:
        g = conv_graph()
        g.output(g.node("conv").output, "other")
        return g

    assert not optimize(build()).refusals()
    refusals = optimize(build(), trace=True).refusals("fold-batchnorm")
    assert [(r.node, r.reason) for r in refusals] == [("bn", "the output of 'conv' has another reader")]


def test_a_graph_whose_types_do_not_fit_raises_and_stays() -> None:
    g = block()
    g.add("Transpose", [g.inputs[0]], perm=[0, 0, 1, 2], name="bad")
    before = ops(g)
    with pytest.raises(ModelError, match="bad"):
        optimize(g)
    assert ops(g) == before


def test_passes_that_never_end_are_named(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    class Flip(Pass):
        name = "remove-identities"
        description = "turns Relu to Abs and back"

        def rewrite(self, graph: Graph, context: PassContext, result: PassResult) -> None:
            node = graph.nodes[-1]
            node.op = {"Relu": "Abs", "Abs": "Relu"}[node.op]
            result.changes.append(Change(node.name, "flipped"))

    monkeypatch.setitem(PASSES, "remove-identities", Flip())
    g = Graph("flip")
    g.output(g.add("Relu", [g.input("x", "float32", (2,))]), "y")
    with caplog.at_level(logging.WARNING, logger="jitopt"):
        report = optimize(g)
    assert report.rounds == 10
    assert report.firing == ("remove-identities",)
    assert "remove-identities" in caplog.text and "flip" in caplog.text


def test_checks_can_be_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    class Liar(Pass):
        name = "remove-identities"
        description = "changes without saying so"

        def rewrite(self, graph: Graph, context: PassContext, result: PassResult) -> None:
            graph.nodes[0].op = "Abs"

    monkeypatch.setitem(PASSES, "remove-identities", Liar())
    for check in (True, False):
        g = Graph("g")
        g.output(g.add("Relu", [g.input("x", "float32", (2,))]), "y")
        if check:
            with pytest.raises(PassError):
                optimize(g, check=True)
        else:
            optimize(g, check=False)


def test_an_observer_sees_the_graph_as_each_pass_left_it() -> None:
    seen: list[tuple[str, int]] = []
    g = block()
    report = optimize(g, observe=lambda record: seen.append((record.name, len(g))))
    assert seen == [(r.name, r.nodes_after) for r in report.records]
