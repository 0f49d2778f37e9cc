"""Groups that cannot be kernels, or cannot be put in an order, are refused; and none such are formed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from jitopt.errors import CompileError
from jitopt.ir.graph import Graph
from jitopt.lower.groups import Group
from jitopt.lower.lowering import groups_of
from jitopt.lower.template import template_of
from jitopt.lower.verifier_groups import verify_groups
from jitopt.passes.infer import infer
from tests.lower.programs import lowered


def crossing() -> Graph:
    """Two products, each with an epilogue that needs the other: only one of them may have its own."""
    graph = Graph("crossing")
    x = graph.input("x", "float32", (4, 16))
    left, right = (
        graph.add("MatMul", [x, graph.constant(np.full((16, 8), k, np.float32), f"w{k}")], name=name)
        for k, name in enumerate(("left", "right"))
    )
    total = graph.add("Softmax", [left], name="softmax")
    graph.output(graph.add("Add", [left, right], name="sum"))
    graph.output(graph.add("Mul", [right, total], name="scaled"))
    infer(graph)
    return graph


def test_groups_do_not_wait_for_one_another() -> None:
    graph = crossing()
    groups = groups_of(graph)
    verify_groups(groups, graph)
    assert [len(g.nodes) for g in groups] == [2, 1, 2]
    assert [s.label for s in lowered(graph).steps] == ["MatMul", "MatMul+Add", "Softmax+Mul"]


def group(graph: Graph, *names: str) -> Group:
    nodes = [graph.node(name) for name in names]
    template = template_of(nodes[0])
    assert template is not None
    return Group(nodes[0], template, sorted(nodes, key=graph.nodes.index))


def foreign(graph: Graph) -> list[Group]:
    found = group(graph, "left", "sum")
    found.nodes.append(crossing().node("scaled"))
    return [found]


def turned(graph: Graph) -> list[Group]:
    found = group(graph, "left", "sum")
    found.nodes.reverse()
    return [found]


def without_anchor(graph: Graph) -> list[Group]:
    found = group(graph, "left", "sum")
    del found.nodes[0]
    return [found]


def refused(graph: Graph) -> list[Group]:
    found = group(graph, "softmax")
    found.template = group(graph, "sum").template
    return [found]


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (
            lambda g: [group(g, "left", "sum"), group(g, "right", "scaled")],
            "groups wait for one another: 'gemm: MatMul",
        ),
        (
            lambda g: [group(g, "left", "softmax")],
            "node 'softmax': group 'gemm: MatMul + Softmax': Softmax cannot join",
        ),
        (
            lambda g: [group(g, "left", "sum"), group(g, "right", "sum")],
            "the node is in group 'gemm: MatMul + Add', too",
        ),
        (lambda g: [group(g, "left", "left")], "a node is listed twice"),
        (foreign, "node 'scaled': group 'gemm: MatMul + Add + Mul': the node is not in the graph"),
        (turned, "the nodes are not in the graph's order"),
        (without_anchor, "the anchor is no member"),
        (refused, "template pointwise refuses the anchor: Softmax has no device formula"),
    ],
)
def test_unsound_groups_are_refused(groups: Callable[[Graph], list[Group]], message: str) -> None:
    graph = crossing()
    with pytest.raises(CompileError) as caught:
        verify_groups(groups(graph), graph)
    assert message in str(caught.value)
