"""Where threads must meet: the barrier rule of the step table.

Two steps depend on one another when they touch a common byte and one of them writes it, whether or not they share a
value: reused pool bytes order steps that have nothing else in common. A step that depends on any step since the last
barrier gets a barrier before it. Steps that both run on the calling thread alone are ordered by it and need none.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from jitopt.runtime.steps import BARRIER

Range = tuple[int, int]
"""Bytes [start, end) of one address space: pool offsets, or addresses outside it; empty when start >= end."""


class Access(NamedTuple):
    """The bytes a step may read and those it may write, scratch among the latter."""

    reads: Sequence[Range]
    writes: Sequence[Range]


def mark_barriers(accesses: Sequence[Access], one_thread: Sequence[bool] | None = None) -> NDArray[np.int64]:
    """BARRIER or 0 for every step, as few as the rule allows when steps keep their order.

    `one_thread` says which steps run on the calling thread alone; default: none.
    """
    flags = np.zeros(len(accesses), np.int64)
    since_all, since_caller = _Since(), _Since()
    for index, (reads, writes) in enumerate(accesses):
        alone = one_thread is not None and one_thread[index]
        if since_all.conflicts(reads, writes) or (not alone and since_caller.conflicts(reads, writes)):
            flags[index] = BARRIER
            since_all, since_caller = _Since(), _Since()
        (since_caller if alone else since_all).add(reads, writes)
    return flags


class _Since:
    """What a kind of step has touched since the last barrier."""

    def __init__(self) -> None:
        self._read, self._written = ByteSet(), ByteSet()

    def conflicts(self, reads: Iterable[Range], writes: Iterable[Range]) -> bool:
        return any(self._written.touches(r) for r in reads) or any(
            self._written.touches(w) or self._read.touches(w) for w in writes
        )

    def add(self, reads: Iterable[Range], writes: Iterable[Range]) -> None:
        for r in reads:
            self._read.add(r)
        for w in writes:
            self._written.add(w)


class ByteSet:
    """A set of bytes as sorted disjoint ranges; `add` and `touches` take logarithmic time, but for shifting a list."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    def add(self, added: Range) -> None:
        """Include a range."""
        start, end = added
        if start >= end:
            return
        low, high = bisect_left(self._ends, start), bisect_right(self._starts, end)  # ranges it meets or adjoins
        if low < high:
            start, end = min(start, self._starts[low]), max(end, self._ends[high - 1])
        self._starts[low:high], self._ends[low:high] = [start], [end]

    def covers(self, other: Range) -> bool:
        """Whether the set has every byte of the range."""
        start, end = other
        index = bisect_right(self._starts, start) - 1
        return start >= end or (index >= 0 and end <= self._ends[index])

    def touches(self, other: Range) -> bool:
        """Whether the set has a byte of the range."""
        start, end = other
        index = bisect_right(self._ends, start)
        return start < end and index < len(self._starts) and self._starts[index] < end
