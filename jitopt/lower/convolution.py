"""Conv and ConvTranspose on blocked values, and what all convolution kernels share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jitopt_kernels.packing import best_tile, conv_scratch, pack_conv, pack_conv_transposed, tile_bytes

from jitopt.ir.dims import Dim, product
from jitopt.ir.graph import Node, Value
from jitopt.lower import epilogue
from jitopt.lower.epilogue import ACCUMULATOR, Epilogue
from jitopt.lower.program import Address, Step
from jitopt.lower.spec import KernelSpec, table, unique
from jitopt.lower.template import Template, serve, unusable
from jitopt.ops import operator_of
from jitopt.ops.deconvolution import transposed_window
from jitopt.ops.geometry import Window, kernel_of, window

if TYPE_CHECKING:
    from jitopt_kernels.targets import Target

    from jitopt.lower.context import Context
    from jitopt.lower.groups import Group

_FLOAT = frozenset({"float32"})
# Argument words of a "conv" kernel, in the order of the library's parameters; the epilogue's follow.
CONV_WORDS = (
    "x", "x_image", "x_block", "x_row", "x_column", "height", "width", "blocks", "w", "images", "groups", "channels",
    "kernel_h", "kernel_w", "stride_h", "stride_w", "dilation_h", "dilation_w", "top", "left", "out_h", "out_w",
    "y_block",
)  # fmt: skip


@dataclass(frozen=True)
class Sliding:
    """A window over two spatial axes; a 1-D one has height 1."""

    extent: tuple[Dim, Dim]
    kernel: tuple[Dim, Dim]
    strides: tuple[Dim, Dim]
    dilations: tuple[Dim, Dim]
    begin: tuple[Dim, Dim]
    end: tuple[Dim, Dim]
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
        two(found.end, 0), two(found.out, 1),
    )  # fmt: skip


def conv_window(node: Node) -> Sliding:
    """The window of a Conv or ConvTranspose node."""
    attrs = operator_of(node).attrs(node)
    x, w = node.arg(0).shape, node.arg(1).shape
    slide = transposed_window if node.op == "ConvTranspose" else window
    return sliding(x[2:], slide(attrs, x[2:], kernel_of(attrs, w[2:])))


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


def group_channels(node: Node) -> tuple[int, int, int]:
    """Groups, and input and output channels of each; weights must be constant."""
    groups, weights = operator_of(node).attrs(node).group, node.arg(1).constant
    assert weights is not None
    if node.op == "ConvTranspose":
        return groups, weights.shape[0] // groups, weights.shape[1]
    return groups, weights.shape[1], weights.shape[0] // groups


# Kernel template and weight packing of each operator.
_KERNELS: dict[str, tuple[str, Callable[..., Any]]] = {
    "Conv": ("conv", pack_conv),
    "ConvTranspose": ("conv_transposed", pack_conv_transposed),
}


def tile_for(columns: int, target: Target) -> tuple[tuple[int, ...], int]:
    """Heights and panel of the target's tile that wastes the fewest output channels on padding."""
    tiles = ((target.conv_heights, target.conv_panel), (target.gemm_heights, target.gemm_panel))
    heights, panel = best_tile(columns, target.lanes, tiles)
    return heights, panel


def blocked_strides(win: Sliding, lanes: int) -> list[Dim]:
    """Byte strides of a blocked input: channel block, row, column."""
    vec = lanes * 4
    return [product(win.extent) * vec, win.extent[1] * vec, vec]


class BlockedConvolution(Template):
    """What all convolution kernels share: constant weights, blocked output, epilogue."""

    def refuses(self, node: Node) -> str | None:
        reason = unusable([*node.inputs, *node.outputs], _FLOAT)
        if reason is not None:
            return reason
        w, bias = node.arg(1), node.input(2)
        if not node.output.layout.block:
            return "the output is not blocked (a convolution kernel writes NCHWc)"
        if w.constant is None or (bias is not None and bias.constant is None):
            return "weights or bias are not constants"
        return None

    def absorbs(self, group: Group, node: Node, where: str) -> bool:
        return where == "after" and epilogue.absorbs(group, node, group.anchor.output, 1)

    def takes_images(self, group: Group, value: Value) -> bool:
        return True


class Conv(BlockedConvolution):
    """Conv and ConvTranspose of one group, or several whose channels are whole blocks."""

    name = "conv"

    def refuses(self, node: Node) -> str | None:
        reason = super().refuses(node)
        if reason is not None:
            return reason
        block = node.output.layout.block
        groups, inputs, outputs = group_channels(node)
        if groups > 1 and (inputs % block or outputs % block):
            return f"groups of {inputs} -> {outputs} channels are not whole blocks of {block}"
        return None if node.arg(0).layout.block else "the input is not blocked"

    def lower(self, group: Group, context: Context) -> list[Step]:
        node = group.anchor
        x, weights = node.arg(0), node.arg(1).constant
        assert weights is not None
        groups, inputs, outputs = group_channels(node)
        lanes = context.lanes
        heights, panel = tile_for(outputs, context.target)
        win = conv_window(node)
        ep = Epilogue(group, context, node.output, 1)
        body, words, args = ep.finish(bias_and_epilogue(ep, node, groups * outputs))
        template, pack = _KERNELS[node.op]
        constants: dict[str, Any] = {"block": lanes, "heights": heights, "panel": panel}
        if template == "conv":
            constants["whole"] = outputs % (panel * lanes) == 0
        spec = KernelSpec(template, lanes, table(constants), body, unique((*CONV_WORDS, *words)))
        key = (template, lanes, panel, groups)
        packed = context.pack(weights, key, lambda w: pack(w, lanes, panel, lanes, groups))
        pixels, out_pixels = product(win.extent), product(win.out)
        head: list[Any] = [
            context.address(x), context.image_bytes(x), *blocked_strides(win, lanes), *win.extent,
            -(-inputs // lanes), Address(packed), x.shape[0], groups, outputs, *win.words, out_pixels * lanes * 4,
        ]  # fmt: skip
        flops = x.shape[0] * (pixels if node.op == "ConvTranspose" else out_pixels) * weights.size
        scratch = tile_bytes(heights, panel, lanes) + conv_scratch(product(win.kernel), heights)
        return [context.step(spec, [*head, *args], [x, *ep.reads], ep.writes, group, scratch=scratch, work=flops)]


serve(Conv(), "Conv", "ConvTranspose")
