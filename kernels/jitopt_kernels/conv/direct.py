"""Direct convolution with a fused epilogue: every kernel size, stride, dilation, padding and number of groups.

Output is blocked, [N][C / c][H][W][c]; input is blocked the same way (`block` = c) or has single channels anywhere
(`block` = 1: the first convolution of an image, read from NCHW or NHWC through its strides). Output positions are
numbered along the rows and cut into tiles regardless of where a row ends, so no width leaves one-column rests.

Weights are packed by `packing.pack_conv`. Loop order: group of panels that stay in cache, tile of positions (whose tap
table is made once), panel. An output element is one chain of multiply-adds over taps, then channels.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitopt_kernels.abi import share
from jitopt_kernels.packing import TAP_BYTES, ZERO_BYTES, window_line
from jitopt_kernels.simd import inlined, load_scalar, prefetch, tile_finish, tile_finish_tail, tile_zeros
from jitopt_kernels.simd.rows import rank1_rows, rows_advance, rows_load
from jitopt_kernels.tiling import CACHE_BYTES, block_rows, five, merged, panel_group, pick_height, row_blocks, row_plan

from .window import clear_zeros, fill_window, set_taps

LINE_BYTES = 64


def make_conv(
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
    """A convolution kernel for one tile shape, input layout and epilogue.

    `whole` promises that `channels` is a multiple of panel * lanes and leaves out the code for tails.

    Arguments, in order (strides in bytes):
        x, x_image, x_block, x_row, x_column   input: image, next `block` channels, row and column strides
        height, width, blocks                  its extents; blocks of channels of one group
        w                                      packed weights
        images, groups, channels               batch, convolution groups, output channels of one group
        kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w, top, left
        out_h, out_w, y_block                  output extents and the stride of its channel blocks
        scratch                                this thread's scratch (`packing.conv_scratch`)
        operands, tid, nthreads
    finish gets offset = channel block * y_block + position * lanes * 4. With several groups, `channels` must be a
    multiple of lanes, and the input channels of a group one of `block`.
    """
    width_, vec = panel * lanes, lanes * 4
    step, tallest = width_ * 4, heights[0]
    plan, slots = row_plan(heights, panel), window_line(tallest)[1]
    plan_low, plan_high = plan.low, plan.high
    tile0, tile1, tile2, tile3, tile4 = five(
        [make_tile(lanes, height, panel, block, slots, finish, None if whole else finish_tail) for height in heights]
    )

    @merged
    def conv(
        x, x_image, x_block, x_row, x_column, height, width, blocks, w, images, groups, channels,
        kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w, top, left, out_h, out_w, y_block, scratch,
        operands, tid, nthreads,
    ):  # fmt: skip
        panels, positions = (channels + width_ - 1) // width_, out_h * out_w
        tap_bytes = blocks * block * step
        taps = set_taps(scratch, kernel_h, kernel_w, dilation_h, dilation_w, tap_bytes)
        clear_zeros(scratch)
        table, panel_bytes = scratch + ZERO_BYTES + taps * TAP_BYTES, taps * tap_bytes
        chunks = row_blocks(positions, tallest)
        sweep = panel_group(panels, panel_bytes, chunks * images * groups, nthreads, cache_bytes)
        sweeps = (panels + sweep - 1) // sweep
        unit, end = share(images * groups * sweeps * chunks, 1, tid, nthreads)
        while unit < end:
            count = min(chunks - unit % chunks, end - unit)
            position, stop = block_rows(unit % chunks, count, positions, tallest)
            first, which = unit // chunks % sweeps * sweep, unit // chunks // sweeps
            last = min(first + sweep, panels)
            image, group = which // groups, which % groups
            source = x + image * x_image + group * blocks * x_block
            weights = w + (group * panels + first) * panel_bytes
            out_block, channel = group * channels // lanes, group * channels * 4
            # Tiles prefetch the panels of the next sweep, a cache line for each block of channels.
            ahead = weights + (last - first) * panel_bytes
            enough = ahead + (last - first) * panel_bytes
            while position < stop:
                choice = pick_height(stop - position, tallest, plan_low, plan_high)
                lines = fill_window(
                    scratch, taps, source, x_block, x_row, x_column, height, width,
                    stride_h, stride_w, top, left, out_w, position, min(tallest, stop - position), slots,
                )  # fmt: skip
                rows, b = 1, weights
                for p in range(first, last):
                    at, column = (out_block + p * panel) * y_block + position * vec, channel + p * step
                    valid = channels - p * width_
                    if choice == 0:
                        rows = tile0(table, lines, blocks, b, ahead, operands, image, at, vec, y_block, column, valid)
                    elif choice == 1:
                        rows = tile1(table, lines, blocks, b, ahead, operands, image, at, vec, y_block, column, valid)
                    elif choice == 2:
                        rows = tile2(table, lines, blocks, b, ahead, operands, image, at, vec, y_block, column, valid)
                    elif choice == 3:
                        rows = tile3(table, lines, blocks, b, ahead, operands, image, at, vec, y_block, column, valid)
                    else:
                        rows = tile4(table, lines, blocks, b, ahead, operands, image, at, vec, y_block, column, valid)
                    b += panel_bytes
                    ahead += lines * blocks * LINE_BYTES
                    if ahead >= enough:
                        ahead = b
                position += rows
            unit += count

    return conv


def make_tile(lanes: int, height: int, panel: int, block: int, slots: int, finish: Any, finish_tail: Any) -> Any:
    """One register tile: `height` output positions times one panel of channels, then the epilogue. Returns height.

    finish_tail is None where every panel is whole.
    """
    vec, step, line = lanes * 4, panel * lanes * 4, 16 * slots + 8
    whole = finish_tail is None

    @inlined
    def tile(table, lines, blocks, b, ahead, operands, image, offset, y_step, y_block, column, valid):
        acc = tile_zeros(height, panel, lanes)
        for index in range(lines):
            at = table + index * line
            w, rows = b + load_scalar(at + 16 * slots, "int64"), rows_load(at, height)
            for _ in range(blocks):
                for k in range(block):
                    acc = rank1_rows(acc, rows, 4 * k, w + k * step, vec)
                rows = rows_advance(rows, at + 8 * slots, 1)
                w += block * step
                prefetch(ahead)
                ahead += LINE_BYTES
        if whole or valid >= panel * lanes:
            tile_finish(acc, finish, operands, image, offset, y_step, y_block, column)
        else:
            tile_finish_tail(acc, finish, finish_tail, operands, image, offset, y_step, y_block, column, valid)
        return height

    return tile
