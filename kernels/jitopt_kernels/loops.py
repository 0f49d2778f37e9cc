"""Loop helpers of generated kernels: which axis the threads share, and loads along a run-time stride."""

from __future__ import annotations

from numba import njit

from .abi import share, word
from .simd import gather, iota, select


@njit
def shared_axis(extents, count, nthreads):
    """The axis to split: the first that splits evenly or is long enough not to matter, else the longest.

    `extents` addresses `count` argument words. (In a tuple, the compiler would keep a test of the index, which may
    raise, as soon as there are more axes than it unrolls.)
    """
    longest, most = 0, 0
    for axis in range(count):
        extent = word(extents, axis)
        if extent >= 8 * nthreads or (extent >= nthreads and extent % nthreads == 0):
            return axis
        if extent > most:
            longest, most = axis, extent
    return longest


@njit
def axis_share(is_shared, extent, grain, tid, nthreads):
    """This thread's [lo, hi) of an axis: its share if the axis is split, else all of it."""
    if is_shared:
        return share(extent, grain, tid, nthreads)
    return 0, extent


@njit
def load_strided(address, stride, dtype, lanes):
    """Elements `stride` bytes apart, the first at `address`."""
    return gather(address, iota("int64", lanes) * stride, dtype)


@njit
def load_strided_masked(address, stride, mask, dtype, lanes):
    """The same where only the mask's lanes exist: the others read the first element again."""
    return gather(address, select(mask, iota("int64", lanes) * stride, 0), dtype)
