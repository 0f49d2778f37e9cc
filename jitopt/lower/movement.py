"""Operators that move elements: as strided copies, gathers of rows, table-driven takes and layout changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from jitopt.ir.dims import Dim, Shape, product
from jitopt.ir.dtypes import BY_NAME, DType
from jitopt.ir.graph import Node, Value
from jitopt.lower.loops import Strides, broadcast_strides, contiguous_strides, inner_kind, merge_axes, value_shape
from jitopt.lower.program import TABLE, Address, Buffer, Step
from jitopt.lower.spec import KernelSpec, table, unique
from jitopt.lower.tables import Table
from jitopt.lower.template import Template, serve, unusable
from jitopt.ops import operator_of
from jitopt.ops.arrange import permutation
from jitopt.ops.contents import axes_of, known, known_dims, known_ints
from jitopt.ops.slicing import slice_bounds

if TYPE_CHECKING:
    from jitopt.lower.context import Context
    from jitopt.lower.groups import Group

# Elements move by size, whatever they mean.
_MOVES = {1: "uint8", 4: "int32", 8: "int64"}
MOVABLE = frozenset(
    d.name for d in BY_NAME.values() if d.numpy is not None and d.itemsize in _MOVES and d.kind != "string"
)


def moved_as(dtype: DType) -> str:
    """The element type that kernels move it as."""
    return _MOVES[dtype.itemsize]


@dataclass(frozen=True)
class Piece:
    """One strided copy: extents, and for source and destination the value, first element and strides (in elements)."""

    extents: Shape
    source: Value
    source_strides: Strides
    target: Value
    target_strides: Strides
    source_first: Dim = 0
    target_first: Dim = 0


class Copies(Template):
    """Transpose, Concat, Split, Slice, Expand: one kernel of strided copies."""

    name = "copy"

    def refuses(self, node: Node) -> str | None:
        reason = unusable([*node.inputs[:1], *node.outputs], MOVABLE)
        if reason is not None:
            return reason
        if node.op == "Concat":
            return unusable(list(node.inputs), MOVABLE)
        return _PIECES[node.op].refuses(node)

    def lower(self, group: Group, context: Context) -> list[Step]:
        node = group.anchor
        return [copy_step(_PIECES[node.op].pieces(node), group, context)]


def copy_step(pieces: Sequence[Piece], group: Group, context: Context) -> Step:
    """One kernel that makes all the copies."""
    words: list[str] = []
    args: list[Any] = []
    axes, inners = [], []
    size = pieces[0].target.dtype.itemsize
    for index, piece in enumerate(pieces):
        nest = merge_axes(piece.extents, [piece.source_strides, piece.target_strides])
        extents = nest.extents or (1,)
        source, target = nest.strides if nest.extents else ((1,), (1,))
        if inner_kind(target[-1]) != "unit":
            extents, source, target = (*extents, 1), (*source, 1), (*target, 1)
        axes.append(len(extents))
        inners.append("unit" if inner_kind(source[-1]) == "unit" else "strided")
        names = [f"n{a}" for a in range(len(extents))]
        names += [f"s{a}" for a in range(len(extents))] + [f"d{a}" for a in range(len(extents) - 1)]
        words += [f"p{index}_{n}" for n in ("src", "dst", *names)]
        args.append(_at(context.address(piece.source), piece.source_first * size))
        args.append(_at(context.address(piece.target), piece.target_first * size))
        args += [*extents, *(s * size for s in source), *(t * size for t in target[:-1])]
    constants = {"dtype": moved_as(pieces[0].target.dtype), "axes": tuple(axes), "inner": tuple(inners)}
    spec = KernelSpec("copy", context.lanes, table(constants), words=unique(words))
    work: Dim = 0
    for piece in pieces:
        work = work + product(piece.extents) * 2 * size
    return context.step(spec, args, [p.source for p in pieces], [p.target for p in pieces], group, work=work)


def _at(address: Address, offset: Dim) -> Address:
    return Address(address.buffer, address.offset + offset)


@dataclass(frozen=True)
class _Pieces:
    pieces: Callable[[Node], list[Piece]]
    refuses: Callable[[Node], str | None] = lambda node: None


def _transpose(node: Node) -> list[Piece]:
    source, target = node.arg(0), node.output
    order = permutation(operator_of(node).attrs(node), len(source.shape))
    strides = contiguous_strides(source.shape)
    picked = tuple(strides[a] for a in order)
    return [Piece(target.shape, source, picked, target, contiguous_strides(target.shape))]


def _concat(node: Node) -> list[Piece]:
    target = node.output
    axis = operator_of(node).attrs(node).axis % len(target.shape)
    strides = contiguous_strides(value_shape(target))
    pieces, at = [], 0
    for source in node.inputs:
        assert source is not None
        shape = value_shape(source)
        pieces.append(Piece(shape, source, contiguous_strides(shape), target, strides, target_first=at * strides[axis]))
        at = at + shape[axis]
    return pieces


def _split(node: Node) -> list[Piece]:
    source = node.arg(0)
    axis = operator_of(node).attrs(node).axis % len(source.shape)
    strides = contiguous_strides(source.shape)
    pieces, at = [], 0
    for target in node.outputs:
        shape = target.shape
        pieces.append(Piece(shape, source, strides, target, contiguous_strides(shape), source_first=at * strides[axis]))
        at = at + shape[axis]
    return pieces


def _expand(node: Node) -> list[Piece]:
    source, target = node.arg(0), node.output
    strides = broadcast_strides(source.shape, target.shape)
    return [Piece(target.shape, source, strides, target, contiguous_strides(target.shape))]


def _tile(node: Node) -> list[Piece]:
    source, target, repeats = node.arg(0), node.output, known_dims(node, 1)
    assert repeats is not None
    extents: list[Dim] = []
    strides: list[Dim] = []
    for extent, repeat, stride in zip(source.shape, repeats, contiguous_strides(source.shape), strict=True):
        extents += [repeat, extent]
        strides += [0, stride]
    return [Piece(tuple(extents), source, tuple(strides), target, contiguous_strides(tuple(extents)))]


def _tile_refuses(node: Node) -> str | None:
    return "the repeats are not known when shapes are bound" if known_dims(node, 1) is None else None


def _window(node: Node) -> list[tuple[Dim, int]] | None:
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


def _slice(node: Node) -> list[Piece]:
    source, target, window = node.arg(0), node.output, _window(node)
    assert window is not None
    strides = contiguous_strides(source.shape)
    first: Dim = 0
    for (start, _), stride in zip(window, strides, strict=True):
        first = first + start * stride
    stepped = tuple(step * stride for (_, step), stride in zip(window, strides, strict=True))
    return [Piece(target.shape, source, stepped, target, contiguous_strides(target.shape), source_first=first)]


def _slice_refuses(node: Node) -> str | None:
    return "starts, ends or steps are not known when shapes are bound" if _window(node) is None else None


_PIECES: dict[str, _Pieces] = {
    "Slice": _Pieces(_slice, _slice_refuses),
    "Transpose": _Pieces(_transpose),
    "Concat": _Pieces(_concat),
    "Split": _Pieces(_split),
    "Expand": _Pieces(_expand),
    "Tile": _Pieces(_tile, _tile_refuses),
}


class Gather(Template):
    """Gather along an axis, by indices known only at run time."""

    name = "gather"

    def refuses(self, node: Node) -> str | None:
        reason = unusable([node.arg(0)], MOVABLE) or unusable([node.arg(1)], frozenset({"int32", "int64"}))
        return reason or unusable(list(node.outputs), MOVABLE)

    def lower(self, group: Group, context: Context) -> list[Step]:
        node = group.anchor
        x, indices, y = node.arg(0), node.arg(1), node.output
        axis = operator_of(node).attrs(node).axis % len(x.shape)
        constants = {"dtype": moved_as(x.dtype), "index": indices.dtype.name}
        words = ("x", "indices", "y", "outer", "count", "axis", "row")
        spec = KernelSpec("gather", context.lanes, table(constants), words=words)
        outer, row, count = product(x.shape[:axis]), product(x.shape[axis + 1 :]), product(indices.shape)
        args = [context.address(x), context.address(indices), context.address(y), outer, count, x.shape[axis], row]
        return [context.step(spec, args, [x, indices], [y], group, work=outer * count * row * 2 * x.dtype.itemsize)]


class GatherNd(Template):
    """GatherND without batch axes."""

    name = "gather_nd"

    def refuses(self, node: Node) -> str | None:
        if operator_of(node).attrs(node).batch_dims:
            return "batch axes have no kernel"
        reason = unusable([node.arg(0), node.output], MOVABLE) or unusable([node.arg(1)], frozenset({"int64"}))
        if reason is None and not isinstance(node.arg(1).shape[-1], int):
            return "the depth of the indices is not known"
        return reason

    def lower(self, group: Group, context: Context) -> list[Step]:
        x, indices, y = group.anchor.arg(0), group.anchor.arg(1), group.anchor.output
        depth = indices.shape[-1]
        assert isinstance(depth, int)
        count, row = product(indices.shape[:-1]), product(x.shape[depth:])
        words = ("x", "indices", "y", "count", "row", *(f"n{a}" for a in range(depth)))
        constants = {"dtype": moved_as(x.dtype), "depth": depth}
        spec = KernelSpec("gather_nd", context.lanes, table(constants), words=words)
        args = [context.address(x), context.address(indices), context.address(y), count, row, *x.shape[:depth]]
        return [context.step(spec, args, [x, indices], [y], group, work=count * row * 2 * x.dtype.itemsize)]


class Pad(Template):
    """Pad in every mode, as a take by one table of offsets an axis."""

    name = "take"

    def refuses(self, node: Node) -> str | None:
        reason = unusable([node.arg(0), node.output], MOVABLE)
        if reason is not None:
            return reason
        if known(node.arg(1)) is None:
            return "the pads are not known when shapes are bound"
        if node.input(3) is not None and known(node.input(3)) is None:
            return "the padded axes are not known"
        fill = node.input(2)
        if fill is not None and (fill.constant is None or fill.constant.size != 1):
            return "the fill value is not a constant"
        return None

    def lower(self, group: Group, context: Context) -> list[Step]:
        node = group.anchor
        x, y = node.arg(0), node.output
        attrs = operator_of(node).attrs(node)
        rank = len(x.shape)
        pads = list(known(node.arg(1)).ravel())  # type: ignore[union-attr]
        axes_known = known(node.input(3))
        axes = [int(a) % rank for a in axes_known.ravel()] if axes_known is not None else list(range(rank))
        before: list[Dim] = [0] * rank
        for i, axis in enumerate(axes):
            before[axis] = pads[i]
        strides = contiguous_strides(x.shape)
        size = x.dtype.itemsize
        tables = []
        for a in range(rank):
            window = Table("window", (attrs.mode, x.shape[a], y.shape[a], before[a], strides[a] * size))
            tables.append(Buffer(f"{node.name}.t{a}", TABLE, y.shape[a] * 8, table=window))
        fill = node.input(2)
        word = _fill_word(np.zeros(1, x.dtype.numpy) if fill is None else fill.constant.astype(x.dtype.numpy))  # type: ignore[union-attr]
        words = ("x", "y", "fill", *(f"t{a}" for a in range(rank)), *(f"n{a}" for a in range(rank)))
        spec = KernelSpec("take", context.lanes, table({"dtype": moved_as(x.dtype), "axes": rank}), words=words)
        args = [context.address(x), context.address(y), word, *map(Address, tables), *y.shape]
        return [context.step(spec, args, [x], [y], group, work=product(y.shape) * 2 * size)]


def _fill_word(array: np.ndarray[Any, Any]) -> int:
    """The element's bytes as the word that a take stores."""
    raw = array.reshape(1).view({1: np.uint8, 4: np.int32, 8: np.int64}[array.dtype.itemsize])
    return int(raw[0])


class Reorder(Template):
    """Between row-major and blocked."""

    name = "reorder"

    def refuses(self, node: Node) -> str | None:
        return unusable([node.arg(0)], frozenset({"float32", "int32"}))

    def lower(self, group: Group, context: Context) -> list[Step]:
        x, y = group.anchor.arg(0), group.anchor.output
        images, channels, pixels = x.shape[0], x.shape[1], product(x.shape[2:])
        if y.layout.block:
            words: tuple[str, ...] = ("x", "y", "images", "channels", "pixels", "image_step", "channel_step")
            steps: list[Dim] = [channels * pixels * 4, pixels * 4]
            spec = KernelSpec("to_blocked", context.lanes, words=words)
        else:
            steps = []
            spec = KernelSpec("from_blocked", context.lanes, words=("x", "y", "images", "channels", "pixels"))
        args = [context.address(x), context.address(y), images, channels, pixels, *steps]
        return [context.step(spec, args, [x], [y], group, work=product(x.shape) * 8)]


serve(Copies(), *_PIECES)
serve(Gather(), "Gather")
serve(GatherNd(), "GatherND")
serve(Pad(), "Pad")
serve(Reorder(), "jitopt.Reorder")
