"""The verifier of plans: memory that is live at one time is apart, and threads meet wherever they must."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from jitopt.errors import CompileError
from jitopt.lower.program import CONSTANT, INPUT, POOL, TABLE, ranges
from jitopt.lower.verifier_strides import ends_of, loops_of
from jitopt.runtime.barriers import ByteSet
from jitopt.runtime.planner import ALIGNMENT
from jitopt.runtime.steps import BARRIER, ONE_THREAD
from jitopt.runtime.text import Place, PlanBuffer, PlanRegion, PlanStep, PlanText

_READ_ONLY = (CONSTANT, INPUT, TABLE)
_WORD = 1 << 63


class Range(NamedTuple):
    """Bytes [start, end) of `space`, the pool ("") or a buffer outside it, and what lies there."""

    space: str
    name: str
    start: int
    end: int


def verify_plan(plan: PlanText, alignment: int = ALIGNMENT) -> None:
    """Check a plan.

    Pool buffers and scratch lie inside the pool, aligned; those live at the same step share no byte, and every use
    falls into the buffer's life and bytes; every byte is written before it is read; inputs, constants and tables are
    never written; argument words fit 64 bits and address bytes of buffers that the step says it reads or writes,
    strided operands with the first and the last turn of their loops; before every step that touches bytes a step since
    the last barrier touches, one of them writing, there is a barrier, unless the calling thread alone runs both.

    Raises CompileError naming step, node and buffer.
    """
    try:
        _Verifier(plan, alignment).run()
    except CompileError as error:
        error.at(model=plan.program)
        raise


class _Verifier:
    def __init__(self, plan: PlanText, alignment: int) -> None:
        self.plan, self.alignment = plan, alignment
        self.buffers = {b.name: b for b in plan.buffers}
        self.written = {b.name: ByteSet() for b in plan.buffers}
        for buffer in plan.buffers:
            if buffer.kind != POOL:
                self.written[buffer.name].add((0, buffer.size))

    def run(self) -> None:
        for buffer in self.plan.buffers:
            self._buffer(buffer)
        for index, step in enumerate(self.plan.steps):
            try:
                self._uses(index, step)
                self._words(step)
                self._apart(index, step)
            except CompileError as error:
                raise _at(index, step, error.message) from None
        self._barriers()

    # memory -----------------------------------------------------------------------------------------------------
    def _buffer(self, buffer: PlanBuffer) -> None:
        if (buffer.kind == POOL) != (buffer.offset is not None and buffer.live is not None):
            where = "has no place in the pool" if buffer.kind == POOL else "lies in the pool"
            raise CompileError(f"buffer '{buffer.name}' of kind {buffer.kind} {where}")
        if buffer.size < 0:
            raise CompileError(f"buffer '{buffer.name}' has {buffer.size} bytes")
        if buffer.offset is not None and buffer.live is not None:
            self._inside(f"buffer '{buffer.name}'", buffer.offset, buffer.size)
            first, last = buffer.live
            if not 0 <= first <= last < len(self.plan.steps):
                raise CompileError(f"buffer '{buffer.name}' lives from step {first} to {last}")

    def _inside(self, what: str, offset: int, size: int) -> None:
        if offset < 0 or offset + size > self.plan.pool_bytes:
            place = f"[{offset}, {offset + size})"
            raise CompileError(f"{what} lies at bytes {place} of a pool of {self.plan.pool_bytes}")
        if offset % self.alignment and size:
            raise CompileError(f"{what} lies at byte {offset}, which is no multiple of {self.alignment}")

    def _uses(self, index: int, step: PlanStep) -> None:
        for region in (*step.reads, *step.writes):
            name, buffer = region.buffer, self.buffers[region.buffer]
            for start, end in self._bytes(region):
                if start < 0 or end > buffer.size:
                    raise CompileError(f"bytes [{start}, {end}) of '{name}' are used, it has {buffer.size}")
            if buffer.live is not None and not buffer.live[0] <= index <= buffer.live[1]:
                raise CompileError(f"buffer '{name}' is used, but lives from step {buffer.live[0]} to {buffer.live[1]}")
        for region in step.reads:
            if not all(map(self.written[region.buffer].covers, self._bytes(region))):
                raise CompileError(f"buffer '{region.buffer}' is read, but nothing has written it before")
        for region in step.writes:
            name = region.buffer
            if self.buffers[name].kind in _READ_ONLY:
                raise CompileError(f"buffer '{name}' is written, it is of kind {self.buffers[name].kind}")
            for written in self._bytes(region):
                self.written[name].add(written)

    def _bytes(self, region: PlanRegion) -> list[tuple[int, int]]:
        """The bytes [start, end) of a region, counted from the buffer's start; no bytes may lie anywhere."""
        size = self.buffers[region.buffer].size if region.size is None else region.size
        return ranges(region.offset, size, region.images, region.stride) if size else []

    def _words(self, step: PlanStep) -> None:
        known: dict[str, list[tuple[int, int]]] = {}
        for region in (*step.reads, *step.writes):
            known.setdefault(region.buffer, []).extend(self._bytes(region))
        words = dict(step.words)
        for name, word in step.words:
            if isinstance(word, Place):
                if word.buffer not in known:
                    raise CompileError(f"word '{name}' addresses '{word.buffer}', which the step does not say it uses")
                ends = ends_of(word.offset, loops_of(name, words))
                if ends is not None and known[word.buffer]:  # else no byte is touched
                    self._place(name, word, ends, known[word.buffer])
            elif isinstance(word, int) and not -_WORD <= word < _WORD:
                raise CompileError(f"word '{name}' is {word}, which does not fit 64 bits")

    def _place(self, name: str, word: Place, ends: tuple[int, int], known: list[tuple[int, int]]) -> None:
        """A word's address, and where the last turn of its loops begins, are bytes that the step says it uses."""
        size = self.buffers[word.buffer].size
        for at, subject in zip(ends, (f"word '{name}' is", f"the loops over '{name}' end at"), strict=True):
            if not 0 <= at < size:
                raise CompileError(f"{subject} byte {at} of '{word.buffer}', which has {size} bytes")
            if not any(start <= at < end for start, end in known):
                raise CompileError(f"{subject} byte {at} of '{word.buffer}', which the step does not say it uses")

    def _apart(self, index: int, step: PlanStep) -> None:
        """What is live at a step shares no byte."""
        live = [
            Range("", f"'{b.name}'", b.offset or 0, (b.offset or 0) + b.size)
            for b in self.plan.buffers if b.live is not None and b.live[0] <= index <= b.live[1]
        ]  # fmt: skip
        scratch = self._scratch(step)
        if scratch is not None:
            self._inside(scratch.name, scratch.start, scratch.end - scratch.start)
            live.append(scratch)
        live = sorted((r for r in live if r.end > r.start), key=lambda r: r.start)
        for one, other in pairwise(live):
            if other.start < one.end:
                raise CompileError(f"{one.name} and {other.name} share bytes from {other.start} on")

    def _scratch(self, step: PlanStep) -> Range | None:
        at, size = step.scratch
        return Range("", "the scratch", at, at + size * self.plan.nthreads) if size else None

    # barriers ---------------------------------------------------------------------------------------------------
    def _barriers(self) -> None:
        """The rule itself, pair by pair; `jitopt.runtime.barriers` finds the same by sets of bytes."""
        since: list[tuple[int, PlanStep, list[Range], list[Range]]] = []
        for index, step in enumerate(self.plan.steps):
            reads, writes = list(self._ranges(step.reads)), list(self._ranges(step.writes))
            scratch = self._scratch(step)
            if scratch is not None:
                writes.append(scratch)
            if step.flags & BARRIER:
                since = []
            for earlier, other, other_reads, other_writes in since:
                if step.flags & other.flags & ONE_THREAD:
                    continue
                common = _common(writes, other_reads + other_writes) or _common(reads, other_writes)
                if common is not None:
                    raise _at(index, step, f"no barrier stands between it and step {earlier}: {common}")
            since.append((index, step, reads, writes))

    def _ranges(self, regions: tuple[PlanRegion, ...]) -> Iterator[Range]:
        for region in regions:
            buffer = self.buffers[region.buffer]
            if buffer.kind not in (CONSTANT, TABLE):
                space = "" if buffer.offset is not None else buffer.name
                at = buffer.offset or 0
                yield from (Range(space, f"'{buffer.name}'", at + s, at + e) for s, e in self._bytes(region))


def _common(mine: list[Range], others: list[Range]) -> str | None:
    """Which of the ranges meets which of the others, if any does."""
    for one in mine:
        for other in others:
            if one.space == other.space and max(one.start, other.start) < min(one.end, other.end):
                same = one.name == other.name
                return f"both touch {one.name}" if same else f"{one.name} shares bytes with {other.name}"
    return None


def _at(index: int, step: PlanStep, message: str) -> CompileError:
    return CompileError(f"step {index} ({step.kernel}): {message}", node=step.nodes[0] if step.nodes else None)
