"""The text form of fusion groups, both ways.

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

from jitopt.ir.graph import Graph, Node, Value
from jitopt.ir.lexer import Cursor, bare, marked, quote
from jitopt.lower import templates as _templates  # noqa: F401  (registers every template)
from jitopt.lower.groups import Group
from jitopt.lower.template import Template, refusal_of, template_of
from jitopt.lower.text_spec import indented, list_lines, parse_list


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
        anchor = self._node(cursor)
        group = Group(anchor, self._template(anchor, name, at))
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

    def _template(self, anchor: Node, name: str, at: int) -> Template:
        template = template_of(anchor)
        if template is None or template.name != name:
            found = f"by '{template.name}'" if template is not None else f"by no kernel ({refusal_of(anchor)})"
            raise self.cursor.error(f"node '{anchor.name}' is computed {found}, not by '{name}'", at)
        return template

    def _node(self, cursor: Cursor) -> Node:
        at, name = cursor.peek.at, cursor.label("node", "a node, such as @relu")
        if name not in self.nodes:
            raise cursor.error(f"graph '{self.graph.name}' has no node '{name}'", at)
        return self.nodes[name]

    def _member(self, cursor: Cursor) -> Node:
        node = self._node(cursor)
        at, op = cursor.peek.at, cursor.name("an operator")
        if op != node.op:
            raise cursor.error(f"node '{node.name}' is {node.op}, not {op}", at)
        return node
