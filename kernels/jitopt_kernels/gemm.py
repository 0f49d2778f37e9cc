"""GEMM: C[M, N] = A[M, K] x B[K, N] in float32 with a fused epilogue, over a two-level batch.

A is read in place with a run-time row stride. B is one of
    "packed"   a constant, packed once by `packing.pack_b` into column panels [ceil(N / width)][K][width], where
               width = panel * lanes, the last one padded with zero columns
    "rows"     row-major [K, N] with a run-time row stride
    "columns"  transposed, [N, K] with K contiguous and a run-time row stride (the keys of attention)
The last two are copied panel by panel into per-thread scratch where that pays (`gemm_copy`); "rows" is read in place
for few rows of A, or where B is small.
Nothing outside A and B is ever read.

Loop order: group of panels (as many as stay in cache), tile of rows, panel of the group. An output element is the sum
of chains of multiply-adds over ascending k (`tiling.chain_terms`), whatever the tile and the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .abi import share
from .gemm_copy import make_copy
from .packing import LINE_BYTES, ONE_CHAIN, SCRATCH_PANELS, WIDE_PANELS, tile_bytes
from .simd import (
    inlined,
    prefetch,
    rank1,
    tile_finish,
    tile_finish_tail,
    tile_zeros,
)
from .simd.partial import tile_plus, tile_store
from .tiling import CACHE_BYTES, block_rows, chain_terms, five, merged, panel_group, pick_height, row_blocks, row_plan

DEPTH = 4  # k steps unrolled in a tile
AHEAD = 4  # such groups of k steps from a prefetched row of a packed panel to its use
IN_PLACE_BYTES = 24 * 1024  # rows of B that the first cache holds are read in place
LAYOUTS = ("packed", "rows", "columns")


def make_gemm(
    *,
    lanes: int,
    heights: tuple[int, ...],
    panel: int,
    finish: Any,
    finish_tail: Any,
    layout: str = "packed",
    whole: bool = False,
    single_row: bool = True,
    cache_bytes: int = CACHE_BYTES,
) -> Callable[..., None]:
    """A GEMM kernel for one tile shape and epilogue; all extents and strides are run-time arguments.

    `whole` promises that n is a multiple of panel * lanes and leaves out the code for tails; without `single_row` the
    faster form for one row of A (a matrix-vector product) is left out, too: both save compile time.

    Arguments, in order (strides in bytes; batch (i, j) has i < outer, j < inner):
        a, a_outer, a_inner, a_row     A of batch (i, j), row r, at a + i * a_outer + j * a_inner + r * a_row
        b, b_outer, b_inner, b_row     B likewise; b_row is the row stride of "rows" and "columns" (0 for "packed")
        outer, inner, m, n, k          extents
        y_inner, y_row                 output strides: finish gets image = i, offset = j * y_inner + r * y_row + column
        scratch                        this thread's scratch (`packing.gemm_scratch`)
        operands, tid, nthreads
    Raises ValueError for an unknown layout or unusable heights.
    """
    if layout not in LAYOUTS:
        raise ValueError(f"layout {layout!r} is none of {', '.join(LAYOUTS)}")
    packed, columns = layout == "packed", layout == "columns"
    width = panel * lanes
    step, tallest = width * 4, heights[0]
    copy_from_rows, sums_bytes = 8 * tallest, tile_bytes((max(tallest, WIDE_PANELS),), panel, lanes)
    plan = row_plan(heights, panel)
    plan_low, plan_high = plan.low, plan.high
    tiles = _make_tiles(lanes, heights, panel, finish, None if whole else finish_tail)
    one_row = len(heights) - 1
    wide = _make_wide(lanes, panel, finish) if single_row else None
    copy_panel = make_copy(lanes, panel, columns)

    @merged
    def sweep(a, a_row, b, b_row, b_panel, k, chain, low, high, first, last, n, sums, operands, image, offset, y_row):
        """Tiles of rows [low, high) times panels [first, last); b addresses panel `first`."""
        row = low
        while row < high:
            choice = pick_height(high - row, tallest, plan_low, plan_high)
            x, y, p, w = a + row * a_row, offset + row * y_row, first, b
            if single_row:
                while choice == one_row and p + WIDE_PANELS <= last and (p + WIDE_PANELS) * width <= n:
                    wide(x, w, b_row, b_panel, k, chain, sums, operands, image, y + p * step, p * step)
                    p += WIDE_PANELS
                    w += WIDE_PANELS * b_panel
            row += tiles(
                choice, x, a_row, w, b_row, b_panel, last - p, k, chain, sums, operands, image, y + p * step,
                y_row, p * step, n - p * width,
            )  # fmt: skip

    @merged
    def gemm(
        a, a_outer, a_inner, a_row, b, b_outer, b_inner, b_row, outer, inner, m, n, k, y_inner, y_row, scratch,
        operands, tid, nthreads,
    ):  # fmt: skip
        panels, blocks, panel_bytes = (n + width - 1) // width, row_blocks(m, tallest), k * step
        group = panel_group(panels, panel_bytes, blocks * outer * inner, nthreads, cache_bytes)
        if not packed:
            group = min(group, SCRATCH_PANELS)
        groups = (panels + group - 1) // group
        chain, copies = chain_terms(k, DEPTH), scratch + (sums_bytes if k > ONE_CHAIN else 0)
        unit, end = share(outer * inner * groups * blocks, 1, tid, nthreads)
        while unit < end:
            count = min(blocks - unit % blocks, end - unit)
            low, high = block_rows(unit % blocks, count, m, tallest)
            batch, first = unit // blocks // groups, unit // blocks % groups * group
            last = min(first + group, panels)
            i, j = batch // inner, batch % inner
            x, w, y = a + i * a_outer + j * a_inner, b + i * b_outer + j * b_inner, j * y_inner
            if packed:
                w += first * panel_bytes
                sweep(
                    x, a_row, w, step, panel_bytes, k, chain, low, high, first, last, n, scratch, operands, i, y, y_row
                )
            else:
                # Panels [first, split) are read in place, [split, last) are copied.
                reused = high - low >= copy_from_rows and k * b_row > IN_PLACE_BYTES
                split = first if columns or reused else max(first, min(last, n // width))
                for p in range(split, last):
                    copy_panel(w, b_row, k, p * width, n, copies + (p - split) * panel_bytes)
                at, between, along, begin, stop = w + first * step, step, b_row, first, split
                for _ in range(2):
                    sweep(
                        x, a_row, at, along, between, k, chain, low, high, begin, stop, n, scratch, operands, i, y,
                        y_row,
                    )  # fmt: skip
                    at, between, along, begin, stop = copies, panel_bytes, step, split, last
            unit += count

    return gemm


def _make_tiles(lanes: int, heights: tuple[int, ...], panel: int, finish: Any, finish_tail: Any) -> Callable[..., int]:
    """tiles(choice, ...): the tile of height number `choice`; returns its height. Arguments as `make_tile` lists."""
    tile0, tile1, tile2, tile3, tile4 = five(
        [make_tile(lanes, height, panel, finish, finish_tail) for height in heights]
    )

    @merged
    def tiles(
        choice, a, a_row, b, b_row, b_panel, count, k, chain, sums, operands, image, offset, y_row, column, valid
    ):
        if choice == 0:
            return tile0(
                a, a_row, b, b_row, b_panel, count, k, chain, sums, operands, image, offset, y_row, column, valid
            )
        if choice == 1:
            return tile1(
                a, a_row, b, b_row, b_panel, count, k, chain, sums, operands, image, offset, y_row, column, valid
            )
        if choice == 2:
            return tile2(
                a, a_row, b, b_row, b_panel, count, k, chain, sums, operands, image, offset, y_row, column, valid
            )
        if choice == 3:
            return tile3(
                a, a_row, b, b_row, b_panel, count, k, chain, sums, operands, image, offset, y_row, column, valid
            )
        return tile4(a, a_row, b, b_row, b_panel, count, k, chain, sums, operands, image, offset, y_row, column, valid)

    return tiles


def make_tile(lanes: int, height: int, panel: int, finish: Any, finish_tail: Any) -> Any:
    """`height` rows of A times `count` panels of B, one register tile each, then the epilogue. Returns the height.

    a, a_row                     the rows
    b, b_row, b_panel, count     the first panel, strides of k and of panels, number of panels
    k, chain                     terms of a sum, and of each of its chains
    sums                         memory for the sums of finished chains
    image, offset, y_row         where the first output lies
    column, valid                byte offset of the first column in per-column operands; columns that exist from there

    finish_tail is None where every panel is whole.
    """
    width, vec, whole = panel * lanes, lanes * 4, finish_tail is None
    lines = max(DEPTH * width * 4 // LINE_BYTES, 1)

    @inlined
    def tile(a, a_row, b, b_row, b_panel, count, k, chain, sums, operands, image, offset, y_row, column, valid):
        for _ in range(count):
            acc, x, w, left = tile_zeros(height, panel, lanes), a, b, min(k, chain)
            rest = k - left
            while True:
                for _ in range(left // DEPTH):
                    for p in range(DEPTH):
                        acc = rank1(acc, x + 4 * p, a_row, w + p * b_row, vec)
                    x += 4 * DEPTH
                    w += DEPTH * b_row
                    prefetch(w + AHEAD * DEPTH * width * 4, lines)
                for p in range(left % DEPTH):
                    acc = rank1(acc, x + 4 * p, a_row, w + p * b_row, vec)
                if rest + chain < k:
                    acc = tile_plus(acc, sums)
                if rest == 0:
                    break
                tile_store(acc, sums)
                acc, left = tile_zeros(height, panel, lanes), min(rest, chain)
                rest -= left
            if whole or valid >= width:
                tile_finish(acc, finish, operands, image, offset, y_row, vec, column)
            else:
                tile_finish_tail(acc, finish, finish_tail, operands, image, offset, y_row, vec, column, valid)
            b += b_panel
            offset += width * 4
            column += width * 4
            valid -= width
        return height

    return tile


def _make_wide(lanes: int, panel: int, finish: Any) -> Any:
    """One row of A times four whole panels: enough chains to keep a matrix-vector product at the cache's bandwidth."""
    step, vec = panel * lanes * 4, lanes * 4

    @inlined
    def wide(a, b, b_row, b_panel, k, chain, sums, operands, image, offset, column):
        acc0, acc1 = tile_zeros(1, panel, lanes), tile_zeros(1, panel, lanes)
        acc2, acc3 = tile_zeros(1, panel, lanes), tile_zeros(1, panel, lanes)
        start, stop = 0, min(k, chain)
        while True:
            for p in range(start, stop):
                x, w = a + 4 * p, b + p * b_row
                acc0 = rank1(acc0, x, 0, w, vec)
                acc1 = rank1(acc1, x, 0, w + b_panel, vec)
                acc2 = rank1(acc2, x, 0, w + 2 * b_panel, vec)
                acc3 = rank1(acc3, x, 0, w + 3 * b_panel, vec)
            if start > 0:
                acc0, acc1 = tile_plus(acc0, sums), tile_plus(acc1, sums + step)
                acc2, acc3 = tile_plus(acc2, sums + 2 * step), tile_plus(acc3, sums + 3 * step)
            if stop == k:
                break
            tile_store(acc0, sums)
            tile_store(acc1, sums + step)
            tile_store(acc2, sums + 2 * step)
            tile_store(acc3, sums + 3 * step)
            acc0, acc1 = tile_zeros(1, panel, lanes), tile_zeros(1, panel, lanes)
            acc2, acc3 = tile_zeros(1, panel, lanes), tile_zeros(1, panel, lanes)
            start, stop = stop, min(stop + chain, k)
        tile_finish(acc0, finish, operands, image, offset, 0, vec, column)
        tile_finish(acc1, finish, operands, image, offset + step, 0, vec, column + step)
        tile_finish(acc2, finish, operands, image, offset + 2 * step, 0, vec, column + 2 * step)
        tile_finish(acc3, finish, operands, image, offset + 3 * step, 0, vec, column + 3 * step)

    return wide
