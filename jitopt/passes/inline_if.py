"""If with a constant condition becomes the branch that is taken."""

from __future__ import annotations

from jitopt.ir.graph import Graph, Node, Value
from jitopt.passes.base import Change, Pass, PassContext, PassResult, Refusal
from jitopt.passes.facts import numeric_constant


class InlineIf(Pass):
    name = "inline-if"
    description = "an If whose condition is constant becomes the nodes of the branch that is taken"

    def rewrite(self, graph: Graph, context: PassContext, result: PassResult) -> None:
        for node in graph.nodes:
            if node.op != "If":
                continue
            condition = numeric_constant(node.input(0))
            if condition is None or condition.size != 1:
                if context.trace:
                    result.refusals.append(Refusal("its condition is not constant", node.name))
                continue
            taken = "then_branch" if bool(condition.reshape(())[()]) else "else_branch"
            inline(graph, node, node.attrs[taken])
            result.changes.append(Change(node.name, f"If => {taken}"))


def inline(graph: Graph, node: Node, body: Graph) -> None:
    """Put the nodes of `body`, a subgraph of `node` without inputs, in the place of `node`."""
    here: dict[Value, Value] = dict(zip(body.captures, node.captures, strict=True))
    names = {n.name for n in graph}

    def outer(value: Value | None) -> Value | None:
        return value if value is None or value.constant is not None else here[value]

    for inner in body.nodes:
        for value in inner.outputs:
            here[value] = graph.value(value.name, value.type)
            here[value].content = value.content
        name, count = inner.name, 0
        while name in names:
            count += 1
            name = f"{inner.name}_{count}"
        names.add(name)
        captures = [here[v] for v in inner.captures]
        graph.add(
            inner.op, [outer(v) for v in inner.inputs], outputs=[here[v] for v in inner.outputs], name=name,
            captures=captures, **inner.attrs,
        )  # fmt: skip
        for index in range(len(inner.inputs)):
            inner.set_input(index, None)  # the body is gone: its constants are read from here now
    for old, value in zip(node.outputs, body.outputs, strict=True):
        new = outer(value)
        assert new is not None
        graph.replace(old, new)
    graph.remove(node)
