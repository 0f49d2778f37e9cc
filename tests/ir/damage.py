"""One broken rule each: functions that damage the graphs of `test_interpreter`, `chain` and `branch`."""

from __future__ import annotations

import numpy as np

from jitopt.ir.graph import Graph, Layout, Value
from jitopt.ir.types import tensor


def stale_use(graph: Graph) -> None:
    graph.find_value("a").uses.append((graph.node("mul"), 0))


def missing_use(graph: Graph) -> None:
    graph.find_value("a").uses.clear()


def foreign_value(graph: Graph) -> None:
    graph.node("b").set_input(0, Graph("other").input("z", "float32", (2,)))


def late(graph: Graph) -> None:
    graph._nodes = dict.fromkeys(reversed(graph.nodes))


def two_producers(graph: Graph) -> None:
    graph.node("b").outputs.append(graph.find_value("a"))


def other_producer(graph: Graph) -> None:
    graph.find_value("a").producer = graph.node("mul")


def produced_constant(graph: Graph) -> None:
    graph.find_value("a").constant = np.zeros(3, np.float32)


def constant_input(graph: Graph) -> None:
    graph.inputs[0].constant = np.zeros(3, np.float32)


def wrong_array(graph: Graph) -> None:
    graph.find_value("w").constant = np.zeros(4, np.float32)


def untyped_constant(graph: Graph) -> None:
    graph.find_value("w").type = None


def same_name(graph: Graph) -> None:
    graph.find_value("a").name = "x"


def no_name(graph: Graph) -> None:
    graph.find_value("a").name = ""


def absent_output(graph: Graph) -> None:
    graph.outputs.append(Value("gone", tensor("float32", ())))


def output_twice(graph: Graph) -> None:
    graph.outputs.append(graph.outputs[0])


def input_twice(graph: Graph) -> None:
    graph.inputs.append(graph.inputs[0])


def unknown(graph: Graph) -> None:
    graph.node("b").op = "Rleu"


def too_many(graph: Graph) -> None:
    graph.node("b").inputs.append(None)


def too_few(graph: Graph) -> None:
    graph.node("b").set_input(0, None)


def surplus_output(graph: Graph) -> None:
    value = graph.value("more")
    value.producer = graph.node("b")
    graph.node("b").outputs.append(value)


def attribute(graph: Graph) -> None:
    graph.node("b").attrs["alpha"] = 1.0


def mixed_dtypes(graph: Graph) -> None:
    value = graph.constant(np.zeros(3, np.float64), name="d")
    graph.node("a").set_input(1, value)


def output_dtype(graph: Graph) -> None:
    graph.find_value("a").type = tensor("int64", (3,))


def forbidden_dtype(graph: Graph) -> None:
    graph.inputs[0].type = tensor("string", (3,))


def content(graph: Graph) -> None:
    graph.find_value("a").type = tensor("float32", (1, 3))
    graph.find_value("a").content = np.zeros(3, object)


def layout(graph: Graph) -> None:
    graph.find_value("a").type = tensor("float32", (3,))
    graph.find_value("a").layout = Layout(8)


def odd_layout(graph: Graph) -> None:
    graph.find_value("a").type = tensor("float32", (1, 3))
    graph.find_value("a").layout = Layout(6)


def border_layout(graph: Graph) -> None:
    graph.outputs[0].layout = Layout(8)


def captures(graph: Graph) -> None:
    node = graph.node("b")
    node.captures.append(graph.inputs[0])
    graph.inputs[0].uses.append((node, 1))


def other_graph(graph: Graph) -> None:
    graph.node("b").graph = Graph("other")


def drop_capture(graph: Graph) -> None:
    graph.node("if").attrs["then_branch"].captures.clear()


def capture_type(graph: Graph) -> None:
    graph.find_value("a").type = tensor("float32", (2,))
    graph.node("if").attrs["then_branch"].captures[0].type = tensor("float64", (2,))


def implicit(graph: Graph) -> None:
    graph.node("if").attrs["else_branch"].nodes[0].set_input(0, graph.find_value("x"))


def shared(graph: Graph) -> None:
    node = graph.node("if")
    node.attrs["else_branch"] = node.attrs["then_branch"]


def missing_branch_output(graph: Graph) -> None:
    graph.node("if").attrs["else_branch"].outputs.clear()
