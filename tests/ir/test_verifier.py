"""The verifier: each broken rule has its own message, which names the node and the value."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest

from jitopt.errors import ModelError, UnsupportedOperator
from jitopt.ir.dims import symbol
from jitopt.ir.dtypes import BY_NAME
from jitopt.ir.graph import Graph
from jitopt.ir.types import SequenceType, tensor
from jitopt.ir.verifier import confirm, verify
from jitopt.ops import find
from tests.ir import damage
from tests.ir.test_interpreter import branch, chain


def test_sound_graphs_pass() -> None:
    verify(chain(), find)
    verify(branch(), find)


@pytest.mark.parametrize(
    ("break_rule", "message"),
    [
        (damage.stale_use, r"the uses of value 'a' \('b', 'mul'\) are not the nodes that read it"),
        (damage.missing_use, r"the uses of value 'a' \(nobody\)"),
        (damage.foreign_value, "node 'b': operand 'z' is not defined before its use in graph 'chain'"),
        (damage.late, "node 'mul': operand 'b' is not defined before its use"),
        (damage.two_producers, "node 'b': .*"),
        (damage.other_producer, "node 'a': output 'a' names another node as its producer"),
        (damage.produced_constant, "node 'a': constant 'a' has a producer"),
        (damage.constant_input, "input 'x' has a producer or is a constant"),
        (damage.wrong_array, r"constant 'w' of type float32\[3\] holds float32\[4\]"),
        (damage.untyped_constant, "constant 'w' of type None"),
        (damage.same_name, "two values of graph 'chain' have the name 'x'"),
        (damage.no_name, "a value has no name"),
        (damage.absent_output, "output 'gone' of graph 'chain' is not defined in it"),
        (damage.output_twice, "output 'y' of graph 'chain' is listed twice"),
        (damage.input_twice, "graph 'chain' lists the input 'x' twice"),
        (damage.unknown, "node 'b': operator 'Rleu' is unknown"),
        (damage.too_many, "node 'b': Relu has at most 1 inputs, 2 are given"),
        (damage.too_few, r"node 'b': input 0 \('.*'\) of Relu is missing"),
        (damage.surplus_output, "node 'b': Relu has at most 1 outputs, 2 are given"),
        (damage.attribute, "node 'b': Relu has no attribute 'alpha'"),
        (damage.mixed_dtypes, "node 'a': input 'd' of Add is float64, but must be float32 like 'x'"),
        (damage.output_dtype, "node 'a': output 'a' of Add is int64, but must be float32 like 'x'"),
        (damage.forbidden_dtype, r"node 'a': input 'x' \('.*'\) of Add cannot be string"),
        (damage.content, r"value 'a' of type float32\[1, 3\] has content of shape \[3\]"),
        (damage.layout, r"value 'a' of type float32\[3\] cannot have the layout NC8"),
        (damage.odd_layout, "value 'a' cannot have the layout NC6"),
        (damage.border_layout, "'y' crosses the border of graph 'chain' in layout NC8"),
        (damage.captures, "node 'b': Relu has captures, but no subgraph"),
        (damage.other_graph, "node 'b': the node belongs to graph 'other', but stands in 'chain'"),
    ],
)
def test_broken_rules(break_rule: Callable[[Graph], None], message: str) -> None:
    graph = chain()
    break_rule(graph)
    with pytest.raises((ModelError, UnsupportedOperator), match=message):
        verify(graph, find)


@pytest.mark.parametrize(
    ("break_rule", "message"),
    [
        (damage.drop_capture, "node 'if': subgraph 'then_branch' captures 0 values, 1 are given"),
        (damage.capture_type, "captures 'a' as float64.*, it is float32.* outside"),
        (damage.implicit, "node 'else_branch/Neg': operand 'x' is not defined before its use in graph 'else_branch'"),
        (damage.missing_branch_output, "branch 'else_branch' has 0 inputs and 0 outputs where If has 1 outputs"),
        (damage.shared, "graph 'then_branch' is the subgraph of two nodes"),
    ],
)
def test_broken_subgraphs(break_rule: Callable[[Graph], None], message: str) -> None:
    graph = branch()
    break_rule(graph)
    with pytest.raises(ModelError, match=message):
        verify(graph, find)


def test_stored_types_must_agree_with_inferred_ones() -> None:
    graph = chain()
    graph.find_value("b").type = tensor("float32", (2, 4))
    verify(graph, find)
    with pytest.raises(ModelError, match=r"node 'b': value 'b' is declared as float32\[2, 4\].*float32\[n, 3\]"):
        verify(graph, find, infer=lambda node: [tensor("float32", (symbol("n"), 3))])
    graph.find_value("b").type = tensor("float32", (7, 3))
    verify(graph, find, infer=lambda node: [tensor("float32", (symbol("n"), 3))])


def test_confirm() -> None:
    declared = tensor("float32", (1, symbol("n")))
    confirm("v", None, declared)
    confirm("v", declared, tensor("float32", (2, 2)))
    confirm("v", declared, tensor("float32", None))
    for wrong in (tensor("float64", (1, 2)), tensor("float32", (1,)), SequenceType(declared)):
        with pytest.raises(ModelError, match="value 'v' is declared as"):
            confirm("v", declared, wrong)
    with pytest.raises(ModelError, match="declared"):
        confirm("v", declared, tensor("float32", (2, 2)), extents=True)


def test_raw_arrays_may_be_constants() -> None:
    graph = chain()
    value = graph.constant(np.zeros(3, np.uint16), name="raw")
    value.type = tensor(BY_NAME["bfloat16"], (3,))
    graph.output(graph.add("Identity", [value]), name="z")
    verify(graph, find)


def test_a_thousand_nodes_take_milliseconds() -> None:
    graph = Graph("long")
    value = graph.input("x", "float32", (1, 3, 8, 8))
    for i in range(1000):
        value = graph.add("Add" if i % 2 else "Mul", [value, value])
        value.type = graph.inputs[0].type
    graph.output(value)
    verify(graph, find)
    best = min(_seconds(graph) for _ in range(5))
    assert best < 0.1  # measured 8 ms


def _seconds(graph: Graph) -> float:
    start = time.perf_counter()
    verify(graph, find)
    return time.perf_counter() - start
