"""Captures of subgraphs: constants captured from outside become the subgraph's own, captures nobody reads go.

Capture i of a node stands at place i of the captures of each of its subgraphs.
"""

from __future__ import annotations

from collections.abc import Iterable

from jitopt.ir.graph import Graph, Node, Value
from jitopt.passes.base import Change, Pass, PassContext, PassResult


class LocalConstants(Pass):
    name = "local-constants"
    description = "a captured constant becomes a constant of the subgraph that reads it"

    def rewrite(self, graph: Graph, context: PassContext, result: PassResult) -> None:
        for node in graph.nodes:
            constant = [i for i, v in enumerate(node.captures) if v.constant is not None]
            for index in constant:
                for inner in node.subgraphs:
                    _replace_capture(inner, index, node.captures[index])
                result.changes.append(Change(node.name, f"captured constant '{node.captures[index].name}' => constant"))
            drop_captures(node, constant)


def _replace_capture(graph: Graph, index: int, outer: Value) -> None:
    capture = graph.captures[index]
    own = graph.constant(outer.constant, name=capture.name)
    own.type, own.content = outer.type, outer.content
    graph.replace(capture, own)


def drop_captures(node: Node, indices: Iterable[int]) -> bool:
    """Take those captures, which no subgraph may read any more, from the node and its subgraphs."""
    gone = set(indices)
    kept = [v for i, v in enumerate(node.captures) if i not in gone]
    first = len(node.inputs)
    for place, value in enumerate(node.captures):
        value.uses.remove((node, first + place))
    for place, value in enumerate(kept):
        value.uses.append((node, first + place))
    node.captures = kept
    for graph in node.subgraphs:
        graph.captures = [v for i, v in enumerate(graph.captures) if i not in gone]
    return bool(gone)
