"""The memory planner: where in one pool each buffer lives, so that buffers in use at the same time never overlap.

Integers only: it knows sizes and the first and last step of each buffer's use, nothing of tensors. Buffers are placed
one after another, each into the smallest gap that holds it among those placed that live at the same time. Which order
is best depends on the model, so several are tried (largest first, largest area first, the steps with most live bytes
first [Pisarchyk and Lee, "Efficient memory management for deep neural net inference", 2020], by first use), then they
are repaired: the buffers that reach highest are placed earlier ("squeaky wheel", Joslin and Clements 1999).
The search ends when the pool is as small as the largest sum of bytes live at one step, which nothing can beat.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple, Protocol

import numpy as np

from jitopt.runtime.placing import Placer, choose_placer

ALIGNMENT = 64

Order = tuple[int, ...]


class Buffer(NamedTuple):
    """`size` bytes needed from step `first` to step `last`, both included."""

    size: int
    first: int
    last: int


@dataclass(frozen=True)
class Placement:
    """Where each buffer begins, how large the pool is, and what no pool can be smaller than.

    `order` is the order of placing that led here; given back to `plan_offsets` for other sizes of the same buffers it
    saves the search.
    """

    offsets: tuple[int, ...]
    pool_bytes: int
    lower_bound: int
    order: Order


class Planner(Protocol):
    """What places buffers: `plan_offsets`, or a stand-in of a test."""

    def __call__(
        self, buffers: Sequence[Buffer], alignment: int = ALIGNMENT, *, order: Order | None = None
    ) -> Placement:
        """See `plan_offsets`."""
        ...


def plan_offsets(buffers: Sequence[Buffer], alignment: int = ALIGNMENT, *, order: Order | None = None) -> Placement:
    """Offsets, multiples of `alignment`, at which buffers that live at the same step share no byte.

    A buffer of size 0 gets offset 0. With `order` only that order is tried. Equal arguments give equal placements.
    Raises ValueError for a negative size, a life that ends before it begins, or an order that is no permutation.
    """
    for index, buffer in enumerate(buffers):
        if buffer.size < 0 or buffer.last < buffer.first:
            raise ValueError(f"buffer {index} is impossible: {buffer}")
    if order is not None and sorted(order) != list(range(len(buffers))):
        raise ValueError(f"the order is no permutation of {len(buffers)} buffers")
    real = [index for index, buffer in enumerate(buffers) if buffer.size > 0]
    aligned = [buffer._replace(size=-(-buffer.size // alignment) * alignment) for buffer in buffers]
    bound = max(live_bytes(aligned), default=0)
    place = choose_placer(*([buffer[field] for buffer in aligned] for field in range(3)))
    if order is not None:
        pool, offsets = place([index for index in order if buffers[index].size > 0])
        return Placement(tuple(offsets), pool, bound, order)
    pool, offsets, best = _search(aligned, real, place, bound)
    zeros = [index for index, buffer in enumerate(buffers) if buffer.size == 0]
    return Placement(tuple(offsets), pool, bound, (*best, *zeros))


def live_bytes(buffers: Sequence[Buffer]) -> list[int]:
    """Bytes live at each step, from the first step any buffer needs to the last."""
    if not buffers:
        return []
    start = min(buffer.first for buffer in buffers)
    change = [0] * (max(buffer.last for buffer in buffers) - start + 2)
    for size, first, last in buffers:
        change[first - start] += size
        change[last - start + 1] -= size
    return list(accumulate(change[:-1]))


def _search(
    buffers: Sequence[Buffer], real: Sequence[int], place: Placer, bound: int
) -> tuple[int, list[int], list[int]]:
    """The best placement the budget allows, with its order."""
    found: list[tuple[int, list[int], list[int]]] = []
    for order in _orders(buffers, real):
        found.append((*place(order), order))
        if found[-1][0] <= bound or len(found) == place.tries:
            return min(found, key=lambda result: result[0])
    best = min(found, key=lambda result: result[0])
    for turn in range(place.tries - len(found)):  # each order in turn is repaired, and repaired again
        _, offsets, order = found[turn % len(found)]
        high = {i for i in order if offsets[i] + buffers[i].size >= best[0]}
        order = [i for i in order if i in high] + [i for i in order if i not in high]
        found[turn % len(found)] = (*place(order), order)
        best = min(best, found[turn % len(found)], key=lambda result: result[0])
        if best[0] <= bound:
            break
    return best


def _orders(buffers: Sequence[Buffer], real: Sequence[int]) -> Iterator[list[int]]:
    """The orders worth trying, most often best first."""
    yield sorted(real, key=lambda i: (-buffers[i].size, buffers[i].first, i))
    yield sorted(real, key=lambda i: (-buffers[i].size * (buffers[i].last - buffers[i].first + 1), i))
    peaks = _peaks(buffers)
    yield sorted(real, key=lambda i: (-peaks[i], -buffers[i].size, i))
    yield sorted(real, key=lambda i: (buffers[i].first, -buffers[i].size, i))
    yield sorted(real, key=lambda i: (-buffers[i].last, -buffers[i].size, i))


def _peaks(buffers: Sequence[Buffer]) -> list[int]:
    """The most bytes live at any step of each buffer's life (a sparse table of maxima over 2^k steps)."""
    start = min((buffer.first for buffer in buffers), default=0)
    table = [np.array(live_bytes(buffers), np.int64)]
    while (half := 1 << (len(table) - 1)) * 2 <= len(table[0]):
        table.append(np.maximum(table[-1][:-half], table[-1][half:]))
    peaks: list[int] = []
    for _, first, last in buffers:
        level = (last - first + 1).bit_length() - 1
        row = table[level]
        peaks.append(int(max(row[first - start], row[last - start + 1 - (1 << level)])))
    return peaks
