"""BatchNormalization that no pass has rewritten (none ran, or it may not be folded): one pointwise kernel.

With constant parameters it is x * scale + shift as in the operator's reference, with the same bits; with others
(x - mean) / sqrt(variance + epsilon) * scale + bias.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from jitopt.ir.graph import Node, Value
from jitopt.lower.access import lane_mask
from jitopt.lower.body import BodyBuilder
from jitopt.lower.pointwise import pointwise_step
from jitopt.lower.program import Step
from jitopt.lower.template import Template, serve, unusable
from jitopt.ops import operator_of

if TYPE_CHECKING:
    from jitopt.lower.context import Context
    from jitopt.lower.groups import Group

Array = np.ndarray[Any, Any]


class BatchNorm(Template):
    """Serves BatchNormalization in inference."""

    name = "pointwise"

    def refuses(self, node: Node) -> str | None:
        if operator_of(node).attrs(node).training_mode:
            return "training mode has no kernel"
        reason = unusable([*node.inputs, node.output], frozenset({"float32"}))
        if reason is None and len(node.arg(0).shape) < 2:
            reason = "the input has no channel axis"
        if reason is None and node.output.layout.block and not _constant(node):
            reason = "the parameters are not constants"
        return reason

    def takes_images(self, group: Group, value: Value) -> bool:
        return len(value.shape) == len(group.anchor.output.shape)

    def lower(self, group: Group, context: Context) -> list[Step]:
        node = group.anchor
        domain, epsilon = node.output, operator_of(node).attrs(node).epsilon
        b = BodyBuilder()
        x = b.ref(node.arg(0))
        if _constant(node):
            scale, shift = (b.ref(_along_channels(f"{node.name}/{n}", a, domain)) for n, a in _folded(node, epsilon))
            y = b.emit("add", b.emit("mul", x, scale), shift)
        else:
            gamma, beta, mean, variance = (b.ref(_seen(node.arg(i), domain, context)) for i in range(1, 5))
            spread = b.emit("sqrt", b.emit("add", variance, b.literal(epsilon, "float32")))
            y = b.emit("add", b.emit("mul", b.emit("div", b.emit("sub", x, mean), spread), gamma), beta)
        stores = lane_mask(b, group.nodes, [("y0", domain, y)], domain)
        return [pointwise_step(b, stores, domain, group, context)]


def _constant(node: Node) -> bool:
    return all(node.arg(i).constant is not None for i in range(1, 5))


def _folded(node: Node, epsilon: float) -> list[tuple[str, Array]]:
    """Scale and shift, float64 [C]."""
    gamma, beta, mean, variance = (np.asarray(node.arg(i).constant, np.float64) for i in range(1, 5))
    with np.errstate(all="ignore"):
        scale = gamma / np.sqrt(variance + epsilon)
        return [("scale", scale), ("shift", beta - mean * scale)]


def _along_channels(name: str, array: Array, domain: Value) -> Value:
    """A [C] array as a constant that broadcasts along the channels of `domain`, in its layout."""
    shape = (1, -1, *(1,) * (len(domain.shape) - 2))
    with np.errstate(all="ignore"):
        constant = array.astype(np.float32).reshape(shape)
    value = Value(name, domain.tensor.with_shape(constant.shape))
    value.constant, value.layout = constant, domain.layout
    return value


def _seen(value: Value, domain: Value, context: Context) -> Value:
    """A [C] value seen as [C, 1, ...], where it lies."""
    shaped = Value(value.name, value.tensor.with_shape((*value.shape, *(1,) * (len(domain.shape) - 2))))
    context.alias(shaped, value)
    return shaped


serve(BatchNorm(), "BatchNormalization")
