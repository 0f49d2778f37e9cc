"""Register tiles by themselves: one tile of a product or of a convolution, many times over inside one kernel.

What is left of a tile's speed is its own: loads, multiply-adds, bias, residual, ReLU and stores. Operands are so small
that the first cache holds them, apart from weights at large K, which stream from the second.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jitopt_kernels.packing import aligned, conv_scratch, tile_bytes
from jitopt_kernels.targets import Target

from jitopt.codegen.cache import Cache
from jitopt.codegen.compiler import KernelSource, compile_kernels
from jitopt.codegen.loader import KernelLibrary
from jitopt.runtime.measure import best_seconds

_WORK = 1e7  # multiply-adds a launch

_HEAD = """
from jitopt_kernels.abi import word
from jitopt_kernels.formulas import relu
from jitopt_kernels.simd import inlined, load, store
from jitopt_kernels.tiling import chain_terms

LANES, HEIGHT, PANEL = {lanes}, {height}, {panel}
STEP = 4 * LANES * PANEL


@inlined
def finish(v, image, offset, column, operands):
    x = v + load(operands[0] + column, "float32", LANES)
    store(operands[2] + offset, relu(x + load(operands[1] + offset, "float32", LANES)))
"""

_GEMM = """
from jitopt_kernels.gemm import DEPTH, make_tile

tile = make_tile(LANES, HEIGHT, PANEL, finish, None)


def kernel(args, tid, nthreads):
    times, k, a, b, sums = word(args, 4), word(args, 5), word(args, 6), word(args, 7), word(args, 8)
    operands = (word(args, 9), word(args, 10), word(args, 11))
    chain = chain_terms(k, DEPTH)
    for _ in range(times):
        tile(a, 4 * k, b, STEP, 0, 1, k, chain, sums, operands, 0, 0, STEP, 0, LANES * PANEL)
"""

_CONV = """
from jitopt_kernels.conv.direct import make_tile
from jitopt_kernels.conv.window import clear_zeros, fill_window, set_taps
from jitopt_kernels.packing import TAP_BYTES, ZERO_BYTES, window_line

tile = make_tile(LANES, {heights}, HEIGHT, PANEL, LANES, finish, None)
SLOTS = window_line(HEIGHT)[1]


def kernel(args, tid, nthreads):
    times, k, x, b, sums = word(args, 4), word(args, 5), word(args, 6), word(args, 7), word(args, 8)
    operands = (word(args, 9), word(args, 10), word(args, 11))
    size, scratch, width = {size}, sums + {sums}, HEIGHT + {size} - 1
    blocks, vec = k // (size * size * LANES), 4 * LANES
    taps = set_taps(scratch, size, size, 1, 1, blocks * LANES * STEP)
    clear_zeros(scratch)
    lines = fill_window(
        scratch, taps, x, size * width * vec, width * vec, vec, size, width, 1, 1, 0, 0, HEIGHT, 0, HEIGHT, SLOTS
    )
    table, chain = scratch + ZERO_BYTES + taps * TAP_BYTES, chain_terms(k, LANES) * STEP
    for _ in range(times):
        tile(
            table, lines, blocks, b, 0, 1, b, sums, chain, operands, 0, 0, vec, HEIGHT * vec, 0, LANES * PANEL
        )
"""


@dataclass(frozen=True)
class Block:
    """One register tile over `k`; `size` is the side of a convolution's filter, None for a matrix product."""

    k: int
    size: int | None
    share: float  # of measured FMA peak that is asked

    @property
    def name(self) -> str:
        return f"{'gemm' if self.size is None else f'conv {self.size}x{self.size}'} tile, K = {self.k}"


BLOCKS = (Block(64, None, 0.95), Block(576, None, 0.97), Block(64, 1, 0.95), Block(576, 3, 0.97))


class Tile:
    """A block's tile of full height with bias, residual and ReLU, compiled and ready to be called on one thread."""

    def __init__(self, block: Block, target: Target, cache: Cache | None = None) -> None:
        heights, panel = target.gemm_heights, target.gemm_panel
        if block.size is not None:
            heights, panel = target.conv_heights, target.conv_panel
        lanes, height, size = target.lanes, heights[0], block.size or 1
        sums, columns = tile_bytes(heights, panel, lanes), panel * lanes
        options = {"lanes": lanes, "height": height, "panel": panel, "heights": heights, "size": size, "sums": sums}
        source = KernelSource.of((_HEAD + (_GEMM if block.size is None else _CONV)).format(**options), target)
        x = height * block.k if block.size is None else block.k // size * (height + size - 1)
        scratch = (sums + conv_scratch(size**2, heights)) // 4
        self._arrays = [
            _random(n) for n in (x, block.k * columns, scratch, columns, height * columns, height * columns)
        ]
        self._macs, self._k = float(height * columns * block.k), block.k
        self._library = KernelLibrary(target)
        self._kernel = self._library.add(source.key, compile_kernels([source], target, cache=cache)[source.key].object)

    def gflops(self) -> float:
        """The best speed in a fifth of a second."""
        times = max(int(_WORK / self._macs), 1)
        operands = [times, self._k, *(array.ctypes.data for array in self._arrays)]
        return 2 * self._macs * times / best_seconds(self._kernel, operands, 1) / 1e9

    def close(self) -> None:
        self._library.close()


def _random(count: int) -> np.ndarray[Any, Any]:
    return aligned(np.random.default_rng(count).standard_normal(count, np.float32))
