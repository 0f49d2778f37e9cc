"""Winograd's minimal filtering of 3x3 convolutions: its matrices, packed weights and scratch; loads no compiler.

F(m, 3) gives m neighbouring outputs of a filter with 3 taps from m + 2 inputs by m + 2 multiplications instead of
3 m: y = A^T [(G g) * (B^T d)], in two dimensions y = A^T [(G g G^T) * (B^T d B)] A (Lavin and Gray, arXiv 1509.09308).
The matrices are Toom and Cook's for the points 0, +-a, ... and infinity. Any points are exact in exact arithmetic; in
float32 they decide the rounding error. These were found by search over dyadic fractions, so that their squares are
exact: for m = 4 the usual 1 and 2 err at least 1.4 times as much on average as 5/8 and 3/2 (a test measures it).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from .packing import LINE_BYTES, pack_b, tile_bytes

TAPS = 3
POINTS: dict[int, tuple[float, ...]] = {2: (1.0,), 4: (0.625, 1.5)}
"""Positive points of each tile of m x m outputs; 0, their negatives and infinity belong to them."""

# Bytes a thread's transformed tiles should take, to stay in an L2 cache; tiles a block should hold, for the weights
# are read once a block.
_CACHE_BYTES, _FEW_TILES, _MANY_TILES = 384 * 1024, 12, 48

Array = np.ndarray[Any, Any]


@cache
def matrices(outputs: int) -> tuple[Array, Array, Array]:
    """(A [m + 2, m], B^T [m + 2, m + 2], G [m + 2, 3]) of F(m, 3) in float64, m = `outputs`. KeyError for another m."""
    points = [0.0, *(sign * p for p in POINTS[outputs] for sign in (1.0, -1.0))]
    side = outputs + TAPS - 1
    a, b, g = np.zeros((side, outputs)), np.zeros((side, side)), np.zeros((side, TAPS))
    for i, point in enumerate(points):
        others = points[:i] + points[i + 1 :]
        a[i] = [point**k for k in range(outputs)]
        b[i, :-1] = _polynomial(others)
        g[i] = np.array([point**k for k in range(TAPS)]) / np.prod([point - other for other in others])
    a[-1, -1], g[-1, -1], b[-1] = 1.0, 1.0, _polynomial(points)
    return a, b, g


def _polynomial(roots: Sequence[float]) -> Array:
    """Coefficients of the monic polynomial with these roots, lowest power first."""
    return np.asarray(np.poly(roots), np.float64)[::-1]


def pack_winograd(weights: Array, lanes: int, panel: int, outputs: int) -> Array:
    """Weights [OC, IC, 3, 3] transformed and packed: [(m + 2)^2, panels, IC padded to lanes, panel * lanes]."""
    _, _, g = matrices(outputs)
    oc, ic = weights.shape[:2]
    transformed = np.einsum("ia,ocab,jb->ijco", g, weights.astype(np.float64), g, optimize=True)
    side = outputs + TAPS - 1
    padded = np.zeros((side * side, -(-ic // lanes) * lanes, oc), np.float32)
    padded[:, :ic] = transformed.reshape(side * side, ic, oc)
    return pack_b(padded, lanes, panel)


def tiles_at_once(inputs: int, channels: int, outputs: int) -> int:
    """Tiles a thread transforms before it multiplies them.

    All positions of a block are `4 (m + 2)^2 (inputs + channels)` bytes a tile. Few channels: as many tiles as stay in
    the cache. Many: enough that reading the weights, once a block, costs less than the multiplications.
    """
    fit = _CACHE_BYTES // (4 * (outputs + TAPS - 1) ** 2 * (inputs + channels))
    return fit if fit >= _FEW_TILES else _MANY_TILES


def winograd_scratch(
    outputs: int, tiles: int, inputs: int, channels: int, lanes: int, heights: tuple[int, ...], panel: int
) -> int:
    """Scratch of one thread of `make_winograd` with blocks of at most `tiles` tiles."""
    positions, width = (outputs + TAPS - 1) ** 2, panel * lanes
    floats = -(-inputs // lanes) * lanes + -(-channels // width) * width
    squares, sums = 2 * positions * lanes * 4, tile_bytes(heights, panel, lanes)
    return squares + sums + tiles * positions * (floats * 4 + 2 * LINE_BYTES)
