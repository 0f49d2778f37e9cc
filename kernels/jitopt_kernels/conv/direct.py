"""Direct convolution with a fused epilogue: every kernel size, stride, dilation, padding and number of groups.

Output is blocked, [N][C / c][H][W][c]; input is blocked the same way (`block` = c) or has single channels anywhere
(`block` = 1: the first convolution of an image, read from NCHW or NHWC through its strides). Output positions are
numbered along the rows and cut into tiles regardless of where a row ends, so no width leaves one-column rests.

Weights are packed by `packing.pack_conv`. Loop order: group of panels that stay in cache, tile of positions (whose tap
table is made once), panel. An output element is the sum of chains of multiply-adds over taps, then channels
(`tiling.chain_terms`), whatever the tile and the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitopt_kernels.abi import share
from jitopt_kernels.packing import LINE_BYTES, TAP_BYTES, ZERO_BYTES, tile_bytes, window_line
from jitopt_kernels.simd import inlined, load_scalar, prefetch, tile_finish, tile_finish_tail, tile_zeros
from jitopt_kernels.simd.partial import tile_plus, tile_store
from jitopt_kernels.simd.rows import rank_rows, rows_advance, rows_load
from jitopt_kernels.tiling import (
    CACHE_BYTES,
    block_rows,
    chain_terms,
    five,
    merged,
    panel_group,
    pick_height,
    row_blocks,
    row_plan,
)

from .window import clear_zeros, fill_window, set_taps

FEW_POSITIONS = 49  # the maps on which the next weights should arrive in time: 7 x 7


def make_conv(
    *,
    lanes: int,
    heights: tuple[int, ...],
    panel: int,
    block: int,
    finish: Any,
    finish_tail: Any,
    prepare: Any = None,
    whole: bool = False,
    cache_bytes: int = CACHE_BYTES,
) -> Callable[..., None]:
    """A convolution kernel for one tile shape, input layout and epilogue.

    `prepare(image, offset, operands)`, if given, is called for each channel block of a tile before its sums are begun.
    `whole` promises that `channels` is a multiple of panel * lanes and leaves out the code for tails.

    Arguments, in order (strides in bytes):
        x, x_image, x_block, x_row, x_column   input: image, next `block` channels, row and column strides
        height, width, blocks                  its extents; blocks of channels of one group
        w                                      packed weights
        images, groups, channels               batch, convolution groups, output channels of one group
        kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w, top, left
        out_h, out_w, y_block                  output extents and the stride of its channel blocks
        scratch                                this thread's scratch (`packing.tile_bytes`, `packing.conv_scratch`)
        operands, tid, nthreads
    finish gets offset = channel block * y_block + position * lanes * 4. With several groups, `channels` must be a
    multiple of lanes, and the input channels of a group one of `block`.
    """
    width_, vec = panel * lanes, lanes * 4
    step, tallest, sums_bytes = width_ * 4, heights[0], tile_bytes(heights, panel, lanes)
    line_bytes = LINE_BYTES * prefetches_of(heights, panel, block, lanes)
    plan, slots = row_plan(heights, panel), window_line(tallest)[1]
    plan_low, plan_high = plan.low, plan.high
    tiles = make_tiles(lanes, heights, panel, block, finish, None if whole else finish_tail, prepare)

    @merged
    def conv(
        x, x_image, x_block, x_row, x_column, height, width, blocks, w, images, groups, channels,
        kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w, top, left, out_h, out_w, y_block, scratch,
        operands, tid, nthreads,
    ):  # fmt: skip
        sums, scratch = scratch, scratch + sums_bytes
        panels, positions = (channels + width_ - 1) // width_, out_h * out_w
        tap_bytes = blocks * block * step
        taps = set_taps(scratch, kernel_h, kernel_w, dilation_h, dilation_w, tap_bytes)
        clear_zeros(scratch)
        chain = chain_terms(taps * blocks * block, block) * step
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
            swept, column, valid = last - first, group * channels * 4 + first * step, channels - first * width_
            plane = (group * channels // lanes + first * panel) * y_block
            # Tiles prefetch the panels of the next sweep.
            ahead, enough = weights + swept * panel_bytes, weights + 2 * swept * panel_bytes
            while position < stop:
                choice = pick_height(stop - position, tallest, plan_low, plan_high)
                lines = fill_window(
                    scratch, taps, source, x_block, x_row, x_column, height, width,
                    stride_h, stride_w, top, left, out_w, position, min(tallest, stop - position), slots,
                )  # fmt: skip
                rows = tiles(
                    choice, table, lines, blocks, weights, panel_bytes, swept, ahead, sums, chain, operands, image,
                    plane + position * vec, vec, y_block, column, valid,
                )  # fmt: skip
                position += rows
                ahead += swept * lines * blocks * line_bytes
                if ahead >= enough:
                    ahead = weights
            unit += count

    return conv


def prefetches_of(heights: tuple[int, ...], panel: int, block: int, lanes: int) -> int:
    """Cache lines to prefetch for each block of channels, so that few positions suffice to bring all of a sweep."""
    weights = block * panel * lanes * 4
    return max(round(weights / LINE_BYTES * heights[0] / FEW_POSITIONS), 1)


def make_tiles(
    lanes: int, heights: tuple[int, ...], panel: int, block: int, finish: Any, finish_tail: Any, prepare: Any = None
) -> Callable[..., int]:
    """tiles(choice, ...): the tile of height number `choice`; returns its height. Arguments as `make_tile` lists."""
    tile0, tile1, tile2, tile3, tile4 = five(
        [make_tile(lanes, heights, height, panel, block, finish, finish_tail, prepare) for height in heights]
    )

    @merged
    def tiles(
        choice, table, lines, blocks, b, b_panel, count, ahead, sums, chain, operands, image, offset, y_step, y_block,
        column, valid,
    ):  # fmt: skip
        if choice == 0:
            return tile0(
                table, lines, blocks, b, b_panel, count, ahead, sums, chain, operands, image, offset, y_step, y_block,
                column, valid,
            )  # fmt: skip
        if choice == 1:
            return tile1(
                table, lines, blocks, b, b_panel, count, ahead, sums, chain, operands, image, offset, y_step, y_block,
                column, valid,
            )  # fmt: skip
        if choice == 2:
            return tile2(
                table, lines, blocks, b, b_panel, count, ahead, sums, chain, operands, image, offset, y_step, y_block,
                column, valid,
            )  # fmt: skip
        if choice == 3:
            return tile3(
                table, lines, blocks, b, b_panel, count, ahead, sums, chain, operands, image, offset, y_step, y_block,
                column, valid,
            )  # fmt: skip
        return tile4(
            table, lines, blocks, b, b_panel, count, ahead, sums, chain, operands, image, offset, y_step, y_block,
            column, valid,
        )  # fmt: skip

    return tiles


def make_tile(
    lanes: int,
    heights: tuple[int, ...],
    height: int,
    panel: int,
    block: int,
    finish: Any,
    finish_tail: Any,
    prepare: Any = None,
) -> Any:
    """`height` output positions times `count` panels of channels, one register tile each. Returns height.

    table, lines         the tap table and how many lines it has
    blocks               blocks of input channels
    b, b_panel, count    weights of the first panel, bytes of a panel, number of panels
    ahead                what to prefetch, some cache lines for each block of channels
    sums, chain          memory for a tile's finished chains; a chain's bytes of weights
    image, offset        where the first output lies; y_step and y_block are the steps between positions and blocks
    column, valid        byte offset of the first channel in per-channel operands; channels that exist from there on

    finish_tail is None where every panel is whole, prepare where nothing is asked for ahead.
    """
    slots = window_line(heights[0])[1]
    step, line = panel * lanes * 4, 16 * slots + 8
    whole, prefetches = finish_tail is None, prefetches_of(heights, panel, block, lanes)

    @inlined
    def tile(
        table, lines, blocks, b, b_panel, count, ahead, sums, chain, operands, image, offset, y_step, y_block, column,
        valid,
    ):  # fmt: skip
        for _ in range(count):
            if prepare is not None:
                for j in range(panel):
                    prepare(image, offset + j * y_block, operands)
            acc, cut = tile_zeros(height, panel, lanes), chain  # a chain ends where the weights' offset is `cut`
            for index in range(lines):
                at = table + index * line
                w, rows = load_scalar(at + 16 * slots, "int64"), rows_load(at, height)
                end = w + blocks * (block * step)
                while w < end:
                    if w >= cut:
                        if cut > chain:
                            acc = tile_plus(acc, sums)
                        tile_store(acc, sums)
                        acc = tile_zeros(height, panel, lanes)
                        while cut <= w:
                            cut += chain
                    stop = min(end, cut)
                    while w < stop:
                        acc = rank_rows(acc, rows, 0, b + w, block)
                        rows = rows_advance(rows, at + 8 * slots, 1)
                        w += block * step
                        prefetch(ahead, prefetches)
                        ahead += prefetches * LINE_BYTES
            if cut > chain:
                acc = tile_plus(acc, sums)
            if whole or valid >= panel * lanes:
                tile_finish(acc, finish, operands, image, offset, y_step, y_block, column)
            else:
                tile_finish_tail(acc, finish, finish_tail, operands, image, offset, y_step, y_block, column, valid)
            b += b_panel
            offset += panel * y_block
            column += step
            valid -= panel * lanes
        return height

    return tile
