"""Max and average pooling over two axes, on the blocked layout and on row-major planes, with a fused epilogue.

Padding never takes part: a window is clipped to the image, and the average divides by the taps inside the image, or,
with `include_pad`, inside the padded image (ceil_mode windows may reach beyond that). A window without any tap gives
-inf or 0. Sums run over the taps in order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .abi import share
from .simd import gather, inlined, iota, load, maximum, select, splat, tail_mask, tile_finish
from .simd.window import tile_splat, window_max, window_sum
from .tiling import merged

KINDS = ("max", "average")
MOST_TAPS = 64  # larger windows are not unrolled


@inlined
def taps_inside(first, step, count, low, high):
    """Taps [from, to) of first, first + step, ... (count of them) that lie in [low, high)."""
    begin = max((low - first + step - 1) // step, 0)
    end = min((high - first + step - 1) // step, count)
    return min(begin, count), max(end, min(begin, count))


@inlined
def tap_count(first, step, count, low, high):
    """How many of those taps."""
    begin, end = taps_inside(first, step, count, low, high)
    return end - begin


def make_pool(
    *,
    kind: str,
    lanes: int,
    finish: Any,
    finish_tail: Any,
    include_pad: bool = False,
    kernel: tuple[int, int] | None = None,
    stride: int = 1,
    dilation: int = 1,
    columns: int = 4,
) -> Callable[..., None]:
    """Pooling of a blocked tensor. `kind` is "max" or "average".

    With `kernel`, and `stride` and `dilation` along the width, windows inside the image are unrolled tiles of
    `columns` output columns; they must equal the run-time arguments. Arguments, in order (strides in bytes):
        x, x_image, x_block, x_row              blocked input
        height, width, images, channels
        kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w, top, left, bottom, right
        out_h, out_w, y_block
        operands, tid, nthreads
    finish gets offset = channel block * y_block + position * lanes * 4. Raises ValueError for an unknown kind.
    """
    is_max, start = _checked(kind)
    vec = lanes * 4
    unrolled = kernel is not None and kernel[0] * kernel[1] <= MOST_TAPS
    taps_h, taps_w = kernel if kernel is not None and unrolled else (1, 1)
    fold = window_max if is_max else window_sum
    whole = float(taps_h * taps_w)

    @inlined
    def finish_whole(v, image, offset, column, operands):
        """The epilogue of a window with all its taps."""
        finish(v if is_max else v / whole, image, offset, column, operands)

    @inlined
    def one(plane, x_row, height, width, kernel_h, kernel_w, dilation_h, dilation_w, p, q, bottom, right, top, left):
        """One output whose window starts at row p, column q: clipped to the image."""
        a0, a1 = taps_inside(p, dilation_h, kernel_h, 0, height)
        b0, b1 = taps_inside(q, dilation_w, kernel_w, 0, width)
        v = splat(start, "float32", lanes)
        for a in range(a0, a1):
            row = plane + (p + a * dilation_h) * x_row
            for b in range(b0, b1):
                pixel = load(row + (q + b * dilation_w) * vec, "float32", lanes)
                v = maximum(v, pixel) if is_max else v + pixel
        if is_max:
            return v
        count = (a1 - a0) * (b1 - b0)
        if include_pad:
            count = tap_count(p, dilation_h, kernel_h, -top, height + bottom)
            count *= tap_count(q, dilation_w, kernel_w, -left, width + right)
        return v / max(count, 1)

    @inlined
    def tiles(x, x_row, count, operands, image, offset, column):
        """`count` tiles whose windows lie inside the image."""
        for _ in range(count):
            acc = tile_splat(start, columns, 1, lanes)
            acc = fold(acc, taps_h, taps_w, x, x_row, dilation, stride)
            tile_finish(acc, finish_whole, operands, image, offset, vec, 0, column)
            x += columns * stride * vec
            offset += columns * vec

    @merged
    def pool(
        x, x_image, x_block, x_row, height, width, images, channels,
        kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w, top, left, bottom, right,
        out_h, out_w, y_block, operands, tid, nthreads,
    ):  # fmt: skip
        blocks = (channels + lanes - 1) // lanes
        unit, end = share(images * blocks * out_h, 1, tid, nthreads)
        reach = (kernel_w - 1) * dilation_w
        from_, to = (left + stride_w - 1) // stride_w, min((width + left - reach + stride_w - 1) // stride_w, out_w)
        while unit < end:
            r, block, image = unit % out_h, unit // out_h % blocks, unit // out_h // blocks
            plane, p = x + image * x_image + block * x_block, r * stride_h - top
            rows_inside = p >= 0 and p + (kernel_h - 1) * dilation_h < height
            column, valid = block * vec, channels - block * lanes
            q = 0
            while q < out_w:
                offset = block * y_block + (r * out_w + q) * vec
                if unrolled and rows_inside and q >= from_ and q + columns <= to and valid >= lanes:
                    count = (to - q) // columns
                    at = plane + p * x_row + (q * stride_w - left) * vec
                    tiles(at, x_row * dilation_h, count, operands, image, offset, column)
                    q += count * columns
                else:
                    v = one(
                        plane, x_row, height, width, kernel_h, kernel_w, dilation_h, dilation_w,
                        p, q * stride_w - left, bottom, right, top, left,
                    )  # fmt: skip
                    if valid >= lanes:
                        finish(v, image, offset, column, operands)
                    else:
                        finish_tail(v, image, offset, column, operands, tail_mask(valid, lanes))
                    q += 1
            unit += 1

    return pool


def make_pool_rows(
    *, kind: str, lanes: int, finish: Any, finish_tail: Any, include_pad: bool = False
) -> Callable[..., None]:
    """Pooling of row-major planes [planes, H, W]; a vector is `lanes` outputs of one row.

    Arguments, in order:
        x, x_plane, x_row              row-major input, strides in bytes
        height, width, planes          planes = images * channels
        kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w, top, left, bottom, right
        out_h, out_w
        operands, tid, nthreads
    finish gets image = plane, offset = position * 4, column = 0. Raises ValueError for an unknown kind.
    """
    is_max, start = _checked(kind)

    @inlined
    def vector(plane, x_row, height, width, kernel_h, kernel_w, dilation_h, dilation_w, p, q, bottom, right, top, left):
        """The outputs whose windows start at row p and columns q (an int64 Vec)."""
        a0, a1 = taps_inside(p, dilation_h, kernel_h, 0, height)
        v, taken = splat(start, "float32", lanes), splat(0.0, "float32", lanes)
        for b in range(kernel_w):
            column = q + b * dilation_w
            inside = (column >= 0) & (column < width)
            at = select(inside, column * 4, 0)
            for a in range(a0, a1):
                pixel = gather(plane + (p + a * dilation_h) * x_row, at, "float32")
                folded = maximum(v, pixel) if is_max else v + pixel
                v = select(inside, folded, v)
            if include_pad:
                inside = (column >= -left) & (column < width + right)
            taken = select(inside, taken + 1.0, taken)
        if is_max:
            return v
        rows = a1 - a0
        if include_pad:
            rows = tap_count(p, dilation_h, kernel_h, -top, height + bottom)
        return v / maximum(taken * rows, 1.0)

    @merged
    def pool_rows(
        x, x_plane, x_row, height, width, planes,
        kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w, top, left, bottom, right,
        out_h, out_w, operands, tid, nthreads,
    ):  # fmt: skip
        unit, end = share(planes * out_h, 1, tid, nthreads)
        while unit < end:
            r, image = unit % out_h, unit // out_h
            plane, p = x + image * x_plane, r * stride_h - top
            for first in range(0, out_w, lanes):
                q = (iota("int64", lanes) + first) * stride_w - left
                v = vector(
                    plane, x_row, height, width, kernel_h, kernel_w, dilation_h, dilation_w, p, q,
                    bottom, right, top, left,
                )  # fmt: skip
                offset = (r * out_w + first) * 4
                if out_w - first >= lanes:
                    finish(v, image, offset, 0, operands)
                else:
                    finish_tail(v, image, offset, 0, operands, tail_mask(out_w - first, lanes))
            unit += 1

    return pool_rows


def _checked(kind: str) -> tuple[bool, float]:
    """(whether it is max, the value of an empty window)."""
    if kind not in KINDS:
        raise ValueError(f"pooling {kind!r} is none of {', '.join(KINDS)}")
    return (True, float("-inf")) if kind == "max" else (False, 0.0)
