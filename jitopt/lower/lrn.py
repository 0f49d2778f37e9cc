"""LRN, row-major."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jitopt.ir.dims import product
from jitopt.ir.graph import Node
from jitopt.lower.program import Float, Step
from jitopt.lower.spec import KernelSpec
from jitopt.lower.template import Template, serve, unusable
from jitopt.ops import operator_of

if TYPE_CHECKING:
    from jitopt.lower.context import Context
    from jitopt.lower.groups import Group

LRN_WORDS = ("x", "y", "images", "channels", "pixels", "before", "after", "scale", "bias", "beta")


class Lrn(Template):
    """Local response normalisation across channels."""

    name = "lrn"

    def refuses(self, node: Node) -> str | None:
        return unusable([*node.inputs, *node.outputs], frozenset({"float32"}))

    def lower(self, group: Group, context: Context) -> list[Step]:
        x, y = group.anchor.arg(0), group.anchor.output
        attrs = operator_of(group.anchor).attrs(group.anchor)
        before = (attrs.size - 1) // 2
        args = [
            context.address(x), context.address(y), x.shape[0], x.shape[1], product(x.shape[2:]), before,
            attrs.size - 1 - before, Float(attrs.alpha / attrs.size), Float(attrs.bias), Float(attrs.beta),
        ]  # fmt: skip
        spec = KernelSpec("lrn", context.lanes, words=LRN_WORDS)
        return [context.step(spec, args, [x], [y], group, work=product(x.shape) * 4 * attrs.size)]


serve(Lrn(), "LRN")
