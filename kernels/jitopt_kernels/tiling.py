"""How rows of output are cut into register tiles: the plan every contraction kernel follows.

A kernel compiles at most five tile heights. Whole tiles of the tallest height come first; what is left, fewer than
two of them, is cut so that no short tile is used where taller ones fit: with heights (6, 4, 3, 2, 1) seven rows are
4 + 3, not 6 + 1, because one row of a 2-Vec panel is two chains of multiply-adds and runs at a quarter of the speed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from numba import njit

from .packing import CHAIN, ONE_CHAIN
from .simd import inlined

MAX_HEIGHTS = 5
MAX_HEIGHT = 16
# Weights of one cache block: they are used again for every tile of rows, so they should stay in half of an L2 cache.
CACHE_BYTES = 256 * 1024
# For functions called from one place: their statements become the caller's. Each level of compiled functions below a
# kernel is optimised and emitted again with everything under it, so tiles sit directly under the kernel.
merged = njit(inline="always")
_LATENCY, _PER_CYCLE, _TILE_OVERHEAD = 4, 2, 0.4


@dataclass(frozen=True)
class RowPlan:
    """Which height comes next, for `left` rows: three bits each, `low` for left < 16, `high` for 16 <= left < 32."""

    low: int
    high: int


def tile_cost(height: int, panel: int) -> float:
    """Cycles of one k step of a tile: two multiply-adds and two loads a cycle, each chain waits four cycles."""
    return max(height * panel / _PER_CYCLE, _LATENCY, (height + panel) / _PER_CYCLE) + _TILE_OVERHEAD


@cache
def best_cut(rows: int, heights: tuple[int, ...], panel: int) -> tuple[int, ...]:
    """Tile heights, tallest first, that cover `rows` at the least cost. Heights must end in 1."""
    costs: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
    for count in range(1, rows + 1):
        options = []
        for height in heights:
            if height <= count:
                cost, cut = costs[count - height]
                options.append((cost + tile_cost(height, panel), tuple(sorted((*cut, height), reverse=True))))
        costs.append(min(options))
    return costs[rows][1]


def row_plan(heights: Sequence[int], panel: int) -> RowPlan:
    """The plan for heights (tallest first, at most five, ending in 1). Raises ValueError for others."""
    heights = tuple(heights)
    descending = sorted(set(heights), reverse=True) == list(heights)
    if not descending or heights[-1] != 1 or heights[0] > MAX_HEIGHT or len(heights) > MAX_HEIGHTS:
        raise ValueError(f"tile heights {heights}: at most {MAX_HEIGHTS}, at most {MAX_HEIGHT} rows, falling to 1")
    words = [0, 0]
    for left in range(1, 2 * heights[0]):
        first = best_cut(left, heights, panel)[0]
        words[left // 16] |= heights.index(first) << (3 * (left % 16))
    return RowPlan(*words)


def five(tiles: Sequence[Any]) -> list[Any]:
    """The sequence filled up to five with its first element: kernels dispatch over exactly five names."""
    return [*tiles, *[tiles[0]] * (MAX_HEIGHTS - len(tiles))]


@inlined
def pick_height(left, tallest, low, high):
    """Index of the height of the next tile where `left` rows remain; `low` and `high` are a `RowPlan`'s words."""
    if left >= 2 * tallest:
        return 0
    if left < 16:
        return (low >> (3 * left)) & 7
    return (high >> (3 * (left - 16))) & 7


@inlined
def row_blocks(rows, height):
    """Blocks a run of rows is shared by: `height` rows each, the last one with the rest (up to 2 * height - 1)."""
    return max(rows // height, min(rows, 1))


@inlined
def block_rows(first, count, rows, height):
    """Rows [low, high) of `count` blocks from block `first`."""
    high = (first + count) * height
    return first * height, rows if first + count >= row_blocks(rows, height) else high


@inlined
def panel_group(panels, panel_bytes, blocks, nthreads, cache_bytes):
    """Panels swept for each tile of rows: as many as stay in cache, but leave every thread something to do.

    `blocks` counts blocks of rows over all images; where there is one, no panel is used twice and all form one group.
    """
    group = panels if blocks == 1 else max(cache_bytes // max(panel_bytes, 1), 1)
    return max(min(group, (panels * blocks + nthreads - 1) // nthreads, panels), 1)


@inlined
def chain_terms(k, unit):
    """Terms of each chain of a sum of k, a multiple of `unit`; the last one may have fewer.

    A sum of more than ONE_CHAIN terms is cut into two chains, or as many as it takes for none to exceed CHAIN. What a
    chain costs a tile (12 stores: about 30 cycles) is then at most 1.5 % of its multiply-adds.
    """
    chains = unit if k <= ONE_CHAIN else max((k + CHAIN - 1) // CHAIN, 2) * unit
    return (k + chains - 1) // chains * unit
