"""What must hold of fusion groups over their graph."""

from __future__ import annotations

from collections.abc import Sequence

from jitopt.errors import CompileError
from jitopt.ir.graph import Graph, Node
from jitopt.lower.groups import LEGAL, Ancestry, Group
from jitopt.ops import operator_of
from jitopt.ops.operator import Kind


def verify_groups(groups: Sequence[Group], graph: Graph) -> None:
    """Check groups against their graph.

    No node is in two groups; the anchor is a member that the template can compute; members stand in the graph's order;
    every other member is of a kind that may join the anchor (`LEGAL`), or a Transpose that the kernel's store carries
    out; and no group waits, be it through other groups, for what waits for it.

    Raises CompileError naming the node.
    """
    ancestry = Ancestry(graph)
    owner: dict[Node, Group] = {}
    for group in groups:
        try:
            _verify_group(group, ancestry, owner)
        except CompileError as error:
            error.message = f"group '{group}': {error.message}"
            raise
    _verify_order(graph, owner)


def _verify_group(group: Group, ancestry: Ancestry, owner: dict[Node, Group]) -> None:
    for node in group.nodes:
        if node not in ancestry.position:
            raise CompileError("the node is not in the graph", node=node.name)
        if owner.setdefault(node, group) is not group:
            raise CompileError(f"the node is in group '{owner[node]}', too", node=node.name)
    anchor = group.anchor
    if anchor not in group.nodes:
        raise CompileError("the anchor is no member", node=anchor.name)
    if len(set(group.nodes)) < len(group.nodes):
        raise CompileError("a node is listed twice", node=anchor.name)
    reason = group.template.refuses(anchor)
    if reason is not None:
        raise CompileError(f"template {group.template.name} refuses the anchor: {reason}", node=anchor.name)
    places = [ancestry.position[node] for node in group.nodes]
    if places != sorted(places):
        raise CompileError("the nodes are not in the graph's order", node=anchor.name)
    before, after = LEGAL[operator_of(anchor).kind]
    for node in group.nodes:
        if node is anchor:
            continue
        legal = after if ancestry.above[node] & ancestry.bit(anchor) else before or after
        if not legal or (operator_of(node).kind is not Kind.MAP and node.op != "Transpose"):
            raise CompileError(f"{node.op} cannot join {anchor.op}", node=node.name)


def _verify_order(graph: Graph, owner: dict[Node, Group]) -> None:
    """Groups and single nodes, each as one, can be put in an order (Kahn's algorithm)."""
    waits: dict[Group | Node, set[Group | Node]] = {owner.get(node, node): set() for node in graph}
    for node in graph:
        unit = owner.get(node, node)
        producers = (v.producer for v in node.operands if v is not None and v.producer is not None)
        waits[unit].update(owner.get(p, p) for p in producers if owner.get(p, p) is not unit)
    feeds: dict[Group | Node, list[Group | Node]] = {unit: [] for unit in waits}
    for unit, sources in waits.items():
        for source in sources:
            feeds[source].append(unit)
    ready = [unit for unit, sources in waits.items() if not sources]
    while ready:
        done = ready.pop()
        for unit in feeds[done]:
            waits[unit].discard(done)
            if not waits[unit]:
                ready.append(unit)
    stuck = [unit for unit, sources in waits.items() if sources and isinstance(unit, Group)]
    if stuck:
        names = ", ".join(f"'{g}'" for g in stuck)
        raise CompileError(f"groups wait for one another: {names}", node=stuck[0].anchor.name)
