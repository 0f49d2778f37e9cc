"""The first convolution of an image: one to a few input channels read where they lie (NCHW, NHWC), blocked output.

k runs over taps, then channels, and is a list in scratch: for each k how far its element lies from a position's first
one. A tile of positions side by side whose windows lie inside the image reads them by one address, the list and the
step between positions; any other tile first writes the address of every element it reads, zeros for the padding.
Weights are packed by `packing.pack_conv` with block 1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitopt_kernels.abi import share
from jitopt_kernels.packing import TAP_BYTES, ZERO_BYTES, window_line
from jitopt_kernels.simd import (
    inlined,
    load_scalar,
    rank1,
    select,
    store,
    store_scalar,
    tile_finish,
    tile_finish_tail,
    tile_zeros,
)
from jitopt_kernels.simd.rows import rank_rows, rows_load
from jitopt_kernels.tiling import CACHE_BYTES, block_rows, five, merged, panel_group, pick_height, row_blocks, row_plan

from .window import clear_zeros, positions_of


@inlined
def list_elements(scratch, kernel_h, kernel_w, dilation_h, dilation_w, depth, x_channel, x_row, x_column):
    """List every k in scratch: row and column offset, distance in bytes from a position's first element."""
    at = scratch + ZERO_BYTES
    for i in range(kernel_h):
        for j in range(kernel_w):
            p, q = i * dilation_h, j * dilation_w
            for channel in range(depth):
                store_scalar(at, p)
                store_scalar(at + 8, q)
                store_scalar(at + 16, p * x_row + q * x_column + channel * x_channel)
                at += TAP_BYTES
    return at


@inlined
def write_addresses(
    scratch, table, x, x_row, x_column, height, width, stride_h, stride_w, top, left, out_w, first, rows, slots
):
    """Write `slots` addresses for every k of output positions first .. first + rows (as `window.fill_window` does)."""
    p, q, exists = positions_of(first, out_w, rows, slots)
    p, q = p * stride_h - top, q * stride_w - left
    base, at, to = p * x_row + q * x_column + x, scratch + ZERO_BYTES, table
    while at < table:
        i, j = p + load_scalar(at, "int64"), q + load_scalar(at + 8, "int64")
        inside = exists & (i >= 0) & (i < height) & (j >= 0) & (j < width)
        store(to, select(inside, base + load_scalar(at + 16, "int64"), scratch))
        at += TAP_BYTES
        to += 8 * slots


