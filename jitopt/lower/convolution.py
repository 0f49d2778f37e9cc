"""Conv on blocked values: dense, grouped, and the first convolution of an image, which reads row-major."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jitopt_kernels.packing import ZERO_BYTES, conv_scratch, pack_conv, pack_depthwise

from jitopt.ir.dims import Dim, product
from jitopt.ir.graph import Node, Value
from jitopt.lower import epilogue
from jitopt.lower.epilogue import ACCUMULATOR, Epilogue
from jitopt.lower.program import Address, Step
from jitopt.lower.spec import KernelSpec, table, unique
from jitopt.lower.template import Template, serve, unusable
from jitopt.ops import operator_of
from jitopt.ops.geometry import Window, kernel_of, window

if TYPE_CHECKING:
    from jitopt.lower.context import Context
    from jitopt.lower.groups import Group

_FLOAT = frozenset({"float32"})
# Argument words of a "conv" kernel, in the order of the library's parameters; the epilogue's follow.
CONV_WORDS = (
    "x", "x_image", "x_block", "x_row", "x_column", "height", "width", "blocks", "w", "images", "groups", "channels",
    "kernel_h", "kernel_w", "stride_h", "stride_w", "dilation_h", "dilation_w", "top", "left", "out_h", "out_w",
    "y_block",
)  # fmt: skip
# And of a "depthwise" kernel.
DEPTHWISE_WORDS = (
    "x", "x_image", "x_block", "x_row", "height", "width", "w", "images", "channels", "stride_h", "dilation_h", "top",
    "left", "out_h", "out_w", "y_block",
)  # fmt: skip


@dataclass(frozen=True)
class Sliding:
    """A window over two spatial axes; a 1-D one has height 1."""

    extent: tuple[Dim, Dim]
    kernel: tuple[Dim, Dim]
    strides: tuple[Dim, Dim]
    dilations: tuple[Dim, Dim]
    begin: tuple[Dim, Dim]
    out: tuple[Dim, Dim]

    @property
    def words(self) -> list[Dim]:
        """kernel, stride, dilation, top and left, output extents: as the library takes them."""
        return [*self.kernel, *self.strides, *self.dilations, *self.begin, *self.out]


def sliding(extent: tuple[Dim, ...], found: Window) -> Sliding:
    """The window as two axes."""

    def two(values: tuple[Dim, ...], missing: int) -> tuple[Dim, Dim]:
        return (missing, values[0]) if len(values) == 1 else (values[0], values[1])

    return Sliding(
        two(extent, 1), two(found.kernel, 1), two(found.strides, 1), two(found.dilations, 1), two(found.begin, 0),
        two(found.out, 1),
    )  # fmt: skip


def conv_window(node: Node) -> Sliding:
    """The window of a Conv node."""
    attrs = operator_of(node).attrs(node)
    x, w = node.arg(0).shape, node.arg(1).shape
    return sliding(x[2:], window(attrs, x[2:], kernel_of(attrs, w[2:])))


def reads_row_major(node: Node, lanes: int) -> bool:
    """Whether the convolution reads its input row-major: few channels, as the first one of an image has."""
    channels = node.arg(0).shape[1]
    grouped = operator_of(node).attrs(node).group > 1
    return node.op == "Conv" and not grouped and isinstance(channels, int) and channels < lanes


def bias_and_epilogue(ep: Epilogue, node: Node, channels: int) -> str:
    """The accumulator plus the node's bias (input 2), which broadcasts over the channels."""
    bias = node.input(2)
    if bias is None:
        return ACCUMULATOR
    return ep.builder.emit("add", ACCUMULATOR, ep.builder.ref(per_channel(bias, node.output, channels)))


def per_channel(vector: Value, output: Value, channels: int) -> Value:
    """A constant [C] as a constant over the channels of `output`, in its layout."""
    assert vector.constant is not None
    shape = (1, channels, *(1,) * (len(output.shape) - 2))
    shaped = Value(vector.name, vector.tensor.with_shape(shape))
    shaped.constant, shaped.layout = vector.constant.reshape(shape), output.layout
    return shaped


