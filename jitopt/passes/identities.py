"""Removes nodes that hand their input on unchanged: same bits, same shape.

x + 0 is not among them, it turns -0 into 0; x - 0 and x + (-0) are.
"""

from __future__ import annotations

from collections.abc import Callable

from jitopt.ir.graph import Node, Value
from jitopt.ops.operator import Kind
from jitopt.ops.registry import operator_of
from jitopt.passes.base import Refusal
from jitopt.passes.facts import attribute, ints_of, is_filled_with, same_type
from jitopt.passes.rules import Builder, Replacement, RulePass

Same = Callable[[Node], "Value | Refusal | None"]


class RemoveIdentities(RulePass):
    name = "remove-identities"
    description = "Identity, Dropout and other nodes that change nothing: reshapes to the same shape, x * 1, casts"

    def rule(self, node: Node, build: Builder) -> Replacement | Refusal | None:
        source = _unchanged(node)
        if source is None or isinstance(source, Refusal):
            return source
        graph = build.graph
        carries = graph.is_output(node.output) and (
            source.producer is None or source.producer.graph is not graph or graph.is_output(source)
        )
        if carries and node.op == "Identity":
            return Refusal("it carries the name of a graph output")
        return Replacement({node.output: source}, f"{node.op} => nothing")


def _unchanged(node: Node) -> Value | Refusal | None:
    """The input that the first output equals bit for bit."""
    if node.op in ("Identity", "Dropout"):
        return _first(node) if node.op == "Identity" else _dropout(node)
    same = _SAME.get(node.op)
    if same is None and operator_of(node).kind is Kind.VIEW:
        same = _first  # the same bytes under what turns out to be the same shape
    source = None if same is None or len(node.outputs) != 1 else same(node)
    if isinstance(source, Value) and not same_type(source, node.output):
        return None
    return source


def _first(node: Node) -> Value | None:
    return node.input(0)


def _dropout(node: Node) -> Value | Refusal | None:
    training = node.input(2)
    if training is not None and not is_filled_with(training, 0):
        return Refusal("it may run in training mode")
    if len(node.outputs) > 1 and (node.outputs[1].uses or node.graph.is_output(node.outputs[1])):
        return Refusal("its mask is read")
    return node.input(0)


def _only(node: Node) -> Value | None:
    """Variadic operators of one operand."""
    return node.input(0) if len(node.inputs) == 1 else None


def _transpose(node: Node) -> Value | None:
    perm = node.attrs.get("perm")
    rank = len(node.output.shape)
    perm = list(range(rank))[::-1] if perm is None else list(perm)
    return node.input(0) if perm == list(range(rank)) else None


def _filled(index: int, number: float) -> Same:
    """`x op number`, the constant being operand `index`."""
    return lambda node: node.input(1 - index) if is_filled_with(node.input(index), number) else None


def _either(number: float) -> Same:
    """A commutative operator with that constant on either side."""
    return lambda node: _filled(0, number)(node) or _filled(1, number)(node)


def _add(node: Node) -> Value | Refusal | None:
    found = _either(-0.0)(node)
    if found is None and node.output.dtype.is_float and _either(0.0)(node):
        return Refusal("x + 0 turns -0 into 0")
    return found


def _pad(node: Node) -> Value | None:
    pads = ints_of(node.input(1))
    return node.input(0) if pads is not None and not any(pads) else None


def _slice(node: Node) -> Value | None:
    """Equal extents and steps of one leave only the whole range."""
    steps = [1] if node.input(4) is None else ints_of(node.input(4))
    return node.input(0) if steps is not None and all(s == 1 for s in steps) else None


def _tile(node: Node) -> Value | None:
    repeats = ints_of(node.input(1))
    return node.input(0) if repeats is not None and all(r == 1 for r in repeats) else None


def _resize(node: Node) -> Value | None:
    """Scales of one: every output pixel falls on an input pixel, whose weight is 1."""
    if attribute(node, "coordinate_transformation_mode") == "tf_crop_and_resize":
        return None
    scales = node.input(2)
    if scales is not None and scales.constant is not None and scales.constant.size:
        return node.input(0) if is_filled_with(scales, 1) else None
    return node.input(0) if node.input(3) is not None else None


def _clip(node: Node) -> Value | None:
    return node.input(0) if node.input(1) is None and node.input(2) is None else None


def _where(node: Node) -> Value | None:
    if is_filled_with(node.input(0), 1):
        return node.input(1)
    return node.input(2) if is_filled_with(node.input(0), 0) else None


_SAME: dict[str, Same] = {
    "Add": _add,
    "And": _either(1),
    "Cast": _first,
    "CastLike": _first,
    "Clip": _clip,
    "Concat": _only,
    "Div": _filled(1, 1),
    "Expand": _first,
    "Max": _only,
    "Mean": _only,
    "Min": _only,
    "Mul": _either(1),
    "Or": _either(0),
    "Pad": _pad,
    "Pow": _filled(1, 1),
    "Resize": _resize,
    "Slice": _slice,
    "Split": _first,
    "Sub": _filled(1, 0.0),
    "Sum": _only,
    "Tile": _tile,
    "Transpose": _transpose,
    "Where": _where,
    "Xor": _either(0),
}
