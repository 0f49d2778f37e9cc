"""Reducing groups: softmax, normalisations, Reduce operators and global pools with pointwise nodes around them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from jitopt.ir.dims import Dim, Shape, ceil_div, product
from jitopt.ir.graph import Node, Value
from jitopt.ir.types import TensorType
from jitopt.lower.access import domain_strides, lane_mask
from jitopt.lower.body import BodyBuilder
from jitopt.lower.loops import Strides, inner_kind, merge_axes, value_shape
from jitopt.lower.program import Step
from jitopt.lower.reductions import EXPANSIONS, folded_axes
from jitopt.lower.schedule import scratch_rows
from jitopt.lower.spec import Body, KernelSpec, Operand, Store, table, unique
from jitopt.lower.template import Template, serve, unusable
from jitopt.ops import operator_of

if TYPE_CHECKING:
    from jitopt.lower.context import Context
    from jitopt.lower.groups import Group

_KEEPS_SHAPE = frozenset({
    "Softmax", "LogSoftmax", "LayerNormalization", "RMSNormalization", "LpNormalization", "InstanceNormalization",
})  # fmt: skip


def row_values(node: Node) -> list[Value]:
    """Outputs of a reducing node that hold one element a row."""
    return node.outputs[1:] if node.op in _KEEPS_SHAPE else list(node.outputs)


@dataclass(frozen=True)
class Frame:
    """The row domain of an anchor: its input, and the axes folded (blocking keeps their places in memory)."""

    domain: Value
    axes: tuple[int, ...]

    @property
    def kept_shape(self) -> Shape:
        """Logical shape of a row result with the folded axes kept as 1."""
        return tuple(1 if i in self.axes else d for i, d in enumerate(self.domain.shape))

    @property
    def dropped_shape(self) -> Shape:
        return tuple(d for i, d in enumerate(self.domain.shape) if i not in self.axes)

    def strides(self, value: Value, dropped: bool = False, image: Dim | None = None) -> Strides | None:
        """Strides of an operand over the physical domain, or None where it cannot be an operand.

        `dropped`: the value is a row result (or goes with one) without the folded axes, and lies as if they were kept.
        Its images lie `image` elements apart (None: one after the other).
        """
        if not isinstance(value.type, TensorType) or value.type.shape is None:
            return None
        shape, rank = value.shape, len(self.domain.shape)
        if dropped:
            if shape != self.dropped_shape:
                return None
            stand_in = Value(value.name, value.tensor.with_shape(self.kept_shape))
            stand_in.layout = value.layout
            return self.strides(stand_in)
        if len(shape) > rank or (value.layout.block and value.layout != self.domain.layout):
            return None
        if self.domain.layout.block and not value.layout.block and len(shape) >= rank - 1 and (
            shape[len(shape) - rank + 1] != 1
        ):  # fmt: skip
            return None
        found = list(domain_strides(value, self.domain, image))
        for axis in self.axes:  # an extent of 1 is a row's, even where the row has one element only
            if axis < rank - len(shape) or shape[axis - rank + len(shape)] == 1:
                found[axis] = 0
        return tuple(found)


def frame_of(node: Node) -> Frame | None:
    """The node's row frame, None where its axes are unknown."""
    axes = folded_axes(node, operator_of(node).attrs(node))
    return None if axes is None else Frame(node.arg(0), axes)


class Rows(Template):
    """Serves the operators of `EXPANSIONS` whose folded axes form one loop."""

    name = "rows"

    def refuses(self, node: Node) -> str | None:
        reason = unusable([*node.inputs[:1], *node.outputs])
        if reason is not None:
            return reason
        if node.arg(0).dtype.name not in ("float32", "int32", "int64"):
            return f"folds of {node.arg(0).dtype} have no kernel"
        if node.arg(0).dtype.name != "float32" and node.op not in ("ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd"):
            return f"{node.op} of {node.arg(0).dtype} has no kernel"
        if node.op == "InstanceNormalization" and any(v is None or v.constant is None for v in node.inputs[1:3]):
            return "scale and shift are not constants"
        frame = frame_of(node)
        if frame is None:
            return "the folded axes are not known at compile time"
        if not frame.axes:
            return "no axis is folded"
        if frame.axes != tuple(range(frame.axes[0], frame.axes[0] + len(frame.axes))):
            return f"the folded axes {frame.axes} are not neighbours"
        if frame.domain.layout.block and 1 in frame.axes:
            return "the folded axis is blocked"
        return None

    def absorbs(self, group: Group, node: Node, where: str) -> bool:
        frame = frame_of(group.anchor)
        if frame is None or unusable([*node.inputs, *node.outputs]) is not None:
            return False
        inside = {v for n in group.nodes for v in n.outputs}
        full = node.output.shape == frame.domain.shape and node.output.layout == frame.domain.layout
        if where == "after" and not full:
            # A pointwise node on row results stays in the row, if everything it reads is per row too.
            rows = {frame.kept_shape, frame.dropped_shape}
            if node.output.shape not in rows or node.output.layout.block != frame.domain.layout.block:
                return False
            made = [v for v in node.inputs if v in inside]
            if any(v is not None and v.shape != node.output.shape for v in made):
                return False
            return all(v is None or v in inside or _per_row(v, node.output) for v in node.inputs)
        if not full:
            return False
        return all(v is None or v in inside or _reachable(v, frame) for v in node.inputs)

    def takes_images(self, group: Group, value: Value) -> bool:
        frame = frame_of(group.anchor)
        return frame is not None and 0 not in frame.axes and len(value.shape) == len(frame.domain.shape)

    def lower(self, group: Group, context: Context) -> list[Step]:
        anchor = group.anchor
        frame = frame_of(anchor)
        assert frame is not None
        builder = BodyBuilder()
        builder.know("length", "float32")
        for node in group.nodes:
            if node is anchor:
                EXPANSIONS[node.op](builder, node, operator_of(node).attrs(node))
            else:
                builder.add_map(node)
        stores = [(f"y{i}", v, builder.ref(v)) for i, v in enumerate(group.outputs(context.graph))]
        if frame.domain.layout.block:
            stores = lane_mask(builder, group.nodes, stores, frame.domain)
        return [_row_step(builder, stores, frame, group, context)]


