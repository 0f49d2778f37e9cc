"""Types inside If, Loop and Scan: what enters a subgraph, and what a loop carries from one turn to the next.

A carried tensor whose shape changes from turn to turn has no one shape: its changing extents become fresh symbols,
its rank unknown where even that changes. The body is inferred again until what leaves fits what enters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jitopt.errors import ModelError
from jitopt.ir.dims import symbol
from jitopt.ir.dtypes import BOOL, INT64
from jitopt.ir.graph import Graph, Node, Value, walk
from jitopt.ir.types import TensorType, Type, tensor

_ROUNDS = 6
Infer = Callable[[Graph], None]


def infer_bodies(node: Node, infer: Infer) -> None:
    """Fill the types inside the node's subgraphs; `infer` does it for one graph whose inputs are known."""
    for graph in node.subgraphs:
        for inner, outer in zip(graph.captures, node.captures, strict=False):
            inner.type, inner.content = outer.type, outer.content
    if node.op == "Loop":
        _loop(node, infer)
    elif node.op == "Scan":
        _scan(node, infer)
    else:
        for graph in node.subgraphs:
            infer(graph)


def _loop(node: Node, infer: Infer) -> None:
    (body,) = node.subgraphs
    carried = node.inputs[2:]
    if len(body.inputs) != len(carried) + 2 or len(body.outputs) < len(carried) + 1:
        raise ModelError(
            f"the body of Loop has {len(body.inputs)} inputs and {len(body.outputs)} outputs "
            f"for {len(carried)} carried values"
        )
    for value, type in zip(body.inputs[:2], (tensor(INT64, ()), tensor(BOOL, ())), strict=True):
        value.type = value.type or type
    entering = [None if v is None else v.type for v in carried]
    _settle(body, body.inputs[2:], entering, body.outputs[1 : len(carried) + 1], infer)


def _scan(node: Node, infer: Infer) -> None:
    (body,) = node.subgraphs
    scanned = int(node.attrs["num_scan_inputs"])
    states = len(node.inputs) - scanned
    if states < 0 or len(body.inputs) != len(node.inputs) or len(body.outputs) < states:
        raise ModelError(f"the body of Scan has {len(body.inputs)} inputs for {len(node.inputs)} of the node")
    axes = node.attrs.get("scan_input_axes") or [0] * scanned
    for value, outer, axis in zip(body.inputs[states:], node.inputs[states:], axes, strict=True):
        slice_type = _slice(None if outer is None else outer.type, int(axis))
        value.type = slice_type or value.type
    entering = [None if v is None else v.type for v in node.inputs[:states]]
    _settle(body, body.inputs[:states], entering, body.outputs[:states], infer)


def _slice(type: Type | None, axis: int) -> Type | None:
    """The type of one turn's slice along `axis`."""
    if not isinstance(type, TensorType) or type.shape is None:
        return type
    if not -len(type.shape) <= axis < len(type.shape):
        raise ModelError(f"scan axis {axis} lies outside {type}")
    axis %= len(type.shape)
    return type.with_shape(type.shape[:axis] + type.shape[axis + 1 :])


def _settle(
    body: Graph, inputs: Sequence[Value], entering: Sequence[Type | None], outputs: Sequence[Value], infer: Infer
) -> None:
    """Type the carried inputs so that both the first turn's types and those of the outputs fit them."""
    for value, type in zip(inputs, entering, strict=True):
        value.type = widened(value, value.type, type)
    declared = {v: v.type for g in walk([body]) for node in g for v in node.outputs}
    for _ in range(_ROUNDS):
        for value, type in declared.items():
            value.type = type
        infer(body)
        before = [v.type for v in inputs]
        for value, out in zip(inputs, outputs, strict=True):
            value.type = widened(value, value.type, out.type)
        if before == [v.type for v in inputs]:
            return
    for value in inputs:
        value.type = value.type.with_shape(None) if isinstance(value.type, TensorType) else value.type
    infer(body)


def widened(value: Value, a: Type | None, b: Type | None) -> Type | None:
    """The narrowest type that holds both, for the carried `value`. Raises ModelError where the dtypes differ."""
    if a is None or b is None or a == b:
        return a or b
    if not isinstance(a, TensorType) or not isinstance(b, TensorType):
        return a
    if a.dtype is not b.dtype:
        raise ModelError(f"the carried value '{value.name}' is {a.dtype} in one turn and {b.dtype} in the next")
    if a.shape is None or b.shape is None or len(a.shape) != len(b.shape):
        return a.with_shape(None)
    pairs = enumerate(zip(a.shape, b.shape, strict=True))
    dims = (x if x == y else symbol(f"?{value.name}_{i}") for i, (x, y) in pairs)
    return a.with_shape(tuple(dims))
