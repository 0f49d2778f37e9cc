"""Transposed convolution on the blocked layout, as one convolution for each phase of the stride.

Output column o gets input column i through tap k where o + left = i * stride + k * dilation. Outputs whose positions
are equal modulo the stride (a phase) share their taps, and along one output row of a phase neighbouring outputs read
neighbouring inputs: a convolution of stride 1 with fewer taps. So every output is computed once and stored once;
nothing is scattered. Weights are packed by `packing.pack_conv_transposed`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitopt_kernels.abi import share
from jitopt_kernels.packing import TAP_BYTES, ZERO_BYTES, tile_bytes, window_line
from jitopt_kernels.simd import inlined
from jitopt_kernels.tiling import CACHE_BYTES, chain_terms, merged, panel_group, pick_height, row_plan

from .direct import make_tiles
from .window import clear_zeros, fill_window, set_tap


@inlined
def set_phase(scratch, oy, ox, kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w, top, left, tap_bytes):
    """List the taps that reach outputs (oy, ox + n * stride_w), with offsets relative to input (0, n); returns how
    many."""
    taps = 0
    for i in range(kernel_h):
        y = oy + top - i * dilation_h
        if y % stride_h == 0:
            for j in range(kernel_w):
                x = ox + left - j * dilation_w
                if x % stride_w == 0:
                    weights = (i * kernel_w + j) * tap_bytes
                    set_tap(scratch + ZERO_BYTES, taps, y // stride_h, x // stride_w, weights)
                    taps += 1
    return taps


def make_conv_transposed(
    *,
    lanes: int,
    heights: tuple[int, ...],
    panel: int,
    block: int,
    finish: Any,
    finish_tail: Any,
    whole: bool = False,
    cache_bytes: int = CACHE_BYTES,
) -> Callable[..., None]:
    """A transposed convolution kernel; arguments as for `direct.make_conv`, in the same order.

    height and width are the input's extents, out_h and out_w the output's (output_padding included), top and left
    what the padding cuts off. With several groups, input and output channels of a group must be multiples of lanes.
    """
    width_, vec = panel * lanes, lanes * 4
    step, tallest, sums_bytes = width_ * 4, heights[0], tile_bytes(heights, panel, lanes)
    plan, slots = row_plan(heights, panel), window_line(tallest)[1]
    plan_low, plan_high = plan.low, plan.high
    tiles = make_tiles(lanes, heights, panel, block, finish, None if whole else finish_tail)

    @merged
    def conv_transposed(
        x, x_image, x_block, x_row, x_column, height, width, blocks, w, images, groups, channels,
        kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w, top, left, out_h, out_w, y_block, scratch,
        operands, tid, nthreads,
    ):  # fmt: skip
        sums, scratch = scratch, scratch + sums_bytes
        panels, tap_bytes, y_step = (channels + width_ - 1) // width_, blocks * block * step, stride_w * vec
        panel_bytes = kernel_h * kernel_w * tap_bytes
        clear_zeros(scratch)
        chain = chain_terms(kernel_h * kernel_w * blocks * block, block) * step
        # A unit is one output row of one column phase.
        rows = out_h * min(stride_w, out_w)
        sweep = panel_group(panels, panel_bytes, rows * images * groups, nthreads, cache_bytes)
        sweeps = (panels + sweep - 1) // sweep
        unit, end = share(images * groups * sweeps * rows, 1, tid, nthreads)
        while unit < end:
            oy, phase = unit % rows % out_h, unit % rows // out_h
            first, which = unit // rows % sweeps * sweep, unit // rows // sweeps
            last = min(first + sweep, panels)
            image, group = which // groups, which % groups
            source = x + image * x_image + group * blocks * x_block
            weights = w + (group * panels + first) * panel_bytes
            swept, column, valid = last - first, group * channels * 4 + first * step, channels - first * width_
            plane = (group * channels // lanes + first * panel) * y_block
            taps = set_phase(
                scratch, oy, phase, kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w, top, left, tap_bytes
            )
            table = scratch + ZERO_BYTES + taps * TAP_BYTES
            n, columns = 0, (out_w - phase + stride_w - 1) // stride_w
            while n < columns:
                choice = pick_height(columns - n, tallest, plan_low, plan_high)
                lines = fill_window(
                    scratch, taps, source, x_block, x_row, x_column, height, width, 1, 1, 0, 0, columns, n,
                    min(tallest, columns - n), slots,
                )  # fmt: skip
                count = tiles(
                    choice, table, lines, blocks, weights, panel_bytes, swept, weights, sums, chain, operands, image,
                    plane + (oy * out_w + phase + n * stride_w) * vec, y_step, y_block, column, valid,
                )  # fmt: skip
                n += count
            unit += 1

    return conv_transposed
