"""Merges nodes that compute the same thing, and constants that hold the same bytes.

Two nodes are the same when operator, operands and attributes (defaults filled in, arrays by their bytes) are; operands
are the same when they are one value or constants of equal type and bytes. Random operators, nodes with subgraphs and
two graph outputs are left alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable
from typing import Any

import numpy as np

from jitopt.ir.graph import Graph, Node, Value
from jitopt.ops.registry import operator_of
from jitopt.passes.base import Change, Pass, PassContext, PassResult, Refusal

_SMALL = 4096  # elements up to which constants are compared by their bytes while the graph is still being folded


class CommonSubexpressions(Pass):
    name = "common-subexpressions"
    description = "nodes of equal operator, operands and attributes are computed once"

    def rewrite(self, graph: Graph, context: PassContext, result: PassResult) -> None:
        seen: dict[Hashable, Node] = {}
        digests: dict[Value, Hashable] = {}
        for node in graph.nodes:
            key = _key(node, digests)
            if key is None:
                continue
            first = seen.setdefault(key, node)
            if first is node:
                continue
            pairs = list(zip(node.outputs, first.outputs, strict=True))
            if any(graph.is_output(old) and graph.is_output(new) for old, new in pairs):
                if context.trace:
                    result.refusals.append(Refusal(f"it and '{first.name}' are both graph outputs", node.name))
                continue
            for old, new in pairs:
                graph.replace(old, new)
            graph.remove(node)
            result.changes.append(Change(node.name, f"{node.op} => '{first.name}'"))


class MergeConstants(Pass):
    name = "merge-constants"
    description = "constants of equal type and bytes become one"

    def rewrite(self, graph: Graph, context: PassContext, result: PassResult) -> None:
        by_shape: dict[Hashable, list[Value]] = {}
        for value in graph.constants:
            assert value.constant is not None
            if value.uses and not graph.is_output(value):
                by_shape.setdefault(value.type, []).append(value)
        for values in by_shape.values():
            seen: dict[Hashable, Value] = {}
            for value in values if len(values) > 1 else ():
                assert value.constant is not None
                first = seen.setdefault(_digest(value.constant), value)
                if first is not value:
                    graph.replace(value, first)
                    result.changes.append(Change(value.name, f"constant '{value.name}' => '{first.name}'"))


def _key(node: Node, digests: dict[Value, Hashable]) -> Hashable | None:
    operator = operator_of(node)
    if operator.nondeterministic or node.subgraphs or not node.outputs:
        return None
    attrs = operator.attrs(node).__dict__
    named = tuple((name, _frozen(attrs[name])) for name in sorted(operator.attributes))
    operands = tuple(None if v is None else _identity(v, digests) for v in node.operands)
    return (node.op, operands, named, len(node.outputs))


def _identity(value: Value, digests: dict[Value, Hashable]) -> Hashable:
    array = value.constant
    if array is None or array.size > _SMALL:
        return id(value)
    if value not in digests:
        digests[value] = (value.type, _digest(array))
    return digests[value]


def _digest(array: np.ndarray[Any, Any]) -> Hashable:
    if array.dtype.kind == "O":
        return tuple(array.ravel().tolist())
    data = np.ascontiguousarray(array)
    return hashlib.blake2b(data.view(np.uint8).reshape(-1).data if data.size else b"", digest_size=16).digest()


def _frozen(value: Any) -> Hashable:
    if isinstance(value, np.ndarray):
        return (value.dtype.str, value.shape, _digest(value))
    if isinstance(value, (list, tuple)):
        return tuple(map(_frozen, value))
    return value if isinstance(value, (int, float, str, bytes, bool, type(None))) else id(value)
