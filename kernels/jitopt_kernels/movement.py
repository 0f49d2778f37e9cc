"""Kernels that move elements: rows of strided copies, gathers of rows, table-driven takes, layout changes.

Elements are moved by size, as bytes, int32 or int64, whatever they mean; strides and offsets are in bytes.
"""

from __future__ import annotations

from collections.abc import Callable

from numba import njit

from .abi import INDEX_OUT_OF_RANGE, report, share, word
from .loops import load_strided, load_strided_masked
from .simd import (
    convert,
    gather,
    iota,
    load,
    load_masked,
    load_scalar,
    select,
    store,
    store_masked,
    store_scalar,
    tail_mask,
)  # fmt: skip

SIZES = {"uint8": 1, "int32": 4, "int64": 8}


def make_copy_row(*, dtype: str, lanes: int) -> Callable[..., None]:
    """copy(dst, src, count): `count` neighbouring elements."""
    size = SIZES[dtype]

    @njit
    def copy(dst, src, count):
        full = count // lanes * lanes
        for i in range(0, full, lanes):
            store(dst + i * size, load(src + i * size, dtype, lanes))
        if full < count:
            mask = tail_mask(count - full, lanes)
            store_masked(dst + full * size, load_masked(src + full * size, mask, dtype), mask)

    return copy


def make_copy_strided_row(*, dtype: str, lanes: int) -> Callable[..., None]:
    """copy(dst, src, stride, count): `count` elements `stride` bytes apart become neighbours; stride 0 repeats one."""
    size = SIZES[dtype]

    @njit
    def copy(dst, src, stride, count):
        full = count // lanes * lanes
        for i in range(0, full, lanes):
            store(dst + i * size, load_strided(src + i * stride, stride, dtype, lanes))
        if full < count:
            mask = tail_mask(count - full, lanes)
            store_masked(dst + full * size, load_strided_masked(src + full * stride, stride, mask, dtype, lanes), mask)

    return copy


def make_gather(*, dtype: str, lanes: int, index: str) -> Callable[..., None]:
    """Rows picked by indices: y[o, i, :] = x[o, index[i], :].

    Arguments: args (for errors), x, indices, y, outer, count (indices), axis (extent gathered from), row (elements of
    a row), tid, nthreads. A negative index counts from the end; one out of range is reported, and row 0 is taken.
    """
    size, index_size = SIZES[dtype], SIZES[index]
    copy = make_copy_row(dtype=dtype, lanes=lanes)

    @njit
    def gather_rows(args, x, indices, y, outer, count, axis, row, tid, nthreads):
        low, high = share(outer * count, 1, tid, nthreads)
        step = row * size
        for unit in range(low, high):
            o, i = unit // count, unit % count
            wanted = convert(load_scalar(indices + i * index_size, index), "int64")
            at = wanted + axis if wanted < 0 else wanted
            if at < 0 or at >= axis:
                report(args, INDEX_OUT_OF_RANGE, wanted)
                at = 0
            if axis > 0:
                copy(y + unit * step, x + (o * axis + at) * step, row)

    return gather_rows


def make_take(*, dtype: str, lanes: int, axes: int) -> Callable[..., None]:
    """Elements by tables of byte offsets, one table an axis: y[i, j, ...] = x[t0[i] + t1[j] + ...], or `fill`.

    A negative table entry says that the element lies outside and gets the fill value. Arguments: x, y, fill (a word),
    tables and extents (each addresses `axes` argument words: addresses of int64 tables, and extents), tid, nthreads.
    Padding in every mode is such a take.
    """
    size, last = SIZES[dtype], axes - 1

    @njit
    def take(x, y, fill, tables, extents, tid, nthreads):
        rows = 1
        for a in range(last):
            rows *= word(extents, a)
        low, high = share(rows, 1, tid, nthreads)
        count, columns = word(extents, last), word(tables, last)
        for row in range(low, high):
            base, inside, rest = 0, True, row
            for b in range(last):
                a = last - 1 - b
                extent = word(extents, a)
                at = load_scalar(word(tables, a) + rest % extent * 8, "int64")
                rest //= extent
                inside = inside and at >= 0
                base += at
            out = y + row * count * size
            for i in range(count):
                at = load_scalar(columns + i * 8, "int64")
                if inside and at >= 0:
                    store_scalar(out + i * size, load_scalar(x + base + at, dtype))
                else:
                    _store_word(out + i * size, fill)

    if dtype == "int64":

        @njit
        def _store_word(address, value):
            store_scalar(address, value)
    else:

        @njit
        def _store_word(address, value):
            store_scalar(address, convert(value, dtype))

    return take


