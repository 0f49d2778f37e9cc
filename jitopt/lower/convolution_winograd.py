"""3x3 convolutions of stride 1 by Winograd's minimal filtering, where a cost model says that it pays."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from jitopt_kernels.winograd_packing import POINTS, TAPS, pack_winograd, tiles_at_once, winograd_scratch

from jitopt.ir.dims import product
from jitopt.ir.graph import Node
from jitopt.lower.algorithms import Alternative, offer
from jitopt.lower.convolution import (
    BlockedConvolution,
    Conv,
    Sliding,
    bias_and_epilogue,
    blocked_strides,
    conv_window,
    tile_for,
)
from jitopt.lower.epilogue import Epilogue
from jitopt.lower.program import Address, Step
from jitopt.lower.spec import KernelSpec, table, unique

if TYPE_CHECKING:
    from jitopt_kernels.targets import Target

    from jitopt.lower.context import Context
    from jitopt.lower.groups import Group

# Argument words of a "winograd" kernel, in the order of the library's parameters; the epilogue's follow.
WINOGRAD_WORDS = (
    "x", "x_image", "x_block", "x_row", "height", "width", "blocks", "w", "images", "channels", "top", "left",
    "out_h", "out_w", "y_block", "most",
)  # fmt: skip

# The cost model's unit is one cycle of one core. Sums of products run at FMAS_A_CYCLE vectors and this share of it in
# direct convolution and in the batched GEMM; transforms cost what they load and store, for few of both hit the
# nearest cache. Weights come from memory, at one core's share of its bandwidth.
FMAS_A_CYCLE = 2.0
DIRECT_SHARE, PRODUCT_SHARE = 0.95, 0.85
CYCLES_A_MOVE = 2.0
WEIGHT_BYTES_A_CYCLE = 8.0
ASSUMED_EXTENT = 64  # of maps whose size the model leaves open
LEAST_GAIN = 1.1  # how many times faster it must promise to be


class Winograd(Alternative, BlockedConvolution):
    """Conv with a 3x3 kernel and stride 1 by F(2x2, 3x3) or F(4x4, 3x3)."""

    name = "winograd"

    def pays(self, group: Group, target: Target) -> bool:
        return isinstance(group.template, Conv) and tile_outputs(group.anchor, target) is not None

    def lower(self, group: Group, context: Context) -> list[Step]:
        node, lanes = group.anchor, context.lanes
        x, weights = node.arg(0), node.arg(1).constant
        outputs = tile_outputs(node, context.target)
        assert weights is not None
        assert outputs is not None
        channels, inputs = weights.shape[:2]
        heights, panel = tile_for(channels, context.target)
        win, most = conv_window(node), tiles_at_once(inputs, channels, outputs)
        if all(isinstance(extent, int) for extent in (x.shape[0], *win.out)):
            most = min(most, max(int(x.shape[0]) * _area(win, outputs), 1))
        ep = Epilogue(group, context, node.output, 1)
        body, words, args = ep.finish(bias_and_epilogue(ep, node, channels))
        constants = {"heights": heights, "panel": panel, "outputs": outputs}
        spec = KernelSpec("winograd", lanes, table(constants), body, unique((*WINOGRAD_WORDS, *words)))
        packed = context.pack(
            weights, ("winograd", outputs, lanes, panel), lambda w: pack_winograd(w, lanes, panel, outputs)
        )
        blocks, out_pixels = -(-inputs // lanes), product(win.out)
        head: list[Any] = [
            context.address(x), context.image_bytes(x), *blocked_strides(win, lanes)[:2], *win.extent, blocks,
            Address(packed), x.shape[0], channels, *win.begin, *win.out, out_pixels * lanes * 4, most,
        ]  # fmt: skip
        work = x.shape[0] * out_pixels * weights.size
        scratch = winograd_scratch(outputs, most, inputs, channels, lanes, heights, panel)
        return [context.step(spec, [*head, *args], [x, *ep.reads], ep.writes, group, scratch=scratch, work=work)]


def tile_outputs(node: Node, target: Target) -> int | None:
    """The m of the F(m x m, 3x3) that promises most, or None where direct convolution does, or nothing else can."""
    weights, win = node.arg(1).constant, conv_window(node)
    if node.op != "Conv" or weights is None or weights.shape[1] != node.arg(0).shape[1]:
        return None
    if win.kernel != (TAPS, TAPS) or win.strides != (1, 1) or win.dilations != (1, 1):
        return None
    costs = {m: _winograd_cycles(win, weights.shape, target, m) for m in POINTS}
    best = min(costs, key=costs.__getitem__)
    return best if costs[best] * LEAST_GAIN < _direct_cycles(win, weights.shape, target) else None


def _direct_cycles(win: Sliding, weights: tuple[int, ...], target: Target) -> float:
    """Estimated cycles of one image by direct convolution with weights of this shape."""
    vectors, vec = prod(weights[1:]) * _vectors(weights[0], target), int(target.vector_bytes)
    products = _area(win, 1) * vectors
    return products / (FMAS_A_CYCLE * DIRECT_SHARE) + vectors * vec / WEIGHT_BYTES_A_CYCLE


def _winograd_cycles(win: Sliding, weights: tuple[int, ...], target: Target, outputs: int) -> float:
    """Estimated cycles of one image by F(m x m, 3x3), m = `outputs`."""
    side, lanes = int(outputs + TAPS - 1), int(target.lanes)
    tiles, inputs, channels = _area(win, outputs), weights[1], _vectors(weights[0], target)
    products = tiles * side * side * inputs * channels
    moves_in = 4 * side * side * -(-inputs // lanes)
    moves_out = (side * side + 2 * side * outputs + 3 * outputs * outputs) * channels
    bytes_read = 4 * side * side * inputs * channels * lanes
    return (
        products / (FMAS_A_CYCLE * PRODUCT_SHARE)
        + tiles * (moves_in + moves_out) * CYCLES_A_MOVE
        + bytes_read / WEIGHT_BYTES_A_CYCLE
    )


def _vectors(channels: int, target: Target) -> int:
    """Vectors of output channels that the register tiles compute, padding included."""
    panel, lanes = tile_for(channels, target)[1], int(target.lanes)
    return -(-channels // (panel * lanes)) * panel


def _area(win: Sliding, side: int) -> int:
    """Squares of side x side that cover a map of outputs."""
    height, width = (extent if isinstance(extent, int) else ASSUMED_EXTENT for extent in win.out)
    return -(-height // side) * -(-width // side)


offer(Winograd())
