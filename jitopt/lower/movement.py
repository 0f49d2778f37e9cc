"""Operators that move elements: as strided copies, gathers of rows, table-driven takes and layout changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from jitopt.ir.dims import Dim, Shape, product
from jitopt.ir.dtypes import BY_NAME, DType
from jitopt.ir.graph import Node, Value
from jitopt.lower.loops import Strides, broadcast_strides, contiguous_strides, inner_kind, merge_axes, value_shape
from jitopt.lower.program import TABLE, Address, Buffer, Region, Step
from jitopt.lower.spec import KernelSpec, table, unique
from jitopt.lower.tables import Table
from jitopt.lower.template import Template, serve, unusable
from jitopt.lower.windows import joined_axis, parts_of, physical_first, slice_window, split_windows
from jitopt.ops import operator_of
from jitopt.ops.arrange import permutation
from jitopt.ops.contents import known, known_dims

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
    """One strided copy: extents, and for source and destination the value, first byte and strides (in elements).

    `region` is what of the target it writes; None: all.
    """

    extents: Shape
    source: Value
    source_strides: Strides
    target: Value
    target_strides: Strides
    source_first: Dim = 0
    target_first: Dim = 0
    region: Region | None = None


class Copies(Template):
    """Transpose, Concat, Split, Slice, Expand: one kernel of strided copies, of what does not lie in place already."""

    name = "copy"

    def refuses(self, node: Node) -> str | None:
        reason = unusable([*node.inputs[:1], *node.outputs], MOVABLE)
        if reason is not None:
            return reason
        if node.op == "Concat":
            return unusable(list(node.inputs), MOVABLE)
        return _PIECES[node.op].refuses(node)

    def takes_images(self, group: Group, value: Value) -> bool:
        return True

    def lower(self, group: Group, context: Context) -> list[Step]:
        node = group.anchor
        pieces = _PIECES[node.op].pieces(node, context)
        return [copy_step(pieces, group, context)] if pieces else []


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
        args.append(_at(context.address(piece.source), piece.source_first))
        args.append(_at(context.address(piece.target), piece.target_first))
        args += [*extents, *(s * size for s in source), *(t * size for t in target[:-1])]
    constants = {"dtype": moved_as(pieces[0].target.dtype), "axes": tuple(axes), "inner": tuple(inners)}
    spec = KernelSpec("copy", context.lanes, table(constants), words=unique(words))
    work: Dim = 0
    for piece in pieces:
        work = work + product(piece.extents) * 2 * size
    written = [p.target if p.region is None else p.region for p in pieces]
    return context.step(spec, args, [p.source for p in pieces], written, group, work=work)


def _at(address: Address, offset: Dim) -> Address:
    return Address(address.buffer, address.offset + offset)


@dataclass(frozen=True)
class _Pieces:
    pieces: Callable[[Node, Context], list[Piece]]
    refuses: Callable[[Node], str | None] = lambda node: None


def _transpose(node: Node, context: Context) -> list[Piece]:
    source, target = node.arg(0), node.output
    order = permutation(operator_of(node).attrs(node), len(source.shape))
    strides = context.strides(source)
    picked = tuple(strides[a] for a in order)
    return [Piece(target.shape, source, picked, target, context.strides(target))]


def _concat(node: Node, context: Context) -> list[Piece]:
    """Copies of the parts that their kernels do not store into the result themselves."""
    target = node.output
    homes = [home for v in node.inputs if (home := context.home(v)) is not None and home.within is target]
    axis, strides = joined_axis(node), context.strides(target)
    pieces = []
    for part, first in parts_of(node):
        region = None
        if homes:
            home = replace(homes[0], first=first)
            if context.home(part) == home:
                continue
            region = context.inside(home, part)
        at = context.offset(target, axis, first)
        pieces.append(
            Piece(value_shape(part), part, context.strides(part), target, strides, target_first=at, region=region)
        )
    return pieces


def _split(node: Node, context: Context) -> list[Piece]:
    source, axis = node.arg(0), joined_axis(node)
    strides = context.strides(source)
    return [
        Piece(
            value_shape(part), source, strides, part, context.strides(part),
            source_first=context.offset(source, axis, first),
        )
        for part, first in split_windows(node)
        if not _within(part, source, context)
    ]  # fmt: skip


def _within(part: Value, source: Value, context: Context) -> bool:
    home = context.home(part)
    return home is not None and home.within is source


def _expand(node: Node, context: Context) -> list[Piece]:
    source, target = node.arg(0), node.output
    strides = broadcast_strides(source.shape, target.shape, context.image(source))
    return [Piece(target.shape, source, strides, target, context.strides(target))]


def _tile(node: Node, context: Context) -> list[Piece]:
    source, target, repeats = node.arg(0), node.output, known_dims(node, 1)
    assert repeats is not None
    extents: list[Dim] = []
    taken: list[Dim] = []
    stored: list[Dim] = []
    for extent, repeat, stride, step in zip(
        source.shape, repeats, context.strides(source), context.strides(target), strict=True
    ):
        extents += [repeat, extent]
        taken += [0, stride]
        stored += [extent * step, step]
    return [Piece(tuple(extents), source, tuple(taken), target, tuple(stored))]


def _tile_refuses(node: Node) -> str | None:
    return "the repeats are not known when shapes are bound" if known_dims(node, 1) is None else None


def _slice(node: Node, context: Context) -> list[Piece]:
    source, target, window = node.arg(0), node.output, slice_window(node)
    assert window is not None
    if _within(target, source, context):
        return []
    strides = context.strides(source)
    first: Dim = 0
    for axis, ((start, _), stride) in enumerate(zip(window, strides, strict=False)):
        first = first + physical_first(start, axis, source) * stride
    stepped = [step * stride for (_, step), stride in zip(window, strides, strict=False)]
    stepped += strides[len(window) :]
    first_byte = first * source.dtype.itemsize
    return [Piece(value_shape(target), source, tuple(stepped), target, context.strides(target), first_byte)]


def _slice_refuses(node: Node) -> str | None:
    return "starts, ends or steps are not known when shapes are bound" if slice_window(node) is None else None


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


# Argument words of "to_blocked" and "from_blocked" kernels, in the order of the library's parameters.
REORDER_WORDS = ("x", "y", "images", "channels", "pixels", "x_image", "y_image")


class Reorder(Template):
    """Between row-major and blocked."""

    name = "reorder"

    def refuses(self, node: Node) -> str | None:
        return unusable([node.arg(0)], frozenset({"float32", "int32"}))

    def takes_images(self, group: Group, value: Value) -> bool:
        return True

    def lower(self, group: Group, context: Context) -> list[Step]:
        x, y = group.anchor.arg(0), group.anchor.output
        images, channels, pixels = x.shape[0], x.shape[1], product(x.shape[2:])
        spec = KernelSpec("to_blocked" if y.layout.block else "from_blocked", context.lanes, words=REORDER_WORDS)
        args = [
            context.address(x), context.address(y), images, channels, pixels, context.image_bytes(x),
            context.image_bytes(y),
        ]  # fmt: skip
        return [context.step(spec, args, [x], [y], group, work=product(x.shape) * 8)]


serve(Copies(), *_PIECES)
serve(Gather(), "Gather")
serve(GatherNd(), "GatherND")
serve(Pad(), "Pad")
serve(Reorder(), "jitopt.Reorder")
