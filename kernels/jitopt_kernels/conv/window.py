"""Where the positions of a tile read their input: the table of a convolution's taps.

A convolution is a GEMM whose rows are output positions and whose k runs over taps, then channels. For one tile the
table has a line for each tap that meets the image: an address for every row of the tile, what to add to it for the
next block of channels, and where the tap's weights start. A row whose tap falls outside reads a block of zeros and
stays there; a tap no row needs has no line, so nothing is multiplied by padding that a whole tile shares.

Scratch of one thread:  [zeros][taps: row offset, column offset, weight offset][table lines]
"""

from __future__ import annotations

import numpy as np

from jitopt_kernels.packing import TAP_BYTES, ZERO_BYTES
from jitopt_kernels.simd import any_lane, inlined, iota, load_scalar, select, splat, store, store_scalar, tail_mask


@inlined
def set_tap(taps, index, row, column, weights):
    """Tap `index` reads `row` rows and `column` columns from a position's first; its weights start at `weights`."""
    at = taps + index * TAP_BYTES
    store_scalar(at, row)
    store_scalar(at + 8, column)
    store_scalar(at + 16, weights)


@inlined
def set_taps(scratch, kernel_h, kernel_w, dilation_h, dilation_w, tap_weights):
    """List the taps of a convolution in scratch; returns how many."""
    for i in range(kernel_h):
        for j in range(kernel_w):
            index = i * kernel_w + j
            set_tap(scratch + ZERO_BYTES, index, i * dilation_h, j * dilation_w, index * tap_weights)
    return kernel_h * kernel_w


@inlined
def clear_zeros(scratch):
    """Write the block of zeros."""
    for i in range(ZERO_BYTES // 4):
        store_scalar(scratch + 4 * i, np.float32(0.0))


@inlined
def positions_of(first, out_w, rows, slots):
    """(row, column, whether it is one of `rows`) of output positions first, first + 1, ..., as Vecs of `slots`."""
    position = first // out_w
    q = iota("int64", slots) + (first - position * out_w)
    p = splat(position, "int64", slots)
    beyond = q >= out_w
    while any_lane(beyond):
        q = select(beyond, q - out_w, q)
        p = select(beyond, p + 1, p)
        beyond = q >= out_w
    return p, q, tail_mask(rows, slots)


@inlined
def fill_window(
    scratch, taps, x, x_block, x_row, x_column, height, width, stride_h, stride_w, top, left, out_w, first, rows, slots
):
    """Write the table lines of output positions first .. first + rows, numbered along rows of `out_w`.

    `taps` are listed in scratch; a line has `slots` (a literal, at least `rows`) addresses, as many steps to the next
    channel block and the weight offset. Returns how many lines there are.
    """
    p, q, exists = positions_of(first, out_w, rows, slots)
    p, q = p * stride_h - top, q * stride_w - left
    base = p * x_row + q * x_column + x
    at, lines = scratch + ZERO_BYTES + taps * TAP_BYTES, 0
    for index in range(taps):
        tap = scratch + ZERO_BYTES + index * TAP_BYTES
        dp, dq = load_scalar(tap, "int64"), load_scalar(tap + 8, "int64")
        i, j = p + dp, q + dq
        inside = exists & (i >= 0) & (i < height) & (j >= 0) & (j < width)
        if any_lane(inside):
            store(at, select(inside, base + (dp * x_row + dq * x_column), scratch))
            store(at + 8 * slots, select(inside, splat(x_block, "int64", slots), 0))
            store_scalar(at + 16 * slots, load_scalar(tap + 16, "int64"))
            at += 16 * slots + 8
            lines += 1
    return lines
