"""Nodes of older opsets to the one form the IR knows, then order and names put right."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from jitopt.errors import JitoptError, ModelError
from jitopt.ir.graph import Graph, Node, walk
from jitopt.ops.operator import Operator


def upgrade(written: Iterable[tuple[Node, int]], operators: Callable[[str], Operator | None]) -> None:
    """Apply to each node, in order, the upgrades above the opset version it was written for.

    An upgrade may rewire, rename or remove the node, and add others, which it writes in the newest form.
    Raises ModelError for a node whose attributes an upgrade cannot use.
    """
    for node, version in written:
        while (operator := operators(node.op)) is not None and _alive(node):
            step = next(((v, apply) for v, apply in operator.upgrades if v > version), None)
            if step is None:
                break
            version = step[0]
            try:
                step[1](node.graph, node)
            except JitoptError as error:
                raise error.at(node=node.name) from None
            except (ArithmeticError, LookupError, TypeError, ValueError) as error:
                reason = f"{node.op} cannot be brought to opset {version}: {type(error).__name__}: {error}"
                raise ModelError(reason, node=node.name) from error


def _alive(node: Node) -> bool:
    return any(value.producer is node for value in node.outputs)


def tidy(graph: Graph) -> None:
    """Producers before consumers in every graph, and node names unique over all of them."""
    names: set[str] = set()
    for inner in walk([graph]):
        inner.sort()
        for node in inner:
            name, count = node.name, 0
            while name in names:
                count += 1
                name = f"{node.name}_{count}"
            node.name = name
            names.add(name)
