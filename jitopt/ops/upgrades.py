"""Rewrites that several operators share for bringing a node of an older opset to the newest form."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitopt.ir.graph import Graph, Node, Value
from jitopt.ops.operator import Upgrade


def add_input(graph: Graph, node: Node, index: int, array: np.ndarray[Any, Any], name: str) -> None:
    """Give the node a constant as input `index`, with absent inputs before it where there are too few."""
    while len(node.inputs) <= index:
        node.inputs.append(None)
    node.set_input(index, graph.constant(array, name=f"{node.name}/{name}"))


def attribute_to_input(attribute: str, index: int, dtype: str = "int64", default: Any = None) -> Upgrade:
    """An attribute that became an input. A missing one takes `default`; without a default the input stays absent."""

    def upgrade(graph: Graph, node: Node) -> None:
        value = node.attrs.pop(attribute, None)
        if value is None:
            value = default
        if value is not None:
            add_input(graph, node, index, np.asarray(value, dtype), attribute)

    return upgrade


def take_out(graph: Graph, node: Node) -> list[Value]:
    """Remove a node that is to be written anew; returns its outputs, which then have no producer."""
    outputs, node.outputs = node.outputs, []
    for value in outputs:
        value.producer = None
    graph.remove(node)
    return outputs
