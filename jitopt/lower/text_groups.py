"""The text form of fusion groups, both ways, and what must hold of them.

    groups of "block" {
      group conv @conv {
        nodes (@conv Conv, @relu Relu)
        reads (%x, %w)
        writes (%relu)
      }
      group gemm @product {
        nodes (@product MatMul)
        reads (%t, %b)
        writes (%product)
        through (@transpose)
      }
    }

A group is headed by its template and anchor. What it reads and writes follows from the graph; it is in the text to be
read, and held against the graph when it is parsed. `through` are the transposes whose results the group reads where
their inputs lie.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from jitopt.errors import CompileError
from jitopt.ir.graph import Graph, Node, Value
from jitopt.ir.lexer import Cursor, bare, marked, quote
from jitopt.lower import templates as _templates  # noqa: F401  (registers every template)
from jitopt.lower.groups import LEGAL, Ancestry, Group
from jitopt.lower.template import Template, refusal_of, template_of
from jitopt.lower.text_spec import indented, list_lines, parse_list
from jitopt.ops import operator_of
from jitopt.ops.operator import Kind


def print_groups(groups: Sequence[Group], graph: Graph) -> str:
    """The text of the graph's groups, ending in a newline."""
    lines = [f"groups of {quote(graph.name)} {{"]
    for group in groups:
        lines.append(f"  group {bare(group.template.name)} {marked('@', group.anchor.name)} {{")
        members = (f"{marked('@', n.name)} {bare(n.op)}" for n in group.nodes)
        inside = list_lines("nodes", members)
        inside += list_lines("reads", _names(group.inputs))
        inside += list_lines("writes", _names(group.outputs(graph)))
        seen = _seen_through(group)
        if seen:
            inside += list_lines("through", (marked("@", n.name) for n in seen))
        lines += [*indented(indented(inside)), "  }"]
    return "\n".join([*lines, "}"]) + "\n"


def _names(values: Iterable[Value]) -> list[str]:
    return [marked("%", v.name) for v in values]


def _seen_through(group: Group) -> list[Node]:
    """The transposes of `group.through` that this group has to do with."""
    return [v.producer for v in group.inputs if v.producer is not None and v.producer in group.through]


def parse_groups(text: str, graph: Graph) -> list[Group]:
    """The groups that `print_groups` gave this text for, over the same graph.

    Raises ModelError with line and column for malformed text and for what is not so in the graph.
    """
    parser = _Parser(Cursor(text), graph)
    groups = parser.groups()
    if parser.cursor.peek.kind != "end":
        raise parser.cursor.error(f"unexpected {parser.cursor.found()} after the groups")
    return groups


class _Parser:
    def __init__(self, cursor: Cursor, graph: Graph) -> None:
        self.cursor, self.graph = cursor, graph
        self.nodes = {node.name: node for node in graph}

    def groups(self) -> list[Group]:
        cursor = self.cursor
        cursor.expect("groups")
        cursor.expect("of")
        at, name = cursor.peek.at, cursor.string("the graph's name")
        if name != self.graph.name:
            raise cursor.error(f"the groups are of graph '{name}', not of '{self.graph.name}'", at)
        found: list[Group] = []
        cursor.expect("{")
        while not cursor.accept("}"):
            cursor.expect("group")
            found.append(self._group())
        return found

    def _group(self) -> Group:
        cursor = self.cursor
        at, name = cursor.peek.at, cursor.name("a template")
        group = Group(self._node(cursor), self._template(name, at))
        cursor.expect("{")
        cursor.expect("nodes")
        group.nodes = parse_list(cursor, self._member)
        for word, values in (("reads", group.inputs), ("writes", group.outputs(self.graph))):
            start = cursor.expect(word).at
            found = parse_list(cursor, lambda c: c.label("value", "a value"))
            if found != [v.name for v in values]:
                raise cursor.error(f"the group {word} {', '.join(_names(values))} in the graph", start)
        if cursor.accept("through"):
            group.through = parse_list(cursor, self._node)
        cursor.expect("}")
        return group

    def _template(self, name: str, at: int) -> Template:
        template = template_of(self.last)
        if template is None or template.name != name:
            found = f"by '{template.name}'" if template is not None else f"by no kernel ({refusal_of(self.last)})"
            raise self.cursor.error(f"node '{self.last.name}' is computed {found}, not by '{name}'", at)
        return template

    def _node(self, cursor: Cursor) -> Node:
        at, name = cursor.peek.at, cursor.label("node", "a node, such as @relu")
        if name not in self.nodes:
            raise cursor.error(f"graph '{self.graph.name}' has no node '{name}'", at)
        self.last = self.nodes[name]
        return self.last

    def _member(self, cursor: Cursor) -> Node:
        node = self._node(cursor)
        at, op = cursor.peek.at, cursor.name("an operator")
        if op != node.op:
            raise cursor.error(f"node '{node.name}' is {node.op}, not {op}", at)
        return node


def verify_groups(groups: Sequence[Group], graph: Graph) -> None:
    """Check groups against their graph.

    No node is in two groups; the anchor is a member that the template can compute; members stand in the graph's order;
    every member but the anchor is of a kind that may join it (`LEGAL`), or a Transpose the kernel's store carries out;
    a group depends on nothing that depends on it; values inside a group that others read are among what it writes.

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


def _verify_group(group: Group, ancestry: Ancestry, owner: dict[Node, Group]) -> None:
    for node in group.nodes:
        if node not in ancestry.position:
            raise CompileError("the node is not in the graph", node=node.name)
        if owner.setdefault(node, group) is not group:
            raise CompileError(f"the node is in group '{owner[node]}', too", node=node.name)
    if group.anchor not in group.nodes:
        raise CompileError("the anchor is no member", node=group.anchor.name)
    if len(set(group.nodes)) < len(group.nodes):
        raise CompileError("a node is listed twice", node=group.anchor.name)
    reason = group.template.refuses(group.anchor)
    if reason is not None:
        raise CompileError(f"template {group.template.name} refuses the anchor: {reason}", node=group.anchor.name)
    places = [ancestry.position[node] for node in group.nodes]
    if places != sorted(places):
        raise CompileError("the nodes are not in the graph's order", node=group.anchor.name)
    for node in group.nodes:
        _verify_member(group, node, ancestry)


def _verify_member(group: Group, node: Node, ancestry: Ancestry) -> None:
    if node is not group.anchor:
        before, after = LEGAL[operator_of(group.anchor).kind]
        legal = after if ancestry.above[node] & ancestry.bit(group.anchor) else before or after
        if not legal or (operator_of(node).kind is not Kind.MAP and node.op != "Transpose"):
            raise CompileError(f"{node.op} cannot join {group.anchor.op}", node=node.name)
    others = [n for n in group.nodes if n is not node]
    if not ancestry.convex_with(others, node):
        raise CompileError("the group depends on a node that depends on it", node=node.name)
