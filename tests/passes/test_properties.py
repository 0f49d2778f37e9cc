"""What must hold of any graph: exact passes keep every bit, the others their bounds, and a second run does nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from jitopt.ir.graph import Graph
from jitopt.ir.verifier import verify
from jitopt.ops import find
from jitopt.passes import infer, optimize
from jitopt.passes.base import PassContext
from jitopt.passes.pipelines import PASSES
from jitopt.verify import compare
from tests.passes.helpers import evaluate
from tests.passes.random_graphs import graphs, random_choices, random_graph

SETTINGS = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
Case = tuple[Graph, dict[str, Any]]


def outputs(graph: Graph, feeds: dict[str, Any]) -> dict[str, np.ndarray]:
    return evaluate(graph, feeds)


def same_bits(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert list(before) == list(after)
    for name in before:
        assert before[name].shape == after[name].shape and before[name].dtype == after[name].dtype
        nan = np.isnan(before[name])  # which of two NaNs an addition hands on is not ours to keep
        assert np.array_equal(nan, np.isnan(after[name]))
        a, b = (np.where(nan, 0, v[name]) for v in (before, after))
        assert a.tobytes() == b.tobytes(), name


@pytest.mark.parametrize(
    "names",
    [("dead-code",), ("common-subexpressions",), ("remove-identities",), ("merge-constants",),
     ("dead-code", "common-subexpressions", "remove-identities", "merge-constants")],
    ids="+".join,
)  # fmt: skip
def test_cleaning_keeps_every_bit(names: tuple[str, ...]) -> None:
    @SETTINGS
    @given(graphs())
    def check(case: Case) -> None:
        graph, feeds = case
        infer(graph)
        before = outputs(graph, feeds)
        for name in names:
            PASSES[name].run(graph, PassContext())
        verify(graph, find)
        same_bits(before, outputs(graph, feeds))

    check()


@pytest.mark.parametrize("name", [n for n, p in PASSES.items() if p.exactness == "bit-exact"])
def test_exact_passes_keep_every_bit(name: str) -> None:
    @SETTINGS
    @given(graphs(exact=True))
    def check(case: Case) -> None:
        graph, feeds = case
        infer(graph)
        before = outputs(graph, feeds)
        PASSES[name].run(graph, PassContext())
        same_bits(before, outputs(graph, feeds))

    check()


@SETTINGS
@given(graphs(exact=True))
def test_exact_mode_keeps_every_bit(case: Case) -> None:
    graph, feeds = case
    infer(graph)
    before = outputs(graph, feeds)
    optimize(graph, precision="exact")
    same_bits(before, outputs(graph, feeds))


@SETTINGS
@given(graphs())
def test_folding_stays_within_its_bound(case: Case) -> None:
    graph, feeds = case
    infer(graph)
    before = outputs(graph, feeds)
    PASSES["fold-constants"].run(graph, PassContext())
    after = outputs(graph, feeds)
    for name in before:
        assert compare(after[name], before[name])


@settings(SETTINGS, max_examples=150)
@given(graphs(max_nodes=24))
def test_the_pipeline_is_idempotent_and_right(case: Case) -> None:
    graph, feeds = case
    infer(graph)
    names = [v.name for v in graph.outputs]
    before = outputs(graph, feeds)
    report = optimize(graph)
    assert not report.firing
    assert [v.name for v in graph.outputs] == names
    verify(graph, find)
    after = outputs(graph, feeds)
    for name in names:
        scale = np.max(np.abs(before[name]), where=np.isfinite(before[name]), initial=0)
        if scale < 1e6:  # chains of products of random constants may leave every scale behind
            result = compare(after[name], before[name])
            assert result, result.reason
    assert not optimize(graph).changes()


def test_the_generator_is_deterministic_and_varied() -> None:
    first, second = (random_graph(random_choices(3), 20)[0] for _ in range(2))
    assert [repr(n) for n in first] == [repr(n) for n in second]
    used = {node.op for seed in range(40) for node in random_graph(random_choices(seed), 20)[0]}
    assert len(used) >= 25
