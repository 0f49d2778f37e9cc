"""Groups read back from their text over the same graph, and text that does not fit the graph is refused."""

from __future__ import annotations

import numpy as np
import pytest

from jitopt.errors import ModelError
from jitopt.ir.dims import symbol
from jitopt.ir.graph import Graph
from jitopt.lower.groups import Group
from jitopt.lower.lowering import groups_of
from jitopt.lower.text_groups import parse_groups, print_groups
from jitopt.lower.verifier_groups import verify_groups
from jitopt.passes.infer import infer
from tests.golden.small import levels


def attention() -> Graph:
    """A product whose operand is a transposed view, and whose result is stored transposed."""
    graph = Graph("attention")
    x = graph.input("x", "float32", (symbol("n"), 5, 2, 8))
    keys = graph.add("Transpose", [x], name="keys", perm=(0, 2, 1, 3))
    scores = graph.add("MatMul", [keys, graph.add("Transpose", [x], name="queries", perm=(0, 2, 3, 1))], name="scores")
    weights = graph.add("Softmax", [scores], name="softmax", axis=-1)
    mixed = graph.add("MatMul", [weights, keys], name="mixed")
    graph.output(graph.add("Transpose", [mixed], name="merged", perm=(0, 2, 1, 3)))
    infer(graph)
    return graph


def facts(groups: list[Group], graph: Graph) -> list[object]:
    return [(g.anchor, g.template, g.nodes, g.inputs, g.outputs(graph)) for g in groups]


@pytest.mark.parametrize("name", ["small", "attention"])
def test_groups_read_back(name: str) -> None:
    graph = levels("avx2").laid_out if name == "small" else attention()
    groups = groups_of(graph)
    text = print_groups(groups, graph)
    again = parse_groups(text, graph)
    assert print_groups(again, graph) == text and facts(again, graph) == facts(groups, graph)
    verify_groups(again, graph)


def test_transposes_a_kernel_looks_through_are_named() -> None:
    graph = attention()
    text = print_groups(groups_of(graph), graph)
    assert "through (@keys, @queries)" in text and "nodes (@mixed MatMul, @merged Transpose)" in text


def test_every_operator_alone() -> None:
    graph = levels("avx2").laid_out
    groups = groups_of(graph, ())
    assert all(len(g.nodes) == 1 for g in groups)
    verify_groups(parse_groups(print_groups(groups, graph), graph), graph)


HEAD = 'groups of "chain" {\n  group '
GEMM = HEAD + "gemm @product { nodes (@product MatMul, @relu Relu) "


def chain() -> Graph:
    graph = Graph("chain")
    x = graph.input("x", "float32", (3, 4))
    weights = graph.constant(np.ones((4, 5), np.float32), "w")
    y = graph.add("Relu", [graph.add("MatMul", [x, weights], name="product")], name="relu")
    graph.output(graph.add("CumSum", [y, graph.constant(np.array(0), "axis")], name="sum"))
    infer(graph)
    return graph


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1, column 1: expected 'groups', found the end of the text"),
        ('groups of "other" {}', "line 1, column 11: the groups are of graph 'other', not of 'chain'"),
        ('groups of "chain" {} }', "line 1, column 22: unexpected '}' after the groups"),
        (HEAD + "gemm @nobody {", "line 2, column 14: graph 'chain' has no node 'nobody'"),
        (HEAD + "conv @product {", "line 2, column 9: node 'product' is computed by 'gemm', not by 'conv'"),
        (HEAD + "rows @sum {", "node 'sum' is computed by no kernel (no kernel template serves this operator), not by"),
        (HEAD + "gemm @product { nodes (@product Gemm)", "line 2, column 41: node 'product' is MatMul, not Gemm"),
        (GEMM + "reads (%x) writes (%relu) }", "line 2, column 61: the group reads %x, %w in the graph"),
        (GEMM + "reads (%x, %w) writes (%product) }", "column 76: the group writes %relu in the graph"),
        (GEMM + "reads (%x, %w) }", "line 2, column 76: expected 'writes', found '}'"),
    ],
)
def test_malformed_text(text: str, message: str) -> None:
    with pytest.raises(ModelError) as caught:
        parse_groups(text, chain())
    assert message in str(caught.value) and str(caught.value).startswith("line ")
