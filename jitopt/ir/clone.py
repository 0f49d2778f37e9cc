"""Copies of graphs that share nothing but the constants' arrays."""

from __future__ import annotations

from typing import Any

from jitopt.ir.graph import Graph, Node, Value


def clone(graph: Graph) -> Graph:
    """A copy of the graph and its subgraphs; names, types, contents, layouts and constants' arrays are kept."""
    return _Cloner().graph(graph)


def isolate(node: Node) -> Graph:
    """A graph of this node alone: its operands are the inputs, each once, but for constants, which stay so.

    What is known of elements is dropped.
    """
    cloner, out = _Cloner(), Graph(node.graph.name)
    cloner.node(node, out)
    out.inputs = list(dict.fromkeys(cloner.value(v) for v in node.operands if v is not None and v.constant is None))
    out.outputs = [cloner.value(v) for v in node.outputs]
    for value in (*out.inputs, *out.outputs):
        value.content = None
    return out


class _Cloner:
    def __init__(self) -> None:
        self._values: dict[Value, Value] = {}

    def value(self, value: Value) -> Value:
        found = self._values.get(value)
        if found is None:
            found = self._values[value] = Value(value.name, value.type)
            found.constant, found.content, found.layout = value.constant, value.content, value.layout
        return found

    def graph(self, graph: Graph) -> Graph:
        out = Graph(graph.name)
        out.metadata = graph.metadata
        out.adopt_names(graph)
        out.inputs = [self.value(v) for v in graph.inputs]
        out.captures = [self.value(v) for v in graph.captures]
        for node in graph:
            self.node(node, out)
        out.outputs = [self.value(v) for v in graph.outputs]
        return out

    def node(self, node: Node, out: Graph) -> None:
        """Append a copy of the node to `out`."""
        out.add(
            node.op, [None if v is None else self.value(v) for v in node.inputs], name=node.name,
            outputs=[self.value(v) for v in node.outputs], captures=[self.value(v) for v in node.captures],
            **{name: self._attribute(a) for name, a in node.attrs.items()},
        )  # fmt: skip

    def _attribute(self, attribute: Any) -> Any:
        return self.graph(attribute) if isinstance(attribute, Graph) else attribute
