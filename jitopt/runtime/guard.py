"""A planner and memory for tests: every buffer on its own pages, ending where a protected page begins.

A kernel that reads or writes one byte past a buffer gets a segmentation fault at the instruction that did it, instead
of another buffer's numbers. Bytes in front of a buffer, on its first page, hold a pattern that `check` compares.
"""

from __future__ import annotations

import ctypes
import math
import mmap
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike, NDArray

from jitopt.runtime.memory import Array
from jitopt.runtime.planner import ALIGNMENT, Buffer, Order, Placement, live_bytes

PAGE = mmap.PAGESIZE
_PATTERN = 0xA5
_PROT_NONE = 0

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


@dataclass(frozen=True)
class GuardedPlacement(Placement):
    """A placement that knows the sizes of its buffers, so that `GuardedPool` can protect all else."""

    sizes: tuple[int, ...]


def guard_pages(
    buffers: Sequence[Buffer], alignment: int = ALIGNMENT, *, order: Order | None = None
) -> GuardedPlacement:
    """A `Planner` that shares nothing: buffer i ends at a page that `GuardedPool` protects.

    `alignment` is not kept: a buffer begins where it must for its last byte to touch the protected page.
    """
    offsets: list[int] = []
    end = PAGE  # the first page is protected as well, against reading backwards
    for buffer in buffers:
        pages = -(-buffer.size // PAGE) * PAGE
        offsets.append(end + pages - buffer.size)
        end += pages + PAGE
    sizes = tuple(buffer.size for buffer in buffers)
    return GuardedPlacement(tuple(offsets), end, max(live_bytes(buffers), default=0), tuple(range(len(sizes))), sizes)


class GuardedPool:
    """Memory for a placement of `guard_pages`: `array` is the whole pool as bytes, `address` where it begins.

    Every page outside the buffers is protected: reading `array` there is a fault too. Used as a context manager it
    checks at the end. The memory goes when neither the pool nor an array of it is referenced.
    """

    def __init__(self, placement: GuardedPlacement) -> None:
        """Raises OSError where the system refuses the mapping."""
        self.placement = placement
        memory = mmap.mmap(-1, placement.pool_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.array = np.frombuffer(memory, np.uint8)
        self.address = int(self.array.ctypes.data)
        self._slack: list[tuple[int, int]] = []
        protected = 0
        for offset, size in zip(placement.offsets, placement.sizes, strict=True):
            start = offset // PAGE * PAGE
            self._protect(protected, start)
            ctypes.memset(self.address + start, _PATTERN, offset - start)
            self._slack.append((start, offset))
            protected = offset + size
        self._protect(protected, placement.pool_bytes)

    def check(self) -> None:
        """Raise MemoryError when something wrote in front of a buffer, on the buffer's first page."""
        for index, (start, end) in enumerate(self._slack):
            if ctypes.string_at(self.address + start, end - start).strip(bytes([_PATTERN])):
                raise MemoryError(f"something was written in front of buffer {index}")

    def _protect(self, start: int, end: int) -> None:
        if end > start and _libc.mprotect(self.address + start, end - start, _PROT_NONE):
            raise OSError(ctypes.get_errno(), "mprotect failed")

    def __enter__(self) -> GuardedPool:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.check()


class GuardedArrays:
    """Arrays for kernel tests, each ending at a protected page."""

    def __init__(self) -> None:
        self._pools: list[GuardedPool] = []

    def empty(self, shape: int | tuple[int, ...], dtype: DTypeLike) -> NDArray[np.generic]:
        """A contiguous array, its bytes undefined, whose last byte is the last before a protected page."""
        kind = np.dtype(dtype)
        size = kind.itemsize * (shape if isinstance(shape, int) else math.prod(shape))
        pool = GuardedPool(guard_pages([Buffer(size, 0, 0)]))
        self._pools.append(pool)
        start = pool.placement.offsets[0]
        return pool.array[start : start + size].view(kind).reshape(shape)

    def copy(self, values: NDArray[np.generic]) -> NDArray[np.generic]:
        """A guarded copy of `values`."""
        out = self.empty(values.shape, values.dtype)
        out[...] = values
        return out

    def check(self) -> None:
        """See `GuardedPool.check`, over all arrays."""
        for pool in self._pools:
            pool.check()


class GuardedMemory:
    """The memory of an executor under test: pools, results, constants and tables all end at protected pages.

    `check` raises MemoryError when a run wrote in front of one of them.
    """

    def __init__(self) -> None:
        self._pools: list[GuardedPool] = []
        self._arrays = GuardedArrays()

    def plan(self, buffers: Sequence[Buffer]) -> Placement:
        return guard_pages(buffers)

    def pool(self, placement: Placement) -> Array:
        assert isinstance(placement, GuardedPlacement)
        self._pools.append(GuardedPool(placement))
        return self._pools[-1].array

    def array(self, shape: tuple[int, ...], dtype: DTypeLike) -> Array:
        return self._arrays.empty(shape, dtype)

    def hold(self, array: Array) -> Array:
        return self._arrays.copy(array)

    def check(self) -> None:
        self._arrays.check()
        for pool in self._pools:
            pool.check()
