"""3x3 convolution of stride 1 by Winograd's minimal filtering, F(2x2, 3x3) and F(4x4, 3x3), on the blocked layout.

A tile of m x m outputs needs (m + 2)^2 inputs, its positions. Block of tiles by block of tiles: transform the inputs,
multiply each position's [tiles, input channels] with its weights as one batched GEMM, transform back and finish. That
takes (m + 2)^2 multiplications a tile, input and output channel instead of 9 m^2. Matrices, packed weights and their
sources are in `winograd_packing`. An output does not depend on how tiles are blocked or shared.

An infinity or NaN in the input makes its whole tile NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from jitopt_kernels.abi import share
from jitopt_kernels.gemm import make_gemm
from jitopt_kernels.packing import LINE_BYTES, tile_bytes
from jitopt_kernels.simd import inlined, load, prefetch, splat, store, tail_mask
from jitopt_kernels.tiling import merged
from jitopt_kernels.winograd_packing import TAPS

from .winograd_lines import make_input_line, make_output_line

FEW_TILES = 16  # with fewer tiles a thread, threads share the output channels instead


def make_winograd(
    *, lanes: int, heights: tuple[int, ...], panel: int, outputs: int, finish: Any, finish_tail: Any
) -> Callable[..., None]:
    """A Winograd kernel of tiles of `outputs` x `outputs`, 2 or 4.

    Arguments, in order (strides in bytes):
        x, x_image, x_block, x_row      blocked input: image, channel block and row strides
        height, width, blocks           its extents; blocks of input channels
        w                               weights packed by `winograd_packing.pack_winograd`
        images, channels                batch, output channels
        top, left                       padding
        out_h, out_w, y_block           output extents and the stride of its channel blocks
        most                            the most tiles of a block
        scratch                         this thread's scratch (`winograd_packing.winograd_scratch`)
        operands, tid, nthreads
    finish gets offset = channel block * y_block + position * lanes * 4.
    """
    side, vec, width_ = outputs + TAPS - 1, lanes * 4, panel * lanes
    positions = side * side
    square, line_blocks = positions * vec, max(LINE_BYTES // vec, 1)
    sums_bytes = tile_bytes(heights, panel, lanes)
    transform, product = _make_input(lanes, outputs), _make_product(lanes, heights, panel)
    restore = _make_output(lanes, outputs, finish, finish_tail)

    @merged
    def winograd(
        x, x_image, x_block, x_row, height, width, blocks, w, images, channels, top, left, out_h, out_w, y_block,
        most, scratch, operands, tid, nthreads,
    ):  # fmt: skip
        rows, columns = (out_h + outputs - 1) // outputs, (out_w + outputs - 1) // outputs
        tiles, depth, panels = images * rows * columns, blocks * vec, (channels + width_ - 1) // width_
        panel_bytes, product_bytes = depth * width_, panels * width_ * 4
        # A line more a position: powers of two would meet in few sets of the cache.
        v_step, m_step = depth + LINE_BYTES, product_bytes + LINE_BYTES
        v_tile, m_tile = positions * v_step, positions * m_step
        sums = scratch + 2 * square
        v = sums + sums_bytes
        m = v + most * v_tile
        # Shares are ranges of tiles; where those are few, of panels too.
        cuts = 1 if tiles >= FEW_TILES * nthreads else min(panels, nthreads)
        parts = nthreads // cuts
        tile, end = share(tiles, 1, tid // cuts, parts) if tid < parts * cuts else (0, 0)
        first, last = share(panels, 1, tid % cuts, cuts)
        rounds = (end - tile + most - 1) // most
        each = (end - tile + rounds - 1) // max(rounds, 1)
        while tile < end:
            count = min(each, end - tile)
            for block in range(0, blocks, line_blocks):
                there = min(line_blocks, blocks - block)
                for t in range(count):
                    q, p, image = (tile + t) % columns, (tile + t) // columns % rows, (tile + t) // columns // rows
                    y, z = p * outputs - top, q * outputs - left
                    source = x + image * x_image + block * x_block + y * x_row + z * vec
                    at = v + t * v_tile + block * vec
                    transform(source, x_block, x_row, there, y, z, height, width, at, v_step, scratch)
            product(
                v, v_step, v_tile, w + first * panel_bytes, panels * panel_bytes, m, m_step, m_tile, positions, count,
                (last - first) * width_, blocks * lanes, sums,
            )  # fmt: skip
            stop = min(last * panel, (channels + lanes - 1) // lanes)
            for block in range(first * panel, stop, line_blocks):
                there = min(line_blocks, stop - block)
                for t in range(count):
                    q, p, image = (tile + t) % columns, (tile + t) // columns % rows, (tile + t) // columns // rows
                    restore(
                        m + t * m_tile + (block - first * panel) * vec, m_step, out_w, y_block, there,
                        min(outputs, out_h - p * outputs), min(outputs, out_w - q * outputs), scratch, operands, image,
                        block * y_block + (p * out_w + q) * outputs * vec, block * vec, channels - block * lanes,
                    )  # fmt: skip
            tile += count

    return winograd


@inlined
def _store_product(v, image, offset, column, operands):
    """The epilogue of the batched GEMM; its image is the position."""
    store(operands[0] + image * operands[1] + offset, v)


@cache
def _make_product(lanes: int, heights: tuple[int, ...], panel: int) -> Any:
    """product(v, v_step, v_tile, w, w_step, m, m_step, m_tile, positions, tiles, columns, depth, sums): M = V x W for
    every position; `sums` is memory for the sums of finished chains, `tile_bytes` of it. It does not depend
    on the epilogue, so a process compiles it once."""
    gemm = make_gemm(
        lanes=lanes, heights=heights, panel=panel, finish=_store_product, finish_tail=None, whole=True, single_row=False
    )

    @inlined
    def product(v, v_step, v_tile, w, w_step, m, m_step, m_tile, positions, tiles, columns, depth, sums):
        gemm(
            v, v_step, 0, v_tile, w, w_step, 0, 0, positions, 1, tiles, columns, depth, 0, m_tile, sums, (m, m_step),
            0, 1,
        )  # fmt: skip

    return product


@cache
def _make_input(lanes: int, outputs: int) -> Any:
    """transform(...): B^T d B of one tile, `blocks` channel blocks.

    x                  the tile's first input, which may lie outside the image; y, z are its row and column
    v, v_step          where position 0 goes, and the step between positions
    scratch            two squares of side x side Vecs
    """
    side, vec = outputs + TAPS - 1, lanes * 4
    row_bytes, square = side * vec, side * side * vec
    line = make_input_line(lanes, outputs)
    ahead, ahead_lines = 2 * outputs * vec, max(outputs * vec // LINE_BYTES, 1)  # the tile after the next of this row

    @inlined
    def transform(x, x_block, x_row, blocks, y, z, height, width, v, v_step, scratch):
        top, bottom, left, right = max(-y, 0), min(side, height - y), max(-z, 0), min(side, width - z)
        inside = top == 0 and bottom == side and left == 0 and right == side
        patch, half = scratch, scratch + square
        if not inside:
            for at in range(0, square, vec):
                store(patch + at, splat(0.0, "float32", lanes))
        for _ in range(blocks):
            source, step = x, x_row
            if not inside:
                for r in range(top, bottom):
                    for c in range(left, right):
                        store(patch + r * row_bytes + c * vec, load(x + r * x_row + c * vec, "float32", lanes))
                source, step = patch, row_bytes
            for r in range(side):
                line(source + r * step, vec, half + r * row_bytes, vec)
                prefetch(x + r * x_row + ahead, ahead_lines)
            for c in range(side):
                line(half + c * vec, row_bytes, v + c * v_step, side * v_step)
            x += x_block
            v += vec

    return transform


def _make_output(lanes: int, outputs: int, finish: Any, finish_tail: Any) -> Any:
    """restore(...): A^T M A of a tile of which `rows` x `columns` outputs exist, and the epilogue.

    m, m_step                where position 0 lies, and the step between positions
    blocks                   channel blocks to do
    offset, column, valid    of the first output; byte offset in per-channel operands; channels from there on
    """
    side, vec = outputs + TAPS - 1, lanes * 4
    row_bytes = side * vec
    line = make_output_line(lanes, outputs)

    @inlined
    def restore(m, m_step, out_w, y_block, blocks, rows, columns, scratch, operands, image, offset, column, valid):
        done = scratch + side * row_bytes
        for _ in range(blocks):
            for c in range(side):
                line(m + c * m_step, side * m_step, scratch + c * vec, row_bytes)
            for r in range(rows):
                line(scratch + r * row_bytes, vec, done, vec)
                for c in range(columns):
                    value, at = load(done + c * vec, "float32", lanes), offset + (r * out_w + c) * vec
                    if valid >= lanes:
                        finish(value, image, at, column, operands)
                    else:
                        finish_tail(value, image, at, column, operands, tail_mask(valid, lanes))
            m += vec
            offset += y_block
            column += vec
            valid -= lanes

    return restore
