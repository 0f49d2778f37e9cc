"""The fusion report's identities: members partition the graph, times and bytes add up, break-even follows from them."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import jitopt
from jitopt import FeedError, Graph
from jitopt.fusion import FusionReport
from jitopt.model import REWRITES
from tests.networks import N, floats, mixed

FEEDS = {"x": floats(6, 20), "i": np.arange(6) % 5}


def with_a_host_step() -> Graph:
    """Two kernels of two operators each, a CumSum without kernel between them, and a view."""
    graph = Graph("hosted")
    x = graph.input("x", "float32", (N, 4))
    first = graph.add("Relu", [graph.add("Add", [x, x], name="double")], name="relu")
    total = graph.add("CumSum", [first, graph.constant(np.array(1), "axis")], name="running")
    last = graph.add("Neg", [graph.add("Mul", [total, first], name="product")], name="negative")
    graph.output(graph.add("Flatten", [last], name="flat"))
    return graph


@pytest.fixture(scope="module", params=["mixed", "hosted"])
def reported(request: Any) -> tuple[Any, FusionReport]:
    graph = {"mixed": mixed, "hosted": with_a_host_step}[request.param]()
    session = jitopt.compile(graph)
    return session, session.fusion_report(FEEDS if request.param == "mixed" else {"x": floats(6, 4)}, runs=3)


def test_members_aside_and_host_partition_the_optimised_graph(reported: tuple[Any, FusionReport]) -> None:
    session, report = reported
    named = [name for group in report.groups for name in group.members] + [*report.aside, *report.host]
    assert sorted(named) == sorted(node.name for node in session._model.graph)
    explained = session.explain().as_dict()
    assert [list(g.members) for g in report.groups] == [g["members"] for g in explained["groups"]]
    assert list(report.host) == [h["node"] for h in explained["host_steps"]]


def test_totals_add_up(reported: tuple[Any, FusionReport]) -> None:
    session, report = reported
    fused = sum(g.fused_seconds for g in report.groups)
    unfused = sum(g.unfused_seconds for g in report.groups)
    assert math.isclose(report.steps_seconds, fused + report.host_seconds)
    assert math.isclose(report.unfused_steps_seconds, unfused + report.aside_seconds + report.unfused_host_seconds)
    assert report.bytes_not_moved == sum(g.bytes_not_moved for g in report.groups) + report.aside_bytes_not_moved
    assert all(g.unfused_seconds > 0 and g.fused_seconds > 0 for g in report.groups)
    assert all(math.isclose(g.saved_seconds, g.unfused_seconds - g.fused_seconds) for g in report.groups)
    assert math.isclose(report.saved_seconds, report.unfused_seconds - report.fused_seconds)
    assert report.pool_bytes_saved == report.unfused_pool_bytes - report.fused_pool_bytes
    assert report.fused_pool_bytes == session.memory().pool_bytes
    assert report.runs == 3 and report.compile_seconds == sum(session.explain().as_dict()["seconds"].values())


def test_bytes_not_moved_are_those_of_values_inside_groups(reported: tuple[Any, FusionReport]) -> None:
    session, report = reported
    for group in report.groups:
        assert (group.bytes_not_moved > 0) == (len(group.members) > 1), group
    if session.get_modelmeta().graph_name == "hosted":  # 6 x 4 float32: one write and one read less a group
        assert [g.bytes_not_moved for g in report.groups] == [2 * 6 * 4 * 4] * 2


def test_bytes_of_what_is_joined_in_place() -> None:
    """Two parts of 60 float32 that a Concat would read and write."""
    graph = Graph("joined")
    x = graph.input("x", "float32", (12, 5))
    joined = graph.add("Concat", [graph.add("Tanh", [x]), graph.add("Exp", [x])], axis=0, name="joined")
    graph.output(graph.add("Transpose", [joined], perm=[1, 0], name="turned"))
    report = jitopt.compile(graph).fusion_report({"x": floats(12, 5)}, runs=1)
    assert report.aside == ("joined",) and report.aside_bytes_not_moved == report.bytes_not_moved == 2 * 2 * 60 * 4
    assert report.as_dict()["bytes_not_moved"] == report.bytes_not_moved


def test_every_kind_of_rewrite_is_measured(reported: tuple[Any, FusionReport]) -> None:
    _, report = reported
    assert [kind.name for kind in report.kinds] == list(REWRITES)
    for kind in report.kinds:
        assert math.isclose(kind.saved_seconds, kind.without_seconds - report.fused_seconds)


def test_break_even(reported: tuple[Any, FusionReport]) -> None:
    report = replace(reported[1], compile_seconds=10.0, unfused_seconds=0.003, fused_seconds=0.001)
    assert report.break_even_runs == 5000
    assert "pays after 5,000 runs" in str(report)
    for fused in (0.003, 0.004):
        never = replace(report, fused_seconds=fused)
        assert never.break_even_runs is None and "does not pay" in str(never)


def test_plain_data_and_text(reported: tuple[Any, FusionReport]) -> None:
    _, report = reported
    found = report.as_dict()
    for field in ("steps_seconds", "unfused_steps_seconds", "saved_seconds", "pool_bytes_saved", "break_even_runs"):
        assert found[field] == getattr(report, field)
    assert [g["members"] for g in found["groups"]] == [g.members for g in report.groups]
    text = str(report)
    assert all(group.label in text for group in report.groups) and "one operator at a time" in text


def test_profile_covers_every_step(reported: tuple[Any, FusionReport]) -> None:
    session, report = reported
    name = session.get_modelmeta().graph_name
    feeds = FEEDS if name == "mixed" else {"x": floats(6, 4)}
    found = session.profile(feeds, runs=3)
    assert sorted(n for s in found.steps for n in s.nodes) == sorted(
        [n for g in report.groups for n in g.members] + [*report.host]
    )
    assert found.runs == 3 and sum(s.seconds for s in found.steps) > 0 and found.run_seconds > 0
    assert "ms a run (median of 3)" in str(found)
    for call in (session.profile, session.fusion_report):
        with pytest.raises(ValueError, match="runs is 0"):
            call(feeds, runs=0)
        with pytest.raises(FeedError):
            call({})
