"""Bytes of buffers that the steps of a program name: what is certain to lie outside, whatever the extents."""

from __future__ import annotations

from jitopt.errors import CompileError
from jitopt.ir.bounds import nonnegative
from jitopt.lower.program import Address, Region


def contained(region: Region) -> None:
    """Raise CompileError for a region that leaves its buffer, where that is certain."""
    if region.size is None or empty(region):
        return
    end = region.offset + (region.images - 1) * region.stride + region.size
    if nonnegative(-1 - region.offset) or nonnegative(end - region.buffer.size - 1):
        raise CompileError(
            f"uses bytes {region.offset} to {end} of '{region.buffer.name}', which has {region.buffer.size} bytes"
        )  # fmt: skip


def empty(region: Region) -> bool:
    """Whether the region has no bytes, for certain; it may then lie anywhere."""
    return region.images == 0 or (region.buffer.size if region.size is None else region.size) == 0


def inside(word: str, address: Address) -> None:
    """Raise CompileError for an address outside its buffer, where that is certain."""
    offset, size = address.offset, address.buffer.size
    if offset == 0:
        return
    if nonnegative(-1 - offset) or nonnegative(offset - size - 1):
        raise CompileError(
            f"argument '{word}' addresses byte {offset} of '{address.buffer.name}', which has {size} bytes"
        )  # fmt: skip
