"""Convolutions with kernels of their own: a filter a channel, the first one of an image, groups of any size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jitopt_kernels.packing import (
    ZERO_BYTES,
    conv_scratch,
    grouped_slots,
    pack_conv,
    pack_depthwise,
    pack_grouped,
    stem_scratch,
)

from jitopt.ir.dims import product
from jitopt.ir.graph import Node
from jitopt.lower.convolution import (
    BlockedConvolution,
    bias_and_epilogue,
    blocked_strides,
    conv_window,
    group_channels,
    tile_for,
)
from jitopt.lower.epilogue import Epilogue
from jitopt.lower.program import Address, Step
from jitopt.lower.spec import KernelSpec, table, unique
from jitopt.lower.template import serve

if TYPE_CHECKING:
    from jitopt.lower.context import Context
    from jitopt.lower.groups import Group

_SLIDING = (
    "kernel_h", "kernel_w", "stride_h", "stride_w", "dilation_h", "dilation_w", "top", "left", "out_h", "out_w",
    "y_block",
)  # fmt: skip
# Argument words of "depthwise", "stem" and "grouped" kernels, in the order of the library's parameters.
DEPTHWISE_WORDS = (
    "x", "x_image", "x_block", "x_row", "height", "width", "w", "images", "channels", "stride_h", "dilation_h", "top",
    "left", "out_h", "out_w", "y_block",
)  # fmt: skip
STEM_WORDS = (
    "x", "x_image", "x_channel", "x_row", "x_column", "height", "width", "depth", "w", "images", "channels", *_SLIDING,
)  # fmt: skip
GROUPED_WORDS = (
    "x", "x_image", "x_block", "x_row", "x_column", "height", "width", "depth", "w", "slots", "images", "groups",
    "channels", *_SLIDING,
)  # fmt: skip


class Depthwise(BlockedConvolution):
    """Conv whose every channel has its own filter."""

    name = "depthwise"

    def refuses(self, node: Node) -> str | None:
        reason = super().refuses(node)
        if reason is not None:
            return reason
        groups, inputs, outputs = group_channels(node)
        if groups == 1 or (inputs, outputs) != (1, 1):
            return "not one filter a channel"
        return None if node.arg(0).layout.block else "the input is not blocked"

    def lower(self, group: Group, context: Context) -> list[Step]:
        node = group.anchor
        x, weights = node.arg(0), node.arg(1).constant
        assert weights is not None
        lanes, win, channels = context.lanes, conv_window(node), weights.shape[0]
        ep = Epilogue(group, context, node.output, 1)
        body, words, args = ep.finish(bias_and_epilogue(ep, node, channels))
        constants = {
            "kernel": win.kernel, "stride": win.strides[1], "dilation": win.dilations[1],
            "columns": context.target.depthwise_columns,
        }  # fmt: skip
        spec = KernelSpec("depthwise", lanes, table(constants), body, unique((*DEPTHWISE_WORDS, *words)))
        packed = context.pack(weights, ("depthwise", lanes), lambda w: pack_depthwise(w, lanes))
        pixels, out_pixels, vec = product(win.extent), product(win.out), lanes * 4
        head: list[Any] = [
            context.address(x), context.image_bytes(x), pixels * vec, win.extent[1] * vec, *win.extent,
            Address(packed), x.shape[0], channels, win.strides[0], win.dilations[0], *win.begin, *win.out,
            out_pixels * vec,
        ]  # fmt: skip
        work = x.shape[0] * out_pixels * weights.size
        return [context.step(spec, [*head, *args], [x, *ep.reads], ep.writes, group, scratch=ZERO_BYTES, work=work)]


class Stem(BlockedConvolution):
    """The first Conv of an image, which reads it row-major."""

    name = "stem"

    def refuses(self, node: Node) -> str | None:
        reason = super().refuses(node)
        if reason is not None:
            return reason
        if node.arg(0).layout.block or group_channels(node)[0] > 1:
            return "the input is blocked or grouped"
        return None

    def lower(self, group: Group, context: Context) -> list[Step]:
        node = group.anchor
        x, weights = node.arg(0), node.arg(1).constant
        assert weights is not None
        channels, depth = weights.shape[:2]
        lanes, win = context.lanes, conv_window(node)
        heights, panel = tile_for(channels, context.target)
        ep = Epilogue(group, context, node.output, 1)
        body, words, args = ep.finish(bias_and_epilogue(ep, node, channels))
        constants = {"heights": heights, "panel": panel, "whole": channels % (panel * lanes) == 0}
        spec = KernelSpec("stem", lanes, table(constants), body, unique((*STEM_WORDS, *words)))
        packed = context.pack(weights, ("stem", lanes, panel), lambda w: pack_conv(w, lanes, panel, 1))
        pixels, out_pixels = product(win.extent), product(win.out)
        head: list[Any] = [
            context.address(x), context.image_bytes(x), pixels * 4, win.extent[1] * 4, 4, *win.extent, depth,
            Address(packed), x.shape[0], channels, *win.words, out_pixels * lanes * 4,
        ]  # fmt: skip
        scratch = stem_scratch(product(win.kernel) * depth, heights)
        work = x.shape[0] * out_pixels * weights.size
        return [context.step(spec, [*head, *args], [x, *ep.reads], ep.writes, group, scratch=scratch, work=work)]


class Grouped(BlockedConvolution):
    """Conv whose groups are not whole blocks of channels."""

    name = "grouped"

    def refuses(self, node: Node) -> str | None:
        reason = super().refuses(node)
        if reason is not None:
            return reason
        return None if node.arg(0).layout.block and group_channels(node)[0] > 1 else "not grouped, or not blocked"

    def lower(self, group: Group, context: Context) -> list[Step]:
        node = group.anchor
        x, weights = node.arg(0), node.arg(1).constant
        assert weights is not None
        groups, depth, channels = group_channels(node)
        lanes, win = context.lanes, conv_window(node)
        heights, panel = tile_for(groups * channels, context.target)
        ep = Epilogue(group, context, node.output, 1)
        body, words, args = ep.finish(bias_and_epilogue(ep, node, groups * channels))
        constants = {"block": lanes, "heights": heights, "panel": panel}
        spec = KernelSpec("grouped", lanes, table(constants), body, unique((*GROUPED_WORDS, *words)))
        key = ("grouped", lanes, panel, groups)
        packed = context.pack(weights, key, lambda w: pack_grouped(w, lanes, panel, groups))
        out_pixels = product(win.out)
        head: list[Any] = [
            context.address(x), context.image_bytes(x), *blocked_strides(win, lanes), *win.extent, depth,
            Address(packed), grouped_slots(channels, groups, panel * lanes), x.shape[0], groups, channels, *win.words,
            out_pixels * lanes * 4,
        ]  # fmt: skip
        scratch = conv_scratch(product(win.kernel), heights)
        work = x.shape[0] * out_pixels * weights.size
        return [context.step(spec, [*head, *args], [x, *ep.reads], ep.writes, group, scratch=scratch, work=work)]


for kind in (Depthwise(), Stem(), Grouped()):
    serve(kind, "Conv")
