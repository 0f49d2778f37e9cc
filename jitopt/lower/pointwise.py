"""Pointwise groups: any DAG of MAP nodes over one broadcast domain, in one pass over memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from jitopt.ir.dims import Dim, Shape, product
from jitopt.ir.graph import Node, Value
from jitopt.lower.access import domain_strides, lane_mask
from jitopt.lower.body import BodyBuilder, has_body_form
from jitopt.lower.loops import inner_kind, merge_axes, value_shape
from jitopt.lower.program import Step
from jitopt.lower.spec import Body, KernelSpec, Operand, Store, table, unique
from jitopt.lower.template import Template, serve, unusable
from jitopt.ops import operator_of

if TYPE_CHECKING:
    from jitopt.lower.context import Context
    from jitopt.lower.groups import Group


def same_domain(a: Value, b: Value) -> bool:
    """Both are written by the same loops: equal logical shape and layout."""
    return a.layout == b.layout and a.shape == b.shape


class Pointwise(Template):
    """Serves every MAP operator."""

    name = "pointwise"

    def refuses(self, node: Node) -> str | None:
        if not has_body_form(node):
            return f"{node.op} has no device formula"
        if any(v.uses or node.graph.is_output(v) for v in node.outputs[1:]):
            return f"{node.op} with {len(node.outputs)} outputs has no kernel"
        return unusable([*node.inputs, *node.outputs])

    def absorbs(self, group: Group, node: Node, where: str) -> bool:
        return same_domain(node.output, group.anchor.output)

    def takes_images(self, group: Group, value: Value) -> bool:
        return len(value.shape) == len(group.anchor.output.shape)

    def lower(self, group: Group, context: Context) -> list[Step]:
        builder = BodyBuilder()
        for node in group.nodes:
            builder.add_map(node)
        outputs = group.outputs(context.graph)
        domain = group.anchor.output
        stores = [(f"y{i}", v, builder.ref(v)) for i, v in enumerate(outputs)]
        stores = lane_mask(builder, group.nodes, stores, domain)
        return [pointwise_step(builder, stores, domain, group, context)]


def pointwise_step(
    builder: BodyBuilder, stores: list[tuple[str, Value, str]], domain: Value, group: Group, context: Context
) -> Step:  # fmt: skip
    """The step of a pointwise body over the domain of `domain`."""
    shape = value_shape(domain)
    values = [*builder.loads, *((name, v) for name, v, _ in stores)]
    nest = merge_axes(shape, [domain_strides(v, domain, context.image(v)) for _, v in values])
    extents: Shape = nest.extents or (1,)
    outer = len(extents) - 1
    operands: dict[str, Operand] = {}
    words: list[str] = [f"n{a}" for a in range(len(extents))]
    args: list[object] = list(extents)
    for (name, value), strides in zip(values, nest.strides, strict=True):
        size = value.dtype.itemsize
        inner = inner_kind(strides[-1]) if nest.extents else "unit"
        operands[name] = Operand(name, value.dtype.name, inner)
        steps: list[Dim] = [s * size for s in strides[:-1]]
        if inner == "strided":
            steps.append(strides[-1] * size)
        words += [
            f"{name}_at",
            *(f"{name}_{a}" for a in range(outer)),
            *([f"{name}_inner"] if inner == "strided" else []),
        ]
        args += [context.address(value), *steps]
    words += [f"{s.name}_word" for s in builder.scalars]
    args += builder.scalar_words
    body = Body(
        tuple(operands[n] for n, _ in builder.loads), tuple(builder.scalars), tuple(builder.instructions),
        tuple(Store(operands[n], ref) for n, _, ref in stores),
    )  # fmt: skip
    spec = KernelSpec("pointwise", context.lanes, table({"axes": len(extents)}), body, unique(words))
    bytes_moved = product(shape) * sum(v.dtype.itemsize for _, v in values)
    return context.step(spec, args, [v for _, v in builder.loads], [v for _, v, _ in stores], group, work=bytes_moved)


class Fill(Template):
    """ConstantOfShape: one value everywhere."""

    name = "fill"

    def refuses(self, node: Node) -> str | None:
        return unusable([node.output], frozenset({"float32", "int32", "int64"}))

    def lower(self, group: Group, context: Context) -> list[Step]:
        node = group.anchor
        value = operator_of(node).attrs(node).value
        number = 0.0 if value is None else np.asarray(value).ravel()[0].item()
        builder = BodyBuilder()
        ref = builder.literal(number, node.output.dtype.name)
        return [pointwise_step(builder, [("y0", node.output, ref)], node.output, group, context)]


serve(Pointwise(), "*map")
serve(Fill(), "ConstantOfShape")
