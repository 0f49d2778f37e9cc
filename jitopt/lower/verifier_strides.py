"""What strided operands address: the loops that kernels of the templates copy, pointwise and rows move them along."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any, NamedTuple

_COPIED = re.compile(r"(p\d+)_(src|dst)")
_LOOPED = re.compile(r"(\w+)_at")


class Loop(NamedTuple):
    """One loop over an operand: how often it runs, and the bytes from one turn to the next (None: known to the kernel
    only)."""

    extent: Any
    stride: Any


def loops_of(word: str, words: Mapping[str, Any]) -> list[Loop]:
    """The loops over the operand that an argument word addresses, outermost first; none where it is not strided.

    `words` are all of the kernel's argument words and what they hold: expressions of a program, numbers of a plan.
    """
    copied = _COPIED.fullmatch(word)
    if copied is not None:
        piece, letter = copied[1], copied[2][0]
        return list(_loops(words, f"{piece}_n", f"{piece}_{letter}"))
    looped = _LOOPED.fullmatch(word)
    if looped is None:
        return []
    name = looped[1]
    loops = list(_loops(words, "n", f"{name}_"))
    if loops and loops[-1].stride is None:  # a pointwise kernel's innermost loop
        loops[-1] = Loop(loops[-1].extent, words.get(f"{name}_inner"))
    if "length" in words:  # along the rows, and from row to row where they stand side by side
        loops.append(Loop(words["length"], words.get(f"{name}_r")))
    if "inner" in words:
        loops.append(Loop(words["inner"], None))
    return loops


def _loops(words: Mapping[str, Any], extent: str, stride: str) -> Iterator[Loop]:
    for axis in count():
        if f"{extent}{axis}" not in words:
            return
        yield Loop(words[f"{extent}{axis}"], words.get(f"{stride}{axis}"))


def ends_of(first: int, loops: list[Loop]) -> tuple[int, int] | None:
    """Where the first and the last turn of all loops begin, in bytes, from where the operand does; None where a loop
    never runs. Extents and strides are numbers."""
    if any(loop.extent < 1 for loop in loops):
        return None
    return first, first + sum((loop.extent - 1) * (loop.stride or 0) for loop in loops)
