"""Grouped convolution on the blocked layout for any number of channels a group.

Where groups are whole blocks of channels, `direct.make_conv` is faster. Here a panel of output channels may hold
several groups, each reading its own range of input channels, which may start and end inside a block. Every group of a
panel is a chain of multiply-adds of its own, computed in all lanes; the panel takes each lane from its group's chain,
so one group's values never meet another's. Weights are packed by `packing.pack_grouped`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitopt_kernels.abi import share
from jitopt_kernels.packing import TAP_BYTES, ZERO_BYTES, window_line
from jitopt_kernels.simd import inlined, load_scalar, tile_finish, tile_finish_tail, tile_zeros
from jitopt_kernels.simd.rows import rank_rows, rows_advance, rows_load
from jitopt_kernels.simd.window import tile_select
from jitopt_kernels.tiling import (
    CACHE_BYTES,
    block_rows,
    five,
    merged,
    panel_group,
    pick_height,
    row_blocks,
    row_plan,
)

from .window import clear_zeros, fill_window, set_taps


def make_grouped(
    *, lanes: int, heights: tuple[int, ...], panel: int, block: int, finish: Any, finish_tail: Any
) -> Callable[..., None]:
    """A grouped convolution kernel; `block` is the c of a blocked input or 1 for single channels.

    Arguments, in order (strides in bytes):
        x, x_image, x_block, x_row, x_column   input: image, next `block` channels, row and column strides
        height, width, depth                   its extents; input channels of one group
        w, slots                               packed weights; `packing.grouped_slots`
        images, groups, channels               batch, groups, output channels of one group
        kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w, top, left
        out_h, out_w, y_block
        scratch                                this thread's scratch (`packing.conv_scratch`)
        operands, tid, nthreads
    finish gets offset = channel block * y_block + position * lanes * 4.
    """
    width_, vec, tallest = panel * lanes, lanes * 4, heights[0]
    step = width_ * 4
    plan, slots_ = row_plan(heights, panel), window_line(tallest)[1]
    plan_low, plan_high = plan.low, plan.high
    tile0, tile1, tile2, tile3, tile4 = five(
        [_make_tile(lanes, height, panel, block, slots_, finish, finish_tail) for height in heights]
    )

    @merged
    def grouped(
        x, x_image, x_block, x_row, x_column, height, width, depth, w, slots, images, groups, channels,
        kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w, top, left, out_h, out_w, y_block, scratch,
        operands, tid, nthreads,
    ):  # fmt: skip
        taps = set_taps(scratch, kernel_h, kernel_w, dilation_h, dilation_w, depth * step)
        clear_zeros(scratch)
        total, positions, slot_bytes = groups * channels, out_h * out_w, taps * depth * step
        panels, chunks = (total + width_ - 1) // width_, row_blocks(positions, tallest)
        panel_bytes, table = slots * slot_bytes, scratch + ZERO_BYTES + taps * TAP_BYTES
        sweep = panel_group(panels, panel_bytes, chunks * images, nthreads, CACHE_BYTES)
        sweeps = (panels + sweep - 1) // sweep
        unit, end = share(images * sweeps * chunks, 1, tid, nthreads)
        while unit < end:
            count = min(chunks - unit % chunks, end - unit)
            position, stop = block_rows(unit % chunks, count, positions, tallest)
            first, image = unit // chunks % sweeps * sweep, unit // chunks // sweeps
            last, weights = min(first + sweep, panels), w + first * panel_bytes
            while position < stop:
                choice = pick_height(stop - position, tallest, plan_low, plan_high)
                lines = fill_window(
                    scratch, taps, x + image * x_image, x_block, x_row, x_column, height, width,
                    stride_h, stride_w, top, left, out_w, position, min(tallest, stop - position), slots_,
                )  # fmt: skip
                y = first * panel * y_block + position * vec
                if choice == 0:
                    position += tile0(
                        table, lines, depth, weights, panel_bytes, slot_bytes, first, last, channels, total,
                        operands, image, y, y_block,
                    )  # fmt: skip
                elif choice == 1:
                    position += tile1(
                        table, lines, depth, weights, panel_bytes, slot_bytes, first, last, channels, total,
                        operands, image, y, y_block,
                    )  # fmt: skip
                elif choice == 2:
                    position += tile2(
                        table, lines, depth, weights, panel_bytes, slot_bytes, first, last, channels, total,
                        operands, image, y, y_block,
                    )  # fmt: skip
                elif choice == 3:
                    position += tile3(
                        table, lines, depth, weights, panel_bytes, slot_bytes, first, last, channels, total,
                        operands, image, y, y_block,
                    )  # fmt: skip
                else:
                    position += tile4(
                        table, lines, depth, weights, panel_bytes, slot_bytes, first, last, channels, total,
                        operands, image, y, y_block,
                    )  # fmt: skip
            unit += count

    return grouped


def _make_tile(lanes: int, height: int, panel: int, block: int, slots: int, finish: Any, finish_tail: Any) -> Any:
    """`height` output positions of panels first .. last, group by group, then the epilogue. Returns height."""
    width, vec, line = panel * lanes, lanes * 4, 16 * slots + 8
    step = width * 4

    @inlined
    def tile(
        table, lines, depth, w, panel_bytes, slot_bytes, first, last, channels, total, operands, image, offset, y_block
    ):  # fmt: skip
        for p in range(first, last):
            valid, slot = min(total - p * width, width), w
            out = tile_zeros(height, panel, lanes)
            for group in range(p * width // channels, (p * width + valid - 1) // channels + 1):
                start = group * depth
                acc = tile_zeros(height, panel, lanes)
                for index in range(lines):
                    at = table + index * line
                    b, rows = slot + load_scalar(at + 16 * slots, "int64"), rows_load(at, height)
                    rows = rows_advance(rows, at + 8 * slots, start // block)
                    low, left = start % block, depth
                    while left > 0:
                        if low == 0 and left >= block:
                            acc = rank_rows(acc, rows, 0, b, block)
                            b += block * step
                            left -= block
                        else:
                            count = min(block - low, left)
                            for k in range(low, low + count):
                                acc = rank_rows(acc, rows, 4 * k, b, 1)
                                b += step
                            low, left = 0, left - count
                        rows = rows_advance(rows, at + 8 * slots, 1)
                from_ = group * channels - p * width
                out = tile_select(from_, from_ + channels, acc, out)
                slot += slot_bytes
            if valid == width:
                tile_finish(out, finish, operands, image, offset, vec, y_block, p * step)
            else:
                tile_finish_tail(out, finish, finish_tail, operands, image, offset, vec, y_block, p * step, valid)
            w += panel_bytes
            offset += panel * y_block
        return height

    return tile