def _reachable(value: Value, frame: Frame) -> bool:
    if value.constant is not None and value.constant.size == 1:
        return True
    strides = frame.strides(value)
    if strides is None:
        return False
    folded = [strides[a] for a in frame.axes]
    return _merged(frame, strides) is not None or not any(s != 0 for s in folded)


def _merged(frame: Frame, strides: Strides) -> Strides | None:
    shape = value_shape(frame.domain)
    nest = merge_axes(tuple(shape[a] for a in frame.axes), [tuple(strides[a] for a in frame.axes)])
    return nest.strides[0] if len(nest.extents) <= 1 else None


def dropped_values(group: Group, frame: Frame) -> set[Value]:
    """Values of the group that stand for rows without the folded axes, and what is read along with them."""
    found: set[Value] = set()
    for node in group.nodes:
        results = row_values(node) if node is group.anchor else node.outputs
        rows = [v for v in results if len(v.shape) < len(frame.domain.shape) and v.shape == frame.dropped_shape]
        if node is not group.anchor and not any(v in found for v in node.inputs):
            continue
        found.update(rows)
        if rows and node is not group.anchor:
            found.update(v for v in node.inputs if v is not None and v.shape == frame.dropped_shape)
    return found


def _per_row(value: Value, like: Value) -> bool:
    if value.constant is not None and value.constant.size == 1:
        return True
    return value.tensor.shape == like.shape and value.layout == like.layout


def _row_step(
    builder: BodyBuilder, stores: list[tuple[str, Value, str]], frame: Frame, group: Group, context: Context
) -> Step:  # fmt: skip
    shape = value_shape(frame.domain)
    rank = len(shape)
    folded = set(frame.axes)
    vertical = (rank - 1) not in folded
    lane_axis = rank - 1 if vertical else None
    outer_axes = [a for a in range(rank) if a not in folded and a != lane_axis]
    values = [*builder.loads, *((n, v) for n, v, _ in stores)]
    dropped = dropped_values(group, frame)
    all_strides = {name: frame.strides(v, v in dropped, context.image(v)) for name, v in values}
    outer = merge_axes(
        tuple(shape[a] for a in outer_axes), [tuple((all_strides[n] or ())[a] for a in outer_axes) for n, _ in values]
    )
    axes = len(outer.extents)
    length = product(shape[a] for a in frame.axes)
    words: list[str] = [*(f"n{a}" for a in range(axes)), "length"]
    args: list[object] = [*outer.extents, length]
    if vertical:
        words.append("inner")
        args.append(shape[-1])
    operands: dict[str, Operand] = {}
    for (name, value), outer_strides in zip(values, outer.strides, strict=True):
        strides = all_strides[name]
        assert strides is not None
        size = value.dtype.itemsize
        along = any(strides[a] != 0 for a in frame.axes)
        step: Dim = 0
        if along:
            merged = _merged(frame, strides)
            assert merged is not None
            step = merged[-1] if merged else 1
        inner = inner_kind(strides[-1] if vertical else step)
        operands[name] = Operand(name, value.dtype.name, inner, along)
        words += [f"{name}_at", *(f"{name}_{a}" for a in range(axes))]
        args += [context.address(value), *(s * size for s in outer_strides)]
        if along and vertical:
            words.append(f"{name}_r")
            args.append(step * size)
        if operands[name].inner == "strided":
            words.append(f"{name}_inner")
            args.append((strides[-1] if vertical else step) * size)
    words += [f"{s.name}_word" for s in builder.scalars]
    args += builder.scalar_words
    body = Body(
        tuple(operands[n] for n, _ in builder.loads), tuple(builder.scalars), tuple(builder.instructions),
        tuple(Store(operands[n], ref) for n, _, ref in stores),
    )  # fmt: skip
    direction = "vertical" if vertical else "horizontal"
    spec = KernelSpec("rows", context.lanes, table({"axes": axes, "direction": direction}), body, unique(words))
    kept = scratch_rows(body)
    columns: Dim = context.lanes if vertical else 1
    scratch = kept * ceil_div(length, context.lanes) * context.lanes * columns * 8 if kept else 0
    work = product(shape) * 4 * max(1, len(values))
    return context.step(
        spec, args, [v for _, v in builder.loads], [v for _, v, _ in stores], group, scratch=scratch, work=work
    )  # fmt: skip


serve(Rows(), *EXPANSIONS)
