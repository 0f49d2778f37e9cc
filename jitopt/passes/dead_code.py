"""Removes what no output depends on: nodes, unused optional outputs, captures no subgraph reads."""

from __future__ import annotations

from jitopt.ir.graph import Graph, Node
from jitopt.ops.registry import operator_of
from jitopt.passes.base import Change, Pass, PassContext, PassResult, remove_dead
from jitopt.passes.captures import drop_captures


class DeadCode(Pass):
    name = "dead-code"
    description = "nodes and optional outputs that nothing reads"

    def rewrite(self, graph: Graph, context: PassContext, result: PassResult) -> None:
        for node in reversed(graph.nodes):
            unread = [not v.uses and not graph.is_output(v) for v in node.outputs]
            if all(unread):
                for gone in remove_dead(graph, [node]):
                    result.changes.append(Change(gone.name, f"{gone.op} => nothing"))
            elif unread[-1]:
                self._trim(node, unread, result)
            if node.captures:
                unused = [i for i in range(len(node.captures)) if not any(_reads(g, i) for g in node.subgraphs)]
                if unused and drop_captures(node, unused):
                    result.changes.append(Change(node.name, f"{node.op} captures {len(unused)} values fewer"))

    @staticmethod
    def _trim(node: Node, unread: list[bool], result: PassResult) -> None:
        """Drop trailing outputs that the schema lets a node leave out."""
        formal = operator_of(node).outputs
        while unread[-1] and len(node.outputs) <= len(formal) and formal[len(node.outputs) - 1].optional:
            value = node.outputs.pop()
            unread.pop()
            value.producer = None
            result.changes.append(Change(node.name, f"output '{value.name}' of {node.op} => nothing"))


def _reads(graph: Graph, index: int) -> bool:
    return index < len(graph.captures) and (bool(graph.captures[index].uses) or graph.is_output(graph.captures[index]))
