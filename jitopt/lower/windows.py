"""Windows of tensors: where the parts of a Concat lie in its result, and what Split and Slice take out of their input.

Windows are told as positions along an axis of memory (blocks of channels in the blocked layout): how many bytes that
is depends on where the whole value lies (`Context.offset`). In the blocked layout a window begins and ends at whole
blocks of channels, or where the channels end; the layout pass sees to that.
"""

from __future__ import annotations

from collections.abc import Iterator

from jitopt.ir.dims import Dim
from jitopt.ir.graph import Layout, Node, Value
from jitopt.lower.loops import value_shape
from jitopt.ops import operator_of
from jitopt.ops.contents import axes_of, known_dims, known_ints
from jitopt.ops.slicing import slice_bounds


def joined_axis(node: Node) -> int:
    """The axis that a Concat joins, or a Split divides, counted from the front."""
    axis: int = operator_of(node).attrs(node).axis % len(node.arg(0).shape)
    return axis


def parts_of(node: Node) -> Iterator[tuple[Value, Dim]]:
    """The inputs of a Concat, each with its position in the result along the joined axis."""
    axis = joined_axis(node)
    at: Dim = 0
    for part in node.inputs:
        assert part is not None
        yield part, at
        at = at + value_shape(part)[axis]


def split_windows(node: Node) -> Iterator[tuple[Value, Dim]]:
    """The outputs of a Split, each with its position in the input along the divided axis."""
    axis = joined_axis(node)
    at: Dim = 0
    for part in node.outputs:
        yield part, at
        at = at + value_shape(part)[axis]


def slice_window(node: Node) -> list[tuple[Dim, int]] | None:
    """First element and step of a Slice along every axis, or None where that is not known when shapes are bound."""
    x = node.arg(0)
    starts, ends = known_dims(node, 1), known_dims(node, 2)
    if starts is None or ends is None:
        return None
    axes = list(range(len(starts))) if node.input(3) is None else known_ints(node.input(3))
    steps = [1] * len(starts) if node.input(4) is None else known_ints(node.input(4))
    if axes is None or steps is None:
        return None
    window: list[tuple[Dim, int]] = [(0, 1)] * len(x.shape)
    for i, axis in enumerate(axes_of(axes, len(x.shape))):
        window[axis] = slice_bounds(x.shape[axis], starts[i], ends[i], steps[i])[0], steps[i]
    return window


def windows_of(node: Node) -> Iterator[tuple[Value, int, Dim]]:
    """Outputs of a Split or Slice that are windows along one axis of the input: the axis, and the position there."""
    if node.op == "Split":
        yield from ((part, joined_axis(node), first) for part, first in split_windows(node))
        return
    x, y, window = node.arg(0), node.output, slice_window(node)
    assert window is not None
    cut = [a for a, (first, step) in enumerate(window) if (first, step) != (0, 1) or x.shape[a] != y.shape[a]]
    if len(cut) <= 1 and all(step == 1 for _, step in window):
        axis = cut[0] if cut else 0
        yield y, axis, physical_first(window[axis][0], axis, x)


def physical_first(first: Dim, axis: int, value: Value) -> Dim:
    """Where a window begins along an axis of memory: blocks are counted, not channels."""
    return first // value.layout.block if axis == 1 and value.layout.block else first


def whole_blocks(node: Node, layout: Layout) -> bool:
    """Whether everything that a Split or Slice takes out of [N, C, ...] consists of whole blocks of channels."""
    x = node.arg(0)
    if node.op == "Split":
        sizes = [v.shape[1] for v in node.outputs]
        return joined_axis(node) == 1 and all(isinstance(c, int) and c % layout.block == 0 for c in sizes[:-1])
    window = slice_window(node)
    if window is None or window[1][1] != 1:
        return False
    first, count = window[1][0], node.output.shape[1]
    if not isinstance(first, int) or not isinstance(count, int) or first % layout.block:
        return False
    return count % layout.block == 0 or first + count == x.shape[1]
