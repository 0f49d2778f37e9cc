"""How weights are packed for the kernels, and how much scratch kernels need; loads neither Numba nor llvmlite.

The caller packs constants once, in a process that never imports Numba. Scratch sizes are bytes of one thread and
accept symbolic extents: they use + * // only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

LINE_BYTES = 64  # of a cache line
CHAIN = 512  # most terms of a chain of multiply-adds
ONE_CHAIN = 256  # most terms of a sum that is one chain; longer ones are cut into chains of even length
SCRATCH_PANELS = 4  # panels of B a thread copies at a time, where B is not packed
WIDE_PANELS = 4  # panels one row is multiplied by at a time


def best_tile(columns: int, lanes: int, tiles: Sequence[tuple[tuple[int, ...], int]]) -> tuple[tuple[int, ...], int]:
    """The (heights, panel) of `tiles` that multiplies the fewest padding columns; the first of equals.

    24 channels in 8 lanes are one panel of 3 Vecs, but two of 2 with a quarter of the work wasted.
    """
    return min(tiles, key=lambda tile: -(-columns // (tile[1] * lanes)) * tile[1])


def aligned(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The array, contiguous and at a multiple of LINE_BYTES: a copy where it is not.

    NumPy promises 16 bytes; every other load of a wider vector would touch two cache lines.
    """
    contiguous = np.ascontiguousarray(array)
    if contiguous.ctypes.data % LINE_BYTES == 0:
        return contiguous
    raw = np.empty(array.nbytes + LINE_BYTES, np.uint8)
    start = -raw.ctypes.data % LINE_BYTES
    out: np.ndarray[Any, Any] = raw[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    out[...] = array
    return out


def pack_b(b: np.ndarray[Any, Any], lanes: int, panel: int) -> np.ndarray[Any, Any]:
    """Pack B[..., K, N] into panels [..., ceil(N / width), K, width] with width = panel * lanes, zero-padded."""
    *batch, k, n = b.shape
    width = panel * lanes
    panels = -(-n // width)
    padded = np.zeros((*batch, k, panels * width), np.float32)
    padded[..., :n] = b
    return aligned(np.moveaxis(padded.reshape(*batch, k, panels, width), -2, -3))


def tile_bytes(heights: tuple[int, ...], panel: int, lanes: int) -> int:
    """Bytes of the tallest tile: where kernels keep the sums of a tile's finished chains."""
    return heights[0] * panel * lanes * 4


def gemm_scratch(k: Any, lanes: int, heights: tuple[int, ...], panel: int, layout: str) -> Any:
    """Scratch of one thread of `make_gemm`: a tile's sums where k needs them, and copied panels of what is not packed.

    `k` may be symbolic.
    """
    sums = 0 if isinstance(k, int) and k <= ONE_CHAIN else tile_bytes((max(heights[0], WIDE_PANELS),), panel, lanes)
    return sums if layout == "packed" else k * (SCRATCH_PANELS * panel * lanes * 4) + sums


ZERO_BYTES = 64  # a block of zero input: what padding reads
TAP_BYTES = 24  # row offset, column offset and weight offset of one tap
_SLOT_BYTES = 8


def window_line(tallest: int) -> tuple[int, int]:
    """(bytes of a line, address slots) of the tap table of tiles with at most `tallest` rows."""
    slots = 1
    while slots < tallest:
        slots *= 2
    return 2 * slots * _SLOT_BYTES + _SLOT_BYTES, slots


def conv_scratch(taps: Any, heights: tuple[int, ...]) -> Any:
    """Scratch of one thread's table of `taps` = kernel height * width taps (may be symbolic); `make_conv` also needs
    `tile_bytes`."""
    return ZERO_BYTES + taps * (TAP_BYTES + window_line(heights[0])[0])


def stem_scratch(k: Any, heights: tuple[int, ...]) -> Any:
    """Scratch of one thread of `make_stem` with k = taps * input channels (may be symbolic)."""
    return ZERO_BYTES + k * (TAP_BYTES + _SLOT_BYTES * window_line(heights[0])[1])


def pack_conv(
    weights: np.ndarray[Any, Any], lanes: int, panel: int, block: int, groups: int = 1
) -> np.ndarray[Any, Any]:
    """Pack convolution weights [OC, IC / groups, KH, KW] (KH and KW may be any number of axes) for `make_conv`.

    Gives [groups, panels, taps, channels, panel * lanes]: channels are a group's inputs, padded with zeros to a
    multiple of `block` (the c of a blocked input, 1 for a row-major one); a group's outputs are padded likewise.
    """
    oc, ic = weights.shape[:2]
    grouped = weights.reshape(groups, oc // groups, ic, -1)
    padded = np.zeros((*grouped.shape[:2], -(-ic // block) * block, grouped.shape[3]), np.float32)
    padded[:, :, :ic] = grouped
    return pack_b(padded.transpose(0, 3, 2, 1).reshape(groups, -1, oc // groups), lanes, panel)


def pack_conv_transposed(
    weights: np.ndarray[Any, Any], lanes: int, panel: int, block: int, groups: int = 1
) -> np.ndarray[Any, Any]:
    """Pack the weights of a transposed convolution, [IC, OC / groups, KH, KW]: as `pack_conv` does with IC and OC
    exchanged within each group."""
    ic, oc = weights.shape[:2]
    grouped = weights.reshape(groups, ic // groups, oc, *weights.shape[2:]).swapaxes(1, 2)
    return pack_conv(grouped.reshape(groups * oc, ic // groups, *weights.shape[2:]), lanes, panel, block, groups)


def pack_depthwise(weights: np.ndarray[Any, Any], lanes: int) -> np.ndarray[Any, Any]:
    """Pack depthwise weights [C, 1, KH, KW] for `make_depthwise`: [ceil(C / lanes), taps, lanes], zero-padded."""
    c = weights.shape[0]
    blocks = -(-c // lanes)
    padded = np.zeros((blocks * lanes, math.prod(weights.shape[2:])), np.float32)
    padded[:c] = weights.reshape(c, -1)
    return aligned(padded.reshape(blocks, lanes, -1).swapaxes(1, 2))


def grouped_slots(channels: int, groups: int, width: int) -> int:
    """The most groups (of `channels` output channels each) that a panel of `width` output channels holds."""
    ends = [(min(start + width, channels * groups) - 1, start) for start in range(0, channels * groups, width)]
    return max((end // channels - start // channels + 1 for end, start in ends), default=1)


def pack_grouped(weights: np.ndarray[Any, Any], lanes: int, panel: int, groups: int) -> np.ndarray[Any, Any]:
    """Pack grouped weights [OC, IC / groups, KH, KW] for `make_grouped`: [panels, slots, taps, IC / groups, width].

    width = panel * lanes. Slot s of a panel holds the s-th group it has, with zeros in the other groups' lanes.
    """
    oc, depth = weights.shape[:2]
    channels, width = oc // groups, panel * lanes
    slots, panels = grouped_slots(channels, groups, width), -(-oc // width)
    flat = weights.reshape(oc, depth, -1).transpose(0, 2, 1)
    out = np.zeros((panels, slots, *flat.shape[1:], width), np.float32)
    for channel in range(oc):
        at, lane = divmod(channel, width)
        out[at, channel // channels - at * width // channels, :, :, lane] = flat[channel]
    return out


def resize_tables(
    index: np.ndarray[Any, Any], weight: np.ndarray[Any, Any]
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """One axis' tables for `make_resize` from [out, taps] input positions and weights: (int64, float32), tap-major."""
    return np.ascontiguousarray(index.T, np.int64), np.ascontiguousarray(weight.T, np.float32)
