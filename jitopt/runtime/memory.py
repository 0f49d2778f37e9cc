"""Where the memory of runs comes from: the heap, or a stand-in of a test (`jitopt.runtime.guard`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike

from jitopt.runtime.planner import ALIGNMENT, Buffer, Placement, plan_offsets

Array = np.ndarray[Any, Any]


class Memory(Protocol):
    """Lays out pools and allocates what a run writes. Raises MemoryError where there is no more."""

    def plan(self, buffers: Sequence[Buffer]) -> Placement:
        """Offsets of the buffers in one pool."""
        ...

    def pool(self, placement: Placement) -> Array:
        """`placement.pool_bytes` bytes for one binding, undefined."""
        ...

    def array(self, shape: tuple[int, ...], dtype: DTypeLike) -> Array:
        """A contiguous array for a result or a value between segments, undefined."""
        ...

    def hold(self, array: Array) -> Array:
        """The contiguous array that kernels read for a constant or table: itself, or a copy."""
        ...


class Heap:
    """Ordinary memory."""

    def plan(self, buffers: Sequence[Buffer]) -> Placement:
        return plan_offsets(buffers)

    def pool(self, placement: Placement) -> Array:
        raw = np.empty(placement.pool_bytes + ALIGNMENT, np.uint8)
        start = -raw.ctypes.data % ALIGNMENT
        return raw[start : start + placement.pool_bytes]

    def array(self, shape: tuple[int, ...], dtype: DTypeLike) -> Array:
        return np.empty(shape, dtype)

    def hold(self, array: Array) -> Array:
        return array


HEAP = Heap()
