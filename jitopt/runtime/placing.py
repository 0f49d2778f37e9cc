"""Placing buffers in a given order, each into the best gap: the inner loop of the planner, in two forms.

`ListPlacer` knows for each buffer which others live at the same time, and looks only at those: quick when few do, as in
a network. `ArrayPlacer` compares each buffer with all placed ones in NumPy: quick when most live together, where those
lists would be as long as the square of the number of buffers. Both give the same offsets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Placed = tuple[int, list[int]]
"""Pool bytes and the offset of every buffer (0 for those of no size)."""

_MICROSECONDS_A_BUFFER, _MICROSECONDS = 40, 40_000
"""The budget of a search, whichever is more: 40 ms up to 1,000 buffers."""


class Placer(Protocol):
    """Places the buffers it was made for in any order."""

    tries: int
    """How many orders the budget allows, at least 1. Counted, not timed: equal inputs give equal plans."""

    def __call__(self, order: Sequence[int]) -> Placed:
        """Place the buffers named in `order`, one after another."""
        ...


def choose_placer(sizes: Sequence[int], firsts: Sequence[int], lasts: Sequence[int]) -> Placer:
    """The quicker form for these buffers. Lives include both ends; buffers of size 0 are never placed."""
    real = [i for i, size in enumerate(sizes) if size > 0]
    starts = np.sort(np.array([firsts[i] for i in real], np.int64))
    begun = np.searchsorted(starts, np.array([lasts[i] for i in real], np.int64), "right")
    pairs = int(begun.sum()) - len(real) * (len(real) + 1) // 2  # of buffers that live at the same time
    lists, arrays = 3 * len(real) + pairs // 4, len(real) * (20 + len(real) // 150)  # microseconds an order
    budget = max(_MICROSECONDS_A_BUFFER * len(real), _MICROSECONDS)
    if lists <= arrays:
        return ListPlacer(sizes, firsts, lasts, max(1, budget // max(1, lists)))
    return ArrayPlacer(sizes, firsts, lasts, max(1, budget // max(1, arrays)))


class ListPlacer:
    """See the module's text."""

    def __init__(self, sizes: Sequence[int], firsts: Sequence[int], lasts: Sequence[int], tries: int) -> None:
        self.tries = tries
        self._sizes = sizes
        self._neighbours: list[list[int]] = [[] for _ in sizes]
        live: list[int] = []
        for i in sorted((i for i, size in enumerate(sizes) if size > 0), key=lambda i: firsts[i]):
            first = firsts[i]
            live = [j for j in live if lasts[j] >= first]
            self._neighbours[i] += live
            for j in live:
                self._neighbours[j].append(i)
            live.append(i)

    def __call__(self, order: Sequence[int]) -> Placed:
        sizes = self._sizes
        offsets = [0] * len(sizes)
        taken: list[tuple[int, int] | None] = [None] * len(sizes)
        pool = 0
        for i in order:
            size = sizes[i]
            blocks = [block for j in self._neighbours[i] if (block := taken[j]) is not None]
            blocks.sort()
            at, best, gap_size = 0, -1, pool + 1
            for start, end in blocks:
                if size <= start - at < gap_size:
                    best, gap_size = at, start - at
                if end > at:
                    at = end
            if best < 0:
                best = at
            offsets[i] = best
            taken[i] = best, best + size
            pool = max(pool, best + size)
        return pool, offsets


class ArrayPlacer:
    """See the module's text."""

    def __init__(self, sizes: Sequence[int], firsts: Sequence[int], lasts: Sequence[int], tries: int) -> None:
        self.tries = tries
        self._sizes, self._firsts, self._lasts = sizes, firsts, lasts

    def __call__(self, order: Sequence[int]) -> Placed:
        offsets = [0] * len(self._sizes)
        pool = 0
        starts, ends, firsts, lasts = (np.empty(len(order), np.int64) for _ in range(4))  # sorted by start
        for count, i in enumerate(order):
            size, first, last = self._sizes[i], self._firsts[i], self._lasts[i]
            live = np.flatnonzero((firsts[:count] <= last) & (lasts[:count] >= first))
            at = _best_gap(starts[live], ends[live], size)
            place = int(np.searchsorted(starts[:count], at))
            for array, value in ((starts, at), (ends, at + size), (firsts, first), (lasts, last)):
                array[place + 1 : count + 1] = array[place:count]
                array[place] = value
            offsets[i] = at
            pool = max(pool, at + size)
        return pool, offsets


def _best_gap(starts: NDArray[np.int64], ends: NDArray[np.int64], size: int) -> int:
    """Start of the smallest gap of at least `size` before or between blocks sorted by start, or the end of all."""
    if not len(starts):
        return 0
    reach = np.maximum.accumulate(ends)
    gap_starts = np.concatenate((_ZERO, reach[:-1]))
    gaps = starts - gap_starts
    fitting = np.flatnonzero(gaps >= size)
    if not len(fitting):
        return int(reach[-1])
    return int(gap_starts[fitting[np.argmin(gaps[fitting])]])


_ZERO: NDArray[np.int64] = np.zeros(1, np.int64)
