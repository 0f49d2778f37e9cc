"""Grouped convolution on the blocked layout for any number of channels a group.

Where groups are whole blocks of channels, `direct.make_conv` is faster. Here a block of output channels may hold
several groups, each reading its own range of input channels, which may start and end inside a block. Every group of a
block is a chain of multiply-adds of its own, computed in all lanes; the block takes each lane from its group's chain,
so one group's values never meet another's. Weights are packed by `packing.pack_grouped`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitopt_kernels.abi import share
from jitopt_kernels.packing import TAP_BYTES, ZERO_BYTES, window_line
from jitopt_kernels.simd import inlined, iota, load_scalar, tile_finish, tile_finish_tail, tile_zeros
from jitopt_kernels.simd.rows import rank1_rows, rows_advance, rows_load
from jitopt_kernels.simd.window import tile_select
from jitopt_kernels.tiling import block_rows, five, merged, pick_height, row_blocks, row_plan

from .window import clear_zeros, fill_window, set_taps


def make_grouped(
    *, lanes: int, heights: tuple[int, ...], block: int, finish: Any, finish_tail: Any
) -> Callable[..., None]:
    """A grouped convolution kernel; `block` is the c of a blocked input or 1 for single channels.

    Arguments, in order (strides in bytes):
        x, x_image, x_block, x_row, x_column   input: image, next `block` channels, row and column strides
        height, width, depth                   its extents; input channels of one group
        w, slots                               packed weights; the most groups a block of output channels holds
        images, groups, channels               batch, groups, output channels of one group
        kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w, top, left
        out_h, out_w, y_block
        scratch                                this thread's scratch (`packing.conv_scratch`)
        operands, tid, nthreads
    finish gets offset = channel block * y_block + position * lanes * 4.
    """
    vec, tallest = lanes * 4, heights[0]
    plan, slots_ = row_plan(heights, 1), window_line(tallest)[1]
    plan_low, plan_high = plan.low, plan.high
    tile0, tile1, tile2, tile3, tile4 = five(
        [_make_tile(lanes, height, block, slots_, finish, finish_tail) for height in heights]
    )

    @merged
    def grouped(
        x, x_image, x_block, x_row, x_column, height, width, depth, w, slots, images, groups, channels,
        kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w, top, left, out_h, out_w, y_block, scratch,
        operands, tid, nthreads,
    ):  # fmt: skip
        taps = set_taps(scratch, kernel_h, kernel_w, dilation_h, dilation_w, depth * vec)
        clear_zeros(scratch)
        total, positions, slot_bytes = groups * channels, out_h * out_w, taps * depth * vec
        out_blocks, chunks = (total + lanes - 1) // lanes, row_blocks(positions, tallest)
        unit, end = share(images * out_blocks * chunks, 1, tid, nthreads)
        while unit < end:
            count = min(chunks - unit % chunks, end - unit)
            position, stop = block_rows(unit % chunks, count, positions, tallest)
            out_block, image = unit // chunks % out_blocks, unit // chunks // out_blocks
            valid = total - out_block * lanes
            group = out_block * lanes // channels
            last = (out_block * lanes + min(valid, lanes) - 1) // channels
            weights, column = w + out_block * slots * slot_bytes, out_block * vec
            while position < stop:
                choice = pick_height(stop - position, tallest, plan_low, plan_high)
                lines = fill_window(
                    scratch, taps, x + image * x_image, x_block, x_row, x_column, height, width,
                    stride_h, stride_w, top, left, out_w, position, min(tallest, stop - position), slots_,
                )  # fmt: skip
                table, offset = scratch + ZERO_BYTES + taps * TAP_BYTES, out_block * y_block + position * vec
                rows, lane = 1, group * channels - out_block * lanes
                if choice == 0:
                    rows = tile0(
                        table, lines, depth, weights, slot_bytes, group, last, lane, channels, operands, image, offset,
                        column, valid,
                    )  # fmt: skip
                elif choice == 1:
                    rows = tile1(
                        table, lines, depth, weights, slot_bytes, group, last, lane, channels, operands, image, offset,
                        column, valid,
                    )  # fmt: skip
                elif choice == 2:
                    rows = tile2(
                        table, lines, depth, weights, slot_bytes, group, last, lane, channels, operands, image, offset,
                        column, valid,
                    )  # fmt: skip
                elif choice == 3:
                    rows = tile3(
                        table, lines, depth, weights, slot_bytes, group, last, lane, channels, operands, image, offset,
                        column, valid,
                    )  # fmt: skip
                else:
                    rows = tile4(
                        table, lines, depth, weights, slot_bytes, group, last, lane, channels, operands, image, offset,
                        column, valid,
                    )  # fmt: skip
                position += rows
            unit += count

    return grouped


def _make_tile(lanes: int, height: int, block: int, slots: int, finish: Any, finish_tail: Any) -> Any:
    """`height` output positions of one block of channels, group by group, then the epilogue. Returns height."""
    vec, line = lanes * 4, 16 * slots + 8

    @inlined
    def tile(
        table, lines, depth, w, slot_bytes, group, last, lane, channels, operands, image, offset, column, valid
    ):  # fmt: skip
        out = tile_zeros(height, 1, lanes)
        while group <= last:
            start = group * depth
            acc = tile_zeros(height, 1, lanes)
            for index in range(lines):
                at = table + index * line
                b, rows = w + load_scalar(at + 16 * slots, "int64"), rows_load(at, height)
                rows = rows_advance(rows, at + 8 * slots, start // block)
                low, left = start % block, depth
                while left > 0:
                    count = min(block - low, left)
                    for k in range(low, low + count):
                        acc = rank1_rows(acc, rows, 4 * k, b, vec)
                        b += vec
                    rows = rows_advance(rows, at + 8 * slots, 1)
                    low, left = 0, left - count
            mine = iota("int64", lanes)
            out = tile_select((mine >= lane) & (mine < lane + channels), acc, out)
            w += slot_bytes
            group += 1
            lane += channels
        if valid >= lanes:
            tile_finish(out, finish, operands, image, offset, vec, 0, column)
        else:
            tile_finish_tail(out, finish, finish_tail, operands, image, offset, vec, 0, column, valid)
        return height

    return tile
