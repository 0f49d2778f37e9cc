"""Fusion groups: which nodes become one kernel.

A group is an anchor with the pointwise nodes before (prologue) and after it (epilogue), or pointwise nodes alone.
Legality is the table `LEGAL` over operator kinds, plus three conditions every absorbed node must meet: its loop
domain is the group's, its operands can be reached from inside the kernel (the template says so), and the group stays
convex (nothing it reads from outside depends, be it through other groups, on anything it computes).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from jitopt.ir.graph import Graph, Node, Value
from jitopt.lower.template import Template, template_of
from jitopt.ops import operator_of
from jitopt.ops.operator import Kind

# May a group anchored on a kind take pointwise nodes in before / after it?
LEGAL: dict[Kind, tuple[bool, bool]] = {
    Kind.MAP: (True, True),
    Kind.REDUCE: (True, True),
    Kind.CONTRACT: (False, True),
    Kind.WINDOW: (False, True),
    Kind.MOVE: (False, False),
    Kind.VIEW: (False, False),
    Kind.SHAPE: (False, False),
    Kind.OPAQUE: (False, False),
}


@dataclass(eq=False, slots=True)
class Group:
    """Nodes that become one kernel, in topological order; `anchor` gives the template."""

    anchor: Node
    template: Template
    nodes: list[Node] = field(default_factory=list)
    through: Collection[Node] = ()  # transposes that the kernel looks through

    @property
    def inputs(self) -> list[Value]:
        """Values read from outside, each once."""
        inside = set(self.nodes)
        found = {v: None for n in self.nodes for v in n.operands if v is not None and v.producer not in inside}
        return list(found)

    def outputs(self, graph: Graph) -> list[Value]:
        """Values that someone outside reads, or that the graph returns."""
        inside = set(self.nodes)
        return [
            v for n in self.nodes for v in n.outputs
            if graph.is_output(v) or any(user not in inside for user, _ in v.uses)
        ]  # fmt: skip

    def __repr__(self) -> str:
        return f"{self.template.name}: {' + '.join(n.op for n in self.nodes)}"


class Ancestry:
    """Which nodes each node waits for, as bit sets over positions in topological order.

    Members of a group run at one time, so each waits for what any of them depends on, and so do their readers.
    """

    def __init__(self, graph: Graph) -> None:
        self.position = {node: i for i, node in enumerate(graph)}
        self.above: dict[Node, int] = {}
        self._mates: dict[Node, list[Node]] = {}
        for node in graph:
            bits = 0
            for value in node.operands:
                if value is not None and value.producer in self.position:
                    bits |= self.above[value.producer] | self.bit(value.producer)
            self.above[node] = bits

    def join(self, members: list[Node]) -> None:
        """Let these nodes be one group from now on."""
        self._mates.update(dict.fromkeys(members, members))
        waiting = [members]
        while waiting:
            mates = waiting.pop()
            bits = 0
            for node in mates:
                bits |= self.above[node]
            for node in mates:
                self.above[node] = bits
                for user in (user for v in node.outputs for user, _ in v.uses if user in self.position):
                    if self.above[user] | bits | self.bit(node) != self.above[user]:
                        self.above[user] |= bits | self.bit(node)
                        waiting.append(self._mates.get(user, [user]))

    def bit(self, node: Node) -> int:
        return 1 << self.position[node]

    def bits(self, nodes: Iterable[Node]) -> int:
        out = 0
        for node in nodes:
            out |= self.bit(node)
        return out

    def convex_with(self, members: list[Node], new: Node) -> bool:
        """Whether the members plus `new` read nothing from outside that depends on one of them."""
        inside = self.bits(members) | self.bit(new)
        for node in (*members, new):
            for value in node.operands:
                producer = None if value is None else value.producer
                if producer is None or producer not in self.position or self.bit(producer) & inside:
                    continue
                if self.above[producer] & inside:
                    return False
        return True


# Kinds of grouping, which can be switched off one by one: pointwise nodes with pointwise nodes, and with anchors.
# CONCAT_VIEWS is no grouping of nodes, but of their results in one buffer (`jitopt.lower.homes`).
CONCAT_VIEWS = "concat-views"
GROUPINGS = ("pointwise-groups", "epilogues", CONCAT_VIEWS)


def form_groups(
    graph: Graph, groupings: Iterable[str] = GROUPINGS, skip: Iterable[Node] = (), through: Collection[Node] = ()
) -> list[Group]:  # fmt: skip
    """Partition the nodes that have a kernel into groups, in an order in which they can run.

    `through` are transposes that readers look through. Nodes in `skip` and nodes without template stay outside.
    Without any of the GROUPINGS every node is its own group.
    """
    allowed = frozenset(groupings)
    ancestry = Ancestry(graph)
    taken: set[Node] = set(skip)
    groups: list[Group] = []
    templates = {node: template_of(node) for node in graph if node not in taken}
    order = sorted((n for n in templates if templates[n] is not None), key=lambda n: _rank(n, ancestry))
    for node in order:
        template = templates[node]
        if node in taken or template is None:
            continue
        group = Group(node, template, [node], through)
        taken.add(node)
        if ("pointwise-groups" if operator_of(node).kind is Kind.MAP else "epilogues") in allowed:
            _grow(group, graph, ancestry, taken, templates)
        group.nodes.sort(key=ancestry.position.__getitem__)
        groups.append(group)
    return groups


def _rank(node: Node, ancestry: Ancestry) -> tuple[int, int]:
    """Anchors that can take an epilogue first, pointwise nodes last; in graph order otherwise."""
    kind = operator_of(node).kind
    first = {Kind.CONTRACT: 0, Kind.REDUCE: 1, Kind.WINDOW: 2}.get(kind, 3)
    return first, ancestry.position[node]


def _grow(
    group: Group, graph: Graph, ancestry: Ancestry, taken: set[Node], templates: dict[Node, Template | None]
) -> None:  # fmt: skip
    before, after = LEGAL[operator_of(group.anchor).kind]
    changed = True
    while changed:
        changed = False
        inside = set(group.nodes)
        candidates: dict[Node, str] = {}
        if after:
            candidates.update((user, "after") for n in group.nodes for v in n.outputs for user, _ in v.uses)
        if before:
            for value in group.inputs:
                if value.producer is not None and all(user in inside for user, _ in value.uses):
                    candidates.setdefault(value.producer, "before")
        for node, where in candidates.items():
            if node in taken or node not in templates or templates[node] is None:
                continue
            if where == "before" and graph.is_output(node.output):
                continue
            if not _joins(group, node, where, graph):
                continue
            if not ancestry.convex_with(group.nodes, node):
                continue
            group.nodes.append(node)
            group.nodes.sort(key=ancestry.position.__getitem__)
            ancestry.join(group.nodes)
            taken.add(node)
            changed = True
            break


def _joins(group: Group, node: Node, where: str, graph: Graph) -> bool:
    if node.op == "Transpose" and where == "after":
        alone = graph.consumers(node.arg(0)) == [node] and group.outputs(graph) == [node.arg(0)]
        return alone and not graph.is_output(node.arg(0)) and group.template.stores_transposed(group, node)
    if any(n.op == "Transpose" for n in group.nodes):
        return False
    return operator_of(node).kind is Kind.MAP and group.template.absorbs(group, node, where)
