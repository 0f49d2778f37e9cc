"""Strided views: a Transpose that its readers can look through instead of having it carried out.

A reader that takes any strides (a matrix product along its batch and row axes) reads the transposed tensor where it
lies. A Transpose all of whose readers can do so needs no kernel.
"""

from __future__ import annotations

from collections.abc import Collection

from jitopt.ir.dims import Shape
from jitopt.ir.graph import Graph, Node, Value
from jitopt.lower.loops import Strides, contiguous_strides
from jitopt.lower.template import template_of
from jitopt.ops import operator_of
from jitopt.ops.arrange import permutation


def looks_through(value: Value) -> Node | None:
    """The Transpose that made the value, if it may be looked through: its input is a row-major tensor."""
    node = value.producer
    if node is None or node.op != "Transpose" or node.arg(0).layout.block or node.arg(0).constant is not None:
        return None
    return node


def order_of(node: Node) -> list[int]:
    """Permutation of a Transpose node."""
    return permutation(operator_of(node).attrs(node), len(node.arg(0).shape))


def source_of(value: Value, through: bool) -> tuple[Value, Strides]:
    """Where a value's elements lie, and their strides along its axes; looking through its Transpose if `through`."""
    node = looks_through(value) if through else None
    if node is None:
        return value, contiguous_strides(value.shape)
    strides = contiguous_strides(node.arg(0).shape)
    return node.arg(0), tuple(strides[a] for a in order_of(node))


def transposed_strides(node: Node) -> tuple[Shape, Strides]:
    """Strides in a Transpose's output along the axes of its input: where a kernel that makes the input may store."""
    order = order_of(node)
    target = contiguous_strides(node.output.shape)
    strides = [target[order.index(a)] for a in range(len(order))]
    return node.arg(0).shape, tuple(strides)


def invisible_transposes(graph: Graph, hosted: Collection[Node] = ()) -> set[Node]:
    """Transposes that every reader looks through, all those it reads at once; nodes of `hosted` have no kernel."""
    found = {
        n for n in graph
        if n.op == "Transpose" and n not in hosted and looks_through(n.output) and not graph.is_output(n.output)
    }  # fmt: skip
    while True:
        seen = {n for n in found if not all(_agrees(user, found, hosted) for user in graph.consumers(n.output))}
        if not seen:
            return found
        found -= seen


def _agrees(user: Node, candidates: set[Node], hosted: Collection[Node]) -> bool:
    template = None if user in hosted else template_of(user)
    made_by = {v.producer for v in user.inputs if v is not None and v.producer is not None}
    return template is not None and template.looks_through(user, candidates & made_by)