def make_stem(
    *,
    lanes: int,
    heights: tuple[int, ...],
    panel: int,
    finish: Any,
    finish_tail: Any,
    whole: bool = False,
    cache_bytes: int = CACHE_BYTES,
) -> Callable[..., None]:
    """A first convolution's kernel. `whole` promises that `channels` is a multiple of panel * lanes.

    Arguments, in order (strides in bytes):
        x, x_image, x_channel, x_row, x_column   input
        height, width, depth                     its extents and channels
        w, images, channels                      packed weights, batch, output channels
        kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w, top, left
        out_h, out_w, y_block                    output extents and the stride of its channel blocks
        scratch                                  this thread's scratch (`packing.stem_scratch`)
        operands, tid, nthreads
    finish gets offset = channel block * y_block + position * lanes * 4.
    """
    width_, vec = panel * lanes, lanes * 4
    step, tallest = width_ * 4, heights[0]
    plan, slots = row_plan(heights, panel), window_line(tallest)[1]
    plan_low, plan_high = plan.low, plan.high
    tail = None if whole else finish_tail
    edge0, edge1, edge2, edge3, edge4 = five(
        [_make_edge(lanes, height, panel, slots, finish, tail) for height in heights]
    )
    inner = _make_inner(lanes, tallest, panel, finish, tail)

    @merged
    def stem(
        x, x_image, x_channel, x_row, x_column, height, width, depth, w, images, channels,
        kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w, top, left, out_h, out_w, y_block, scratch,
        operands, tid, nthreads,
    ):  # fmt: skip
        table = list_elements(scratch, kernel_h, kernel_w, dilation_h, dilation_w, depth, x_channel, x_row, x_column)
        clear_zeros(scratch)
        panels, positions, panel_bytes = (
            (channels + width_ - 1) // width_,
            out_h * out_w,
            kernel_h * kernel_w * depth * step,
        )
        reach_h, reach_w = (kernel_h - 1) * dilation_h, (tallest - 1) * stride_w + (kernel_w - 1) * dilation_w
        chunks, along = row_blocks(positions, tallest), stride_w * x_column
        sweep = panel_group(panels, panel_bytes, chunks * images, nthreads, cache_bytes)
        sweeps = (panels + sweep - 1) // sweep
        unit, end = share(images * sweeps * chunks, 1, tid, nthreads)
        while unit < end:
            count = min(chunks - unit % chunks, end - unit)
            position, stop = block_rows(unit % chunks, count, positions, tallest)
            first, image = unit // chunks % sweeps * sweep, unit // chunks // sweeps
            swept, weights, source = min(sweep, panels - first), w + first * panel_bytes, x + image * x_image
            plane, column, valid = first * panel * y_block, first * step, channels - first * width_
            while position < stop:
                choice, at = pick_height(stop - position, tallest, plan_low, plan_high), plane + position * vec
                r = position // out_w
                p, q = r * stride_h - top, (position - r * out_w) * stride_w - left
                beside = choice == 0 and position - r * out_w + tallest <= out_w
                if beside and p >= 0 and p + reach_h < height and q >= 0 and q + reach_w < width:
                    position += inner(
                        scratch, table, source + p * x_row + q * x_column, along, weights, panel_bytes, swept,
                        operands, image, at, y_block, column, valid,
                    )  # fmt: skip
                else:
                    write_addresses(
                        scratch, table, source, x_row, x_column, height, width, stride_h, stride_w, top, left, out_w,
                        position, min(tallest, stop - position), slots,
                    )  # fmt: skip
                    if choice == 0:
                        position += edge0(
                            table, weights, panel_bytes, swept, operands, image, at, y_block, column, valid
                        )
                    elif choice == 1:
                        position += edge1(
                            table, weights, panel_bytes, swept, operands, image, at, y_block, column, valid
                        )
                    elif choice == 2:
                        position += edge2(
                            table, weights, panel_bytes, swept, operands, image, at, y_block, column, valid
                        )
                    elif choice == 3:
                        position += edge3(
                            table, weights, panel_bytes, swept, operands, image, at, y_block, column, valid
                        )
                    else:
                        position += edge4(
                            table, weights, panel_bytes, swept, operands, image, at, y_block, column, valid
                        )
            unit += count

    return stem


def _make_inner(lanes: int, height: int, panel: int, finish: Any, finish_tail: Any) -> Any:
    """`height` positions side by side, `along` bytes apart, all inside: times `count` panels. Returns height.

    finish_tail is None where every panel is whole.
    """
    vec, step, whole = lanes * 4, panel * lanes * 4, finish_tail is None

    @inlined
    def inner(scratch, table, x, along, b, b_panel, count, operands, image, offset, y_block, column, valid):
        for _ in range(count):
            acc, w, at = tile_zeros(height, panel, lanes), b, scratch + (ZERO_BYTES + 16)
            while at < table:
                acc = rank1(acc, x + load_scalar(at, "int64"), along, w, vec)
                at += TAP_BYTES
                w += step
            if whole or valid >= panel * lanes:
                tile_finish(acc, finish, operands, image, offset, vec, y_block, column)
            else:
                tile_finish_tail(acc, finish, finish_tail, operands, image, offset, vec, y_block, column, valid)
            b += b_panel
            offset += panel * y_block
            column += step
            valid -= panel * lanes
        return height

    return inner


def _make_edge(lanes: int, height: int, panel: int, slots: int, finish: Any, finish_tail: Any) -> Any:
    """`height` positions anywhere, read through the addresses in `table`: times `count` panels. Returns height."""
    vec, step, whole = lanes * 4, panel * lanes * 4, finish_tail is None

    @inlined
    def edge(table, b, b_panel, count, operands, image, offset, y_block, column, valid):
        for _ in range(count):
            acc, w, at = tile_zeros(height, panel, lanes), b, table
            while w < b + b_panel:
                acc = rank_rows(acc, rows_load(at, height), 0, w, 1)
                at += 8 * slots
                w += step
            if whole or valid >= panel * lanes:
                tile_finish(acc, finish, operands, image, offset, vec, y_block, column)
            else:
                tile_finish_tail(acc, finish, finish_tail, operands, image, offset, vec, y_block, column, valid)
            b += b_panel
            offset += panel * y_block
            column += step
            valid -= panel * lanes
        return height

    return edge