class Conv(Template):
    """Conv with constant weights, one or several groups whose channels are whole blocks."""

    name = "conv"

    def refuses(self, node: Node) -> str | None:
        reason = unusable([*node.inputs, *node.outputs], _FLOAT)
        if reason is not None:
            return reason
        x, w, bias = node.arg(0), node.arg(1), node.input(2)
        block = node.output.layout.block
        if not block:
            return "the output is not blocked (a convolution kernel writes NCHWc)"
        if w.constant is None or (bias is not None and bias.constant is None):
            return "weights or bias are not constants"
        groups = operator_of(node).attrs(node).group
        inputs, outputs = w.constant.shape[1], w.constant.shape[0] // groups
        if groups > 1 and (inputs % block or outputs % block):
            return f"groups of {inputs} -> {outputs} channels are not whole blocks of {block}"
        if groups > 1 and not x.layout.block:
            return "a grouped convolution reads blocked values"
        return None

    def absorbs(self, group: Group, node: Node, where: str) -> bool:
        return where == "after" and epilogue.absorbs(group, node, group.anchor.output, 1)

    def lower(self, group: Group, context: Context) -> list[Step]:
        node = group.anchor
        x, weights = node.arg(0), node.arg(1).constant
        assert weights is not None
        groups = operator_of(node).attrs(node).group
        lanes, target = context.lanes, context.target
        block = lanes if x.layout.block else 1
        panel, heights = target.conv_panel, target.conv_heights
        win = conv_window(node)
        ep = Epilogue(group, context, node.output, 1)
        body, words, args = ep.finish(bias_and_epilogue(ep, node, weights.shape[0]))
        constants = {"block": block, "heights": heights, "panel": panel}
        spec = KernelSpec("conv", lanes, table(constants), body, unique((*CONV_WORDS, *words)))
        packed = context.pack(
            weights, ("conv", lanes, panel, block, groups), lambda w: pack_conv(w, lanes, panel, block, groups)
        )
        pixels, out_pixels = product(win.extent), product(win.out)
        blocks = -(-weights.shape[1] // block)
        strides = [product(x.shape[1:2]) * pixels * 4, pixels * 4, win.extent[1] * 4, 4]
        if block > 1:
            strides = [blocks * groups * pixels * block * 4, pixels * block * 4, win.extent[1] * block * 4, block * 4]
        head: list[Any] = [
            context.address(x), *strides, *win.extent, blocks, Address(packed), x.shape[0], groups,
            weights.shape[0] // groups, *win.words, out_pixels * lanes * 4,
        ]  # fmt: skip
        flops = x.shape[0] * out_pixels * weights.size
        scratch = conv_scratch(product(win.kernel), heights)
        return [context.step(spec, [*head, *args], [x, *ep.reads], ep.writes, group, scratch=scratch, work=flops)]


class Depthwise(Template):
    """Conv whose every channel has its own filter."""

    name = "depthwise"

    def refuses(self, node: Node) -> str | None:
        reason = unusable([*node.inputs, *node.outputs], _FLOAT)
        if reason is not None:
            return reason
        x, w, bias = node.arg(0), node.arg(1), node.input(2)
        if not (node.output.layout.block and x.layout.block):
            return "input or output are not blocked"
        if w.constant is None or (bias is not None and bias.constant is None):
            return "weights or bias are not constants"
        groups = operator_of(node).attrs(node).group
        if groups == 1 or w.constant.shape[:2] != (groups, 1):
            return "not one filter a channel"
        return None

    def absorbs(self, group: Group, node: Node, where: str) -> bool:
        return where == "after" and epilogue.absorbs(group, node, group.anchor.output, 1)

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
            context.address(x), -(-channels // lanes) * pixels * vec, pixels * vec, win.extent[1] * vec, *win.extent,
            Address(packed), x.shape[0], channels, win.strides[0], win.dilations[0], *win.begin, *win.out,
            out_pixels * vec,
        ]  # fmt: skip
        work = x.shape[0] * out_pixels * weights.size
        return [context.step(spec, [*head, *args], [x, *ep.reads], ep.writes, group, scratch=ZERO_BYTES, work=work)]


serve(Depthwise(), "Conv")
serve(Conv(), "Conv")
