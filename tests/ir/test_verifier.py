"""The verifier: each broken rule has its own message, which names the node and the value."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest

from jitopt.errors import ModelError, UnsupportedOperator
from jitopt.ir.dims import symbol
from jitopt.ir.dtypes import BY_NAME
from jitopt.ir.graph import Graph, Layout, Value
from jitopt.ir.types import SequenceType, tensor
from jitopt.ir.verifier import confirm, verify
from jitopt.ops import find
from tests.ir.test_interpreter import branch, chain


def test_sound_graphs_pass() -> None:
    verify(chain(), find)
    verify(branch(), find)


def _stale_use(graph: Graph) -> None:
    graph.find_value("a").uses.append((graph.node("mul"), 0))


def _missing_use(graph: Graph) -> None:
    graph.find_value("a").uses.clear()


def _foreign_value(graph: Graph) -> None:
    graph.node("b").set_input(0, Graph("other").input("z", "float32", (2,)))


def _late(graph: Graph) -> None:
    graph._nodes = dict.fromkeys(reversed(graph.nodes))


def _two_producers(graph: Graph) -> None:
    graph.node("b").outputs.append(graph.find_value("a"))


def _other_producer(graph: Graph) -> None:
    graph.find_value("a").producer = graph.node("mul")


def _produced_constant(graph: Graph) -> None:
    graph.find_value("a").constant = np.zeros(3, np.float32)


def _constant_input(graph: Graph) -> None:
    graph.inputs[0].constant = np.zeros(3, np.float32)


def _wrong_array(graph: Graph) -> None:
    graph.find_value("w").constant = np.zeros(4, np.float32)


def _untyped_constant(graph: Graph) -> None:
    graph.find_value("w").type = None


def _same_name(graph: Graph) -> None:
    graph.find_value("a").name = "x"


def _no_name(graph: Graph) -> None:
    graph.find_value("a").name = ""


def _absent_output(graph: Graph) -> None:
    graph.outputs.append(Value("gone", tensor("float32", ())))


def _output_twice(graph: Graph) -> None:
    graph.outputs.append(graph.outputs[0])


def _input_twice(graph: Graph) -> None:
    graph.inputs.append(graph.inputs[0])


def _unknown(graph: Graph) -> None:
    graph.node("b").op = "Rleu"


def _too_many(graph: Graph) -> None:
    graph.node("b").inputs.append(None)


def _too_few(graph: Graph) -> None:
    graph.node("b").set_input(0, None)


def _surplus_output(graph: Graph) -> None:
    value = graph.value("more")
    value.producer = graph.node("b")
    graph.node("b").outputs.append(value)


def _attribute(graph: Graph) -> None:
    graph.node("b").attrs["alpha"] = 1.0


def _mixed_dtypes(graph: Graph) -> None:
    value = graph.constant(np.zeros(3, np.float64), name="d")
    graph.node("a").set_input(1, value)


def _output_dtype(graph: Graph) -> None:
    graph.find_value("a").type = tensor("int64", (3,))


def _forbidden_dtype(graph: Graph) -> None:
    graph.inputs[0].type = tensor("string", (3,))


def _content(graph: Graph) -> None:
    graph.find_value("a").type = tensor("float32", (1, 3))
    graph.find_value("a").content = np.zeros(3, object)


def _layout(graph: Graph) -> None:
    graph.find_value("a").type = tensor("float32", (3,))
    graph.find_value("a").layout = Layout(8)


def _odd_layout(graph: Graph) -> None:
    graph.find_value("a").type = tensor("float32", (1, 3))
    graph.find_value("a").layout = Layout(6)


def _border_layout(graph: Graph) -> None:
    graph.outputs[0].layout = Layout(8)


def _captures(graph: Graph) -> None:
    node = graph.node("b")
    node.captures.append(graph.inputs[0])
    graph.inputs[0].uses.append((node, 1))


def _other_graph(graph: Graph) -> None:
    graph.node("b").graph = Graph("other")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_stale_use, r"the uses of value 'a' \('b', 'mul'\) are not the nodes that read it"),
        (_missing_use, r"the uses of value 'a' \(nobody\)"),
        (_foreign_value, "node 'b': operand 'z' is not defined before its use in graph 'chain'"),
        (_late, "node 'mul': operand 'b' is not defined before its use"),
        (_two_producers, "node 'b': .*"),
        (_other_producer, "node 'a': output 'a' names another node as its producer"),
        (_produced_constant, "node 'a': constant 'a' has a producer"),
        (_constant_input, "input 'x' has a producer or is a constant"),
        (_wrong_array, r"constant 'w' of type float32\[3\] holds float32\[4\]"),
        (_untyped_constant, "constant 'w' of type None"),
        (_same_name, "two values of graph 'chain' have the name 'x'"),
        (_no_name, "a value has no name"),
        (_absent_output, "output 'gone' of graph 'chain' is not defined in it"),
        (_output_twice, "output 'y' of graph 'chain' is listed twice"),
        (_input_twice, "graph 'chain' lists the input 'x' twice"),
        (_unknown, "node 'b': operator 'Rleu' is unknown"),
        (_too_many, "node 'b': Relu has at most 1 inputs, 2 are given"),
        (_too_few, r"node 'b': input 0 \('.*'\) of Relu is missing"),
        (_surplus_output, "node 'b': Relu has at most 1 outputs, 2 are given"),
        (_attribute, "node 'b': Relu has no attribute 'alpha'"),
        (_mixed_dtypes, "node 'a': input 'd' of Add is float64, but must be float32 like 'x'"),
        (_output_dtype, "node 'a': output 'a' of Add is int64, but must be float32 like 'x'"),
        (_forbidden_dtype, r"node 'a': input 'x' \('.*'\) of Add cannot be string"),
        (_content, r"value 'a' of type float32\[1, 3\] has content of shape \[3\]"),
        (_layout, r"value 'a' of type float32\[3\] cannot have the layout NC8"),
        (_odd_layout, "value 'a' cannot have the layout NC6"),
        (_border_layout, "'y' crosses the border of graph 'chain' in layout NC8"),
        (_captures, "node 'b': Relu has captures, but no subgraph"),
        (_other_graph, "node 'b': the node belongs to graph 'other', but stands in 'chain'"),
    ],
)
def test_broken_rules(damage: Callable[[Graph], None], message: str) -> None:
    graph = chain()
    damage(graph)
    with pytest.raises((ModelError, UnsupportedOperator), match=message):
        verify(graph, find)


def _drop_capture(graph: Graph) -> None:
    graph.node("if").attrs["then_branch"].captures.clear()


def _capture_type(graph: Graph) -> None:
    graph.find_value("a").type = tensor("float32", (2,))
    graph.node("if").attrs["then_branch"].captures[0].type = tensor("float64", (2,))


def _implicit(graph: Graph) -> None:
    graph.node("if").attrs["else_branch"].nodes[0].set_input(0, graph.find_value("x"))


def _shared(graph: Graph) -> None:
    node = graph.node("if")
    node.attrs["else_branch"] = node.attrs["then_branch"]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_drop_capture, "node 'if': subgraph 'then_branch' captures 0 values, 1 are given"),
        (_capture_type, "captures 'a' as float64.*, it is float32.* outside"),
        (_implicit, "node 'else_branch/Neg': operand 'x' is not defined before its use in graph 'else_branch'"),
        (_shared, "graph 'then_branch' is the subgraph of two nodes"),
    ],
)
def test_broken_subgraphs(damage: Callable[[Graph], None], message: str) -> None:
    graph = branch()
    damage(graph)
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
