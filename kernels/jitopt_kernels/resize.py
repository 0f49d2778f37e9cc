"""Resampling of two axes, nearest or weighted (linear, cubic, antialiased), blocked and row-major, with an epilogue.

What an output reads is in tables, one pair an axis, made when shapes are bound: `index`, int64 [taps][out], elements
of the input, all inside it; `weight`, float32 [taps][out]. Coordinate and rounding modes are the tables' business. An
output is the weighted sum over row taps of the weighted sums over column taps, both in order; `weighted=False` copies
the first tap.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .abi import share
from .simd import fma, gather, inlined, load, load_masked, load_scalar, load_splat, splat, tail_mask
from .tiling import merged


def make_resize(
    *, lanes: int, weighted: bool, finish: Any, finish_tail: Any, taps: int | None = None
) -> Callable[..., None]:
    """Resampling of a blocked tensor. `taps`, if given, is the number of taps of both axes, to unroll them.

    Arguments, in order (strides in bytes):
        x, x_image, x_block, x_row, images, channels            blocked input
        row_index, row_weight, row_taps                         the tables of the height
        column_index, column_weight, column_taps                and of the width
        out_h, out_w, y_block
        operands, tid, nthreads
    finish gets offset = channel block * y_block + position * lanes * 4.
    """
    vec = lanes * 4

    @inlined
    def one(
        plane, x_row, row_index, row_weight, row_taps, column_index, column_weight, column_taps, r, q, out_h, out_w
    ):
        """The Vec of output (r, q)."""
        if not weighted:
            row = plane + load_scalar(row_index + 8 * r, "int64") * x_row
            return load(row + load_scalar(column_index + 8 * q, "int64") * vec, "float32", lanes)
        total = splat(0.0, "float32", lanes)
        for a in range(row_taps if taps is None else taps):
            row = plane + load_scalar(row_index + 8 * (a * out_h + r), "int64") * x_row
            along = splat(0.0, "float32", lanes)
            for b in range(column_taps if taps is None else taps):
                at = row + load_scalar(column_index + 8 * (b * out_w + q), "int64") * vec
                weight = load_splat(column_weight + 4 * (b * out_w + q), "float32", lanes)
                along = fma(load(at, "float32", lanes), weight, along)
            total = fma(along, load_splat(row_weight + 4 * (a * out_h + r), "float32", lanes), total)
        return total

    @merged
    def resize(
        x, x_image, x_block, x_row, images, channels, row_index, row_weight, row_taps,
        column_index, column_weight, column_taps, out_h, out_w, y_block, operands, tid, nthreads,
    ):  # fmt: skip
        blocks = (channels + lanes - 1) // lanes
        unit, end = share(images * blocks * out_h, 1, tid, nthreads)
        while unit < end:
            r, block, image = unit % out_h, unit // out_h % blocks, unit // out_h // blocks
            plane, valid = x + image * x_image + block * x_block, channels - block * lanes
            for q in range(out_w):
                v = one(
                    plane, x_row, row_index, row_weight, row_taps, column_index, column_weight, column_taps,
                    r, q, out_h, out_w,
                )  # fmt: skip
                offset = block * y_block + (r * out_w + q) * vec
                if valid >= lanes:
                    finish(v, image, offset, block * vec, operands)
                else:
                    finish_tail(v, image, offset, block * vec, operands, tail_mask(valid, lanes))
            unit += 1

    return resize


def make_resize_rows(
    *, lanes: int, weighted: bool, finish: Any, finish_tail: Any, taps: int | None = None
) -> Callable[..., None]:
    """Resampling of row-major planes [planes, H, W]; a vector is `lanes` outputs of one row.

    Arguments, in order:
        x, x_plane, x_row, planes                               row-major input, strides in bytes
        row_index, row_weight, row_taps, column_index, column_weight, column_taps, out_h, out_w
        operands, tid, nthreads
    finish gets image = plane, offset = position * 4, column = 0.
    """

    @inlined
    def vector(
        plane,
        x_row,
        row_index,
        row_weight,
        row_taps,
        column_index,
        column_weight,
        column_taps,
        r,
        q,
        out_h,
        out_w,
        mask,
    ):
        """Outputs (r, q), (r, q + 1), ... of the mask's lanes."""
        if not weighted:
            row = plane + load_scalar(row_index + 8 * r, "int64") * x_row
            return gather(row, load_masked(column_index + 8 * q, mask, "int64") * 4, "float32")
        total = splat(0.0, "float32", lanes)
        for a in range(row_taps if taps is None else taps):
            row = plane + load_scalar(row_index + 8 * (a * out_h + r), "int64") * x_row
            along = splat(0.0, "float32", lanes)
            for b in range(column_taps if taps is None else taps):
                at = load_masked(column_index + 8 * (b * out_w + q), mask, "int64") * 4
                weight = load_masked(column_weight + 4 * (b * out_w + q), mask, "float32")
                along = fma(gather(row, at, "float32"), weight, along)
            total = fma(along, load_splat(row_weight + 4 * (a * out_h + r), "float32", lanes), total)
        return total

    @merged
    def resize_rows(
        x, x_plane, x_row, planes, row_index, row_weight, row_taps, column_index, column_weight, column_taps,
        out_h, out_w, operands, tid, nthreads,
    ):  # fmt: skip
        unit, end = share(planes * out_h, 1, tid, nthreads)
        while unit < end:
            r, image = unit % out_h, unit // out_h
            for q in range(0, out_w, lanes):
                mask = tail_mask(out_w - q, lanes)
                v = vector(
                    x + image * x_plane, x_row, row_index, row_weight, row_taps, column_index, column_weight,
                    column_taps, r, q, out_h, out_w, mask,
                )  # fmt: skip
                offset = (r * out_w + q) * 4
                if out_w - q >= lanes:
                    finish(v, image, offset, 0, operands)
                else:
                    finish_tail(v, image, offset, 0, operands, mask)
            unit += 1

    return resize_rows
