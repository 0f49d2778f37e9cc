"""Depthwise convolution on the blocked layout: one filter a channel, every lane its own, taps in registers.

A tile is `columns` output columns of one row. Where all its pixels lie inside the image they are read as they lie;
at the edge each pixel outside reads a Vec of zeros instead, so edges are tiles too and nothing outside is touched.
An output element is one chain of multiply-adds over the taps in order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitopt_kernels.abi import share
from jitopt_kernels.simd import inlined, tile_finish, tile_zeros
from jitopt_kernels.simd.window import tile_finish_rows, tile_load, window_fma, window_fma_clipped
from jitopt_kernels.tiling import merged

from .window import clear_zeros

MOST_TAPS = 32  # windows with more taps are done row by row, to bound the code


def make_depthwise(
    *, lanes: int, kernel: tuple[int, int], stride: int, dilation: int, columns: int, finish: Any, finish_tail: Any
) -> Callable[..., None]:
    """A depthwise kernel for one filter size; `stride` and `dilation` are those along the width.

    Arguments, in order (strides in bytes):
        x, x_image, x_block, x_row      blocked input: image, channel block and row strides
        height, width                   its extents
        w                               weights packed by `packing.pack_depthwise`
        images, channels
        stride_h, dilation_h, top, left
        out_h, out_w, y_block           output extents and the stride of its channel blocks
        scratch                         this thread's scratch (`packing.ZERO_BYTES`)
        operands, tid, nthreads
    finish gets offset = channel block * y_block + position * lanes * 4.
    """
    kernel_h, kernel_w = kernel
    at_once = kernel_h if kernel_h * kernel_w <= MOST_TAPS else 1
    vec = lanes * 4
    reach = (kernel_w - 1) * dilation
    inner, edge = _make_tiles(lanes, kernel, at_once, stride, dilation, columns, finish, finish_tail)

    @merged
    def depthwise(
        x, x_image, x_block, x_row, height, width, w, images, channels, stride_h, dilation_h, top, left,
        out_h, out_w, y_block, scratch, operands, tid, nthreads,
    ):  # fmt: skip
        clear_zeros(scratch)
        blocks = (channels + lanes - 1) // lanes
        unit, end = share(images * blocks * out_h, 1, tid, nthreads)
        # Columns [from_, to) read inside the image for every tap.
        from_, to = (left + stride - 1) // stride, (width + left - reach + stride - 1) // stride
        while unit < end:
            r, block, image = unit % out_h, unit // out_h % blocks, unit // out_h // blocks
            plane, weights = x + image * x_image + block * x_block, w + block * (kernel_h * kernel_w * vec)
            top_row = r * stride_h - top
            rows_inside = top_row >= 0 and top_row + (kernel_h - 1) * dilation_h < height
            row, column, valid = plane + top_row * x_row, block * vec, channels - block * lanes
            q = 0
            while q < out_w:
                offset = block * y_block + (r * out_w + q) * vec
                if rows_inside and q >= from_ and q + columns <= min(to, out_w) and valid >= lanes:
                    at = row + (q * stride - left) * vec
                    q = inner(at, x_row * dilation_h, weights, operands, image, offset, column, q, to, out_w)
                else:
                    count = min(columns, out_w - q)
                    edge(
                        plane, x_row, weights, top_row, dilation_h, q * stride - left, height, width, scratch,
                        operands, image, offset, column, count, valid,
                    )  # fmt: skip
                    q += count
            unit += 1

    return depthwise


def _make_tiles(
    lanes: int,
    kernel: tuple[int, int],
    at_once: int,
    stride: int,
    dilation: int,
    columns: int,
    finish: Any,
    finish_tail: Any,
) -> tuple[Any, Any]:
    """(tiles of a row's interior, one tile at the edge); `at_once` rows of the filter are in registers together."""
    kernel_h, kernel_w = kernel
    vec = lanes * 4
    step, tap_row = columns * stride * vec, kernel_w * vec

    @inlined
    def inner(x, x_row, w, operands, image, offset, column, q, to, out_w):
        """Whole tiles from column q on while they stay inside; returns the next column."""
        last = min(to, out_w) - columns
        taps = tile_load(w, at_once, kernel_w, lanes)
        while q <= last:
            acc = tile_zeros(columns, 1, lanes)
            if at_once == kernel_h:
                acc = window_fma(acc, taps, x, x_row, dilation, stride)
            else:
                for a in range(kernel_h):
                    taps = tile_load(w + a * tap_row, at_once, kernel_w, lanes)
                    acc = window_fma(acc, taps, x + a * x_row, x_row, dilation, stride)
            tile_finish(acc, finish, operands, image, offset, vec, 0, column)
            x += step
            offset += columns * vec
            q += columns
        return q

    @inlined
    def edge(
        plane, x_row, w, top_row, dilation_h, left_column, height, width, zeros,
        operands, image, offset, column, count, valid,
    ):  # fmt: skip
        acc = tile_zeros(columns, 1, lanes)
        for a in range(0, kernel_h, at_once):
            taps = tile_load(w + a * tap_row, at_once, kernel_w, lanes)
            acc = window_fma_clipped(
                acc, taps, plane, x_row, dilation, stride, top_row + a * dilation_h, dilation_h, left_column,
                height, width, zeros,
            )  # fmt: skip
        tile_finish_rows(acc, finish, finish_tail, operands, image, offset, vec, column, count, valid)

    return inner, edge