def make_to_blocked(*, lanes: int) -> Callable[..., None]:
    """float32 [N, C, P] to blocked [N, ceil(C/c), P, c], c = lanes; lanes beyond C become zero.

    Arguments: x, y, images, channels, pixels, x_image and y_image (bytes from image to image), tid, nthreads.
    """

    @njit
    def to_blocked(x, y, images, channels, pixels, x_image, y_image, tid, nthreads):
        channel_step = pixels * 4
        blocks = (channels + lanes - 1) // lanes
        low, high = share(images * blocks, 1, tid, nthreads)
        for unit in range(low, high):
            image, block = unit // blocks, unit % blocks
            src = x + image * x_image + block * lanes * channel_step
            dst = y + image * y_image + block * pixels * lanes * 4
            valid = channels - block * lanes
            if valid >= lanes:
                for p in range(pixels):
                    store(dst + p * lanes * 4, load_strided(src + p * 4, channel_step, "int32", lanes))
            else:
                mask = tail_mask(valid, lanes)
                for p in range(pixels):
                    found = load_strided_masked(src + p * 4, channel_step, mask, "int32", lanes)
                    store(dst + p * lanes * 4, select(mask, found, 0))

    return to_blocked


def make_from_blocked(*, lanes: int) -> Callable[..., None]:
    """Blocked float32 [N, ceil(C/c), P, c] to [N, C, P]; arguments as of `to_blocked`."""
    copy = make_copy_strided_row(dtype="int32", lanes=lanes)

    @njit
    def from_blocked(x, y, images, channels, pixels, x_image, y_image, tid, nthreads):
        low, high = share(images * channels, 1, tid, nthreads)
        for unit in range(low, high):
            image, channel = unit // channels, unit % channels
            block, lane = channel // lanes, channel % lanes
            src = x + image * x_image + block * pixels * lanes * 4 + lane * 4
            copy(y + image * y_image + channel * pixels * 4, src, lanes * 4, pixels)

    return from_blocked


def make_shuffle(*, lanes: int) -> Callable[..., None]:
    """Channel shuffle of a blocked float32 [N, C, P]: channel i * C / groups + j becomes channel j * groups + i.

    Arguments: x, y, images, channels, groups, pixels, x_image and y_image (bytes from image to image), tid, nthreads.
    Each output block gathers its lanes from as many channels; `some` pixels at a time, whose lines stay in L1 for the
    other blocks that take from them.
    """
    vec, some = lanes * 4, 256

    @njit
    def shuffle(x, y, images, channels, groups, pixels, x_image, y_image, tid, nthreads):
        blocks, chunks, size = (channels + lanes - 1) // lanes, (pixels + some - 1) // some, channels // groups
        low, high = share(images * chunks * blocks, 1, tid, nthreads)
        for unit in range(low, high):
            image, first, block = unit // blocks // chunks, unit // blocks % chunks * some, unit % blocks
            channel = iota("int64", lanes) + block * lanes
            exists = channel < channels
            source = select(exists, channel % groups * size + channel // groups, 0)
            offsets = source // lanes * (pixels * vec) + source % lanes * 4
            src, dst = x + image * x_image + first * vec, y + image * y_image + (block * pixels + first) * vec
            for p in range(min(some, pixels - first)):
                store(dst + p * vec, select(exists, gather(src + p * vec, offsets, "int32"), 0))

    return shuffle


def make_gather_nd(*, dtype: str, lanes: int, depth: int) -> Callable[..., None]:
    """Rows picked by tuples of indices: y[i, :] = x[indices[i, 0], ..., indices[i, depth - 1], :].

    Arguments: args (for errors), x, indices (int64), y, count (tuples), row (elements of a row), extents (addresses
    `depth` argument words), tid, nthreads. Negative indices count from the end; one out of range is reported and taken
    as 0.
    """
    size = SIZES[dtype]
    copy = make_copy_row(dtype=dtype, lanes=lanes)

    @njit
    def gather_nd(args, x, indices, y, count, row, extents, tid, nthreads):
        low, high = share(count, 1, tid, nthreads)
        step = row * size
        for i in range(low, high):
            place, empty = 0, False
            for a in range(depth):
                extent = word(extents, a)
                wanted = load_scalar(indices + (i * depth + a) * 8, "int64")
                at = wanted + extent if wanted < 0 else wanted
                if at < 0 or at >= extent:
                    report(args, INDEX_OUT_OF_RANGE, wanted)
                    at = 0
                empty = empty or extent <= 0
                place = place * extent + at
            if not empty:
                copy(y + i * step, x + place * step, row)

    return gather_nd
