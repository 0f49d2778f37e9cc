"""Plans: a segment bound to concrete shapes.

Binding evaluates every expression once, places the pool's buffers, and writes the argument words of all steps. What
is left open are addresses: of the pool (added when a Binding takes one) and of the arrays outside it (feeds, results,
values that cross a host step), patched into the words before every run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from jitopt.ir.dims import Environment
from jitopt.lower.program import CONSTANT, POOL, TABLE, Address, Buffer, Float, Region, Segment, Step, ranges
from jitopt.lower.spec import FIRST_WORD, KernelSpec
from jitopt.runtime.barriers import Access, Range, mark_barriers
from jitopt.runtime.launch import Launch
from jitopt.runtime.memory import HEAP, Memory
from jitopt.runtime.planner import ALIGNMENT, Placement
from jitopt.runtime.planner import Buffer as Live
from jitopt.runtime.steps import ARGS, FLAGS, KERNEL, ONE_THREAD, SLOT, STEP_WORDS

ONE_THREAD_WORK = 16 * 1024  # steps that move fewer bytes than this are not worth waking anyone
STATUS_WORDS = 4  # state, address of the reporting step's argument block, code, value
_OUTSIDE = 1 << 48  # where the pseudo offsets of arrays outside the pool begin, for the barrier rule


@dataclass
class SegmentPlan:
    """A segment's argument words and step table for one set of shapes, and the layout of its pool.

    `words` has pool addresses as offsets; `pool_words` are the places of those, `patches` the places of addresses of
    outside buffers. `blocks` gives for each table entry the index of its argument block in `words`, `steps` its step.
    """

    words: np.ndarray[Any, Any]
    pool_words: np.ndarray[Any, Any]
    patches: list[tuple[int, Buffer, int]]
    table: np.ndarray[Any, Any]
    blocks: list[int]
    steps: list[Step]
    placement: Placement
    pool_bytes: int
    unshared_bytes: int
    offsets: dict[Buffer, int]
    sizes: dict[Buffer, int]
    held: dict[Buffer, np.ndarray[Any, Any]]  # constants and tables whose addresses stand in `words`
    environment: Environment
    nthreads: int


def plan_segment(
    segment: Segment, environment: Environment, kernels: Mapping[KernelSpec, int], nthreads: int,
    memory: Memory = HEAP,
) -> SegmentPlan:  # fmt: skip
    """Bind a segment: `kernels` are the addresses of its specs' code.

    Raises KeyError where the environment lacks a symbol.
    """
    entries = [(step, phase) for step in segment.steps for phase in range(step.phases)]
    live = _LiveRanges()
    scratch_bytes: list[int] = []
    for index, (step, _) in enumerate(entries):
        for region in (*step.reads, *step.writes):
            if region.buffer.kind == POOL:
                live.use(region.buffer, index)
        scratch_bytes.append(_aligned(environment(step.scratch)))
    sizes = {buffer: environment(buffer.size) for buffer in live.ranges}
    requests = [Live(sizes[b], first, last) for b, (first, last) in live.ranges.items()]
    first_entry = 0
    scratch_slots: list[int] = []
    for step in segment.steps:
        last_entry = first_entry + step.phases - 1
        bytes_needed = scratch_bytes[first_entry] * nthreads
        scratch_slots += [len(requests)] * step.phases
        requests.append(Live(bytes_needed, first_entry, last_entry))
        first_entry = last_entry + 1
    placement = memory.plan(requests)
    offsets = {buffer: placement.offsets[i] for i, buffer in enumerate(live.ranges)}
    writer = _WordWriter(environment, offsets, memory)
    table = np.zeros((len(entries), STEP_WORDS), np.int64)
    blocks: list[int] = []
    touched = _Touched(environment, offsets)
    accesses: list[Access] = []
    alone: list[bool] = []
    for index, (step, phase) in enumerate(entries):
        scratch_at = placement.offsets[scratch_slots[index]]
        blocks.append(len(writer.words))
        writer.block(step, scratch_at, scratch_bytes[index], phase)
        table[index, KERNEL] = kernels[step.spec]
        table[index, SLOT] = index
        alone.append(environment(step.work) < ONE_THREAD_WORK)
        accesses.append(touched.access(step, (scratch_at, scratch_bytes[index] * nthreads)))
    table[:, FLAGS] = mark_barriers(accesses, alone) | np.where(alone, ONE_THREAD, 0)
    unshared = sum(_aligned(r.size) for r in requests)
    return SegmentPlan(
        np.array(writer.words, np.int64), np.array(writer.pool_words, np.int64), writer.patches, table, blocks,
        [step for step, _ in entries], placement, placement.pool_bytes, unshared, offsets, sizes, writer.held,
        environment, nthreads,
    )  # fmt: skip


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


class _LiveRanges:
    def __init__(self) -> None:
        self.ranges: dict[Buffer, tuple[int, int]] = {}

    def use(self, buffer: Buffer, index: int) -> None:
        first, _ = self.ranges.get(buffer, (index, index))
        self.ranges[buffer] = (first, index)


class _WordWriter:
    """Appends argument blocks to one list of words, noting which words hold addresses still open."""

    def __init__(self, environment: Environment, offsets: Mapping[Buffer, int], memory: Memory) -> None:
        self.words: list[int] = []
        self.pool_words: list[int] = []
        self.patches: list[tuple[int, Buffer, int]] = []
        self.held: dict[Buffer, np.ndarray[Any, Any]] = {}
        self._environment, self._offsets, self._memory = environment, offsets, memory

    def block(self, step: Step, scratch_at: int, scratch_bytes: int, phase: int) -> None:
        base, evaluate = len(self.words), self._environment
        self.pool_words.append(base + 1)
        self.words += (0, scratch_at, scratch_bytes, phase)
        for index, arg in enumerate(step.args, base + FIRST_WORD):
            if isinstance(arg, Address):
                self.words.append(self._address(index, arg.buffer, evaluate(arg.offset)))
            elif isinstance(arg, Float):
                self.words.append(arg.bits)
            else:
                self.words.append(evaluate(arg))

    def _address(self, index: int, buffer: Buffer, offset: int) -> int:
        if buffer.kind == POOL:
            self.pool_words.append(index)
            return self._offsets[buffer] + offset
        if buffer.kind in (CONSTANT, TABLE):
            return int(self._held(buffer).ctypes.data) + offset
        self.patches.append((index, buffer, offset))
        return 0

    def _held(self, buffer: Buffer) -> np.ndarray[Any, Any]:
        """The array of a constant or table, which the plan keeps alive."""
        found = self.held.get(buffer)
        if found is None:
            array = buffer.array if buffer.table is None else buffer.table.fill(self._environment)
            assert array is not None
            found = self.held[buffer] = self._memory.hold(np.ascontiguousarray(array))
        return found


class _Touched:
    """Byte ranges that steps read and write: offsets in the pool, and beyond them a place for every outside buffer."""

    def __init__(self, environment: Environment, offsets: Mapping[Buffer, int]) -> None:
        self._evaluate, self._bases, self._end = environment, dict(offsets), _OUTSIDE

    def access(self, step: Step, scratch: Range) -> Access:
        """Of one step; `scratch` is its first byte and their number."""
        reads = [at for r in step.reads if r.buffer.kind not in (CONSTANT, TABLE) for at in self._ranges(r)]
        writes = [at for r in step.writes for at in self._ranges(r)]
        if scratch[1]:
            writes.append((scratch[0], scratch[0] + scratch[1]))
        return Access(reads, writes)

    def _ranges(self, region: Region) -> list[Range]:
        base = self._bases.get(region.buffer)
        if base is None:
            base = self._bases[region.buffer] = self._end
            self._end += self._evaluate(region.buffer.size)
        offset, size, images, stride = map(self._evaluate, region.dims)
        return ranges(base + offset, size, images, stride)


class Binding:
    """A plan with memory: its own pool and words, used by one run at a time."""

    def __init__(self, plan: SegmentPlan, pool: np.ndarray[Any, Any], nthreads: int, flush_denormals: bool) -> None:
        self.plan, self.pool = plan, pool
        self.words = plan.words.copy()
        self.words[plan.pool_words] += pool.ctypes.data
        self.table = plan.table.copy()
        base = self.words.ctypes.data
        self.table[:, ARGS] = [base + 8 * block for block in plan.blocks]
        self._patches = plan.patches
        self.status = np.zeros(STATUS_WORDS, np.int64)
        self.words[np.array(plan.blocks, np.int64)] = self.status.ctypes.data
        self.launch = Launch(self.table, nthreads, flush_denormals=flush_denormals)

    def error(self) -> tuple[Step, int, int] | None:
        """The first error a kernel recorded in this run (step, code, value), which is then forgotten."""
        if not self.status[0]:
            return None
        address, code, value = (int(w) for w in self.status[1:])
        self.status[:] = 0
        block = (address - int(self.words.ctypes.data)) // 8
        return self.plan.steps[self.plan.blocks.index(block)], code, value

    def patch(self, addresses: Mapping[Buffer, int]) -> None:
        """Write the addresses of outside buffers into the words."""
        words = self.words
        for index, buffer, offset in self._patches:
            words[index] = addresses[buffer] + offset
