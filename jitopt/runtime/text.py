"""The text form of plans: a segment bound to shapes, with every number the driver and kernels get.

    plan of "block" segment 0 {
      shapes (n = 2)
      threads 2
      pool 8320 bytes, bound 8320
      buffer %x: input, 1536 bytes
      buffer %relu: pool, 8192 bytes at 0, live 0 to 1
      step 0 k0 flags (barrier, one_thread) nodes (@conv, @relu) {
        scratch 1504 bytes at 8192
        reads (%x, %c0)
        writes (%relu[64, 4096])
        words (x = %x, x_image = 768, y0_at = %relu + 64, s0_word = float(0.5))
      }
    }

`describe_plan` takes the numbers from the plan's own words and table, so what is printed is what runs. Addresses are
shown as buffer and byte, since where buffers lie is in the list above; scratch is bytes a thread. Kernels and buffers
have the names of the program's text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from jitopt.errors import CompileError
from jitopt.ir.dtypes import FLOAT32
from jitopt.ir.lexer import bare, marked, quote
from jitopt.ir.literals import float_text
from jitopt.lower.program import CONSTANT, POOL, TABLE, Address, Buffer, Float, Program, Region, Segment, Step
from jitopt.lower.spec import FIRST_WORD
from jitopt.lower.text import buffer_labels, kernel_names
from jitopt.lower.text_regions import extent_text
from jitopt.lower.text_spec import indented, list_lines
from jitopt.runtime.binding import SegmentPlan
from jitopt.runtime.steps import BARRIER, FLAGS, ONE_THREAD


@dataclass(frozen=True, slots=True)
class Place:
    """A byte of a buffer, which an argument word addresses."""

    buffer: str
    offset: int


@dataclass(frozen=True, slots=True)
class Bits:
    """The bits of a float32 in an argument word."""

    bits: int


Word = int | Place | Bits


@dataclass(frozen=True, slots=True)
class PlanBuffer:
    """A buffer of the segment; `offset` is in the pool and `live` the first and last step, None outside the pool."""

    name: str
    kind: str
    size: int
    offset: int | None = None
    live: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class PlanRegion:
    """Bytes of a buffer that a step touches: as `jitopt.lower.program.Region`, with a name and numbers."""

    buffer: str
    offset: int = 0
    size: int | None = None
    images: int = 1
    stride: int = 0


@dataclass(frozen=True, slots=True)
class PlanStep:
    """One entry of the step table. `scratch` is (offset in the pool, bytes a thread); `words` begin at word 4."""

    kernel: str
    phase: int
    flags: int
    nodes: tuple[str, ...]
    scratch: tuple[int, int]
    reads: tuple[PlanRegion, ...]
    writes: tuple[PlanRegion, ...]
    words: tuple[tuple[str, Word], ...]


@dataclass(frozen=True, slots=True)
class PlanText:
    """A plan as its text says it; two plans that say the same are equal."""

    program: str
    segment: int
    shapes: tuple[tuple[str, int], ...]
    nthreads: int
    pool_bytes: int
    lower_bound: int
    buffers: tuple[PlanBuffer, ...]
    steps: tuple[PlanStep, ...]


FLAG_NAMES = {BARRIER: "barrier", ONE_THREAD: "one_thread"}


# from a plan --------------------------------------------------------------------------------------------------------
def describe_plan(program: Program, plan: SegmentPlan) -> PlanText:
    """What the plan of one of the program's segments says.

    Raises CompileError where its words do not hold what the steps' arguments ask for.
    """
    labels, kernels = buffer_labels(program), kernel_names(program)
    index = next(
        i for i, part in enumerate(program.parts) if isinstance(part, Segment) and part.steps[:1] == plan.steps[:1]
    )
    uses: dict[Buffer, tuple[int, int]] = {}
    for entry, step in enumerate(plan.steps):
        for buffer in (region.buffer for region in (*step.reads, *step.writes)):
            uses[buffer] = uses.get(buffer, (entry, entry))[0], entry
    buffers = []
    for buffer, live in uses.items():
        placed = buffer.kind == POOL
        buffers.append(
            PlanBuffer(
                labels[buffer], buffer.kind, plan.environment(buffer.size), plan.offsets[buffer] if placed else None,
                live if placed else None,
            )
        )  # fmt: skip
    pool_words = set(plan.pool_words.tolist())
    patches = {at: (buffer, offset) for at, buffer, offset in plan.patches}
    steps = []
    for entry, (step, base) in enumerate(zip(plan.steps, plan.blocks, strict=True)):
        _, scratch_at, scratch_bytes, phase = plan.words[base : base + FIRST_WORD].tolist()
        scratch = (scratch_at, scratch_bytes) if scratch_bytes else (0, 0)
        words: list[tuple[str, Word]] = []
        for at, (word, arg) in enumerate(zip(step.spec.words, step.args, strict=True), base + FIRST_WORD):
            found = plan.words[at].item()
            if isinstance(arg, Address):
                offset = _offset(plan, arg.buffer, at, found, pool_words, patches)
                if offset is None:
                    raise _error(entry, step, f"word '{word}' is not made an address of '{arg.buffer.name}'")
                words.append((word, Place(labels[arg.buffer], offset)))
            else:
                words.append((word, Bits(found & 0xFFFFFFFF) if isinstance(arg, Float) else found))
        steps.append(
            PlanStep(
                kernels[step.spec], phase, plan.table[entry, FLAGS].item(), step.nodes, scratch,
                _regions(step.reads, labels, plan), _regions(step.writes, labels, plan), tuple(words),
            )
        )  # fmt: skip
    shapes = tuple(sorted(plan.environment.values.items()))
    return PlanText(
        program.name, index, shapes, plan.nthreads, plan.pool_bytes, plan.placement.lower_bound, tuple(buffers),
        tuple(steps),
    )  # fmt: skip


def _regions(regions: Iterable[Region], labels: Mapping[Buffer, str], plan: SegmentPlan) -> tuple[PlanRegion, ...]:
    evaluate = plan.environment
    return tuple(
        PlanRegion(labels[r.buffer]) if r.size is None else PlanRegion(labels[r.buffer], *map(evaluate, r.dims))
        for r in regions
    )


def _offset(
    plan: SegmentPlan, buffer: Buffer, at: int, word: int, pool_words: set[int],
    patches: dict[int, tuple[Buffer, int]],
) -> int | None:  # fmt: skip
    """The byte of the buffer that word `at` will address; None where it will address something else."""
    if buffer.kind == POOL:
        return word - plan.offsets[buffer] if at in pool_words else None
    if buffer.kind in (CONSTANT, TABLE):
        return word - plan.held[buffer].ctypes.data if buffer in plan.held else None
    patched, offset = patches.get(at, (None, 0))
    return offset if patched is buffer else None


def _error(entry: int, step: Step, message: str) -> CompileError:
    return CompileError(f"step {entry} ({step.spec.template}): {message}", node=step.nodes[0])


# to text ------------------------------------------------------------------------------------------------------------
def print_plan(plan: PlanText) -> str:
    """The plan's text, ending in a newline; `jitopt.runtime.text_parser.parse_plan` reads it."""
    lines = list_lines("shapes", (f"{bare(name)} = {value}" for name, value in plan.shapes))
    lines += [f"threads {plan.nthreads}", f"pool {plan.pool_bytes} bytes, bound {plan.lower_bound}"]
    lines += map(_buffer_text, plan.buffers)
    for index, step in enumerate(plan.steps):
        lines += _step_lines(index, step)
    return "\n".join([f"plan of {quote(plan.program)} segment {plan.segment} {{", *indented(lines), "}"]) + "\n"


def _buffer_text(buffer: PlanBuffer) -> str:
    text = f"buffer {marked('%', buffer.name)}: {buffer.kind}, {buffer.size} bytes"
    if buffer.offset is not None and buffer.live is not None:
        text += f" at {buffer.offset}, live {buffer.live[0]} to {buffer.live[1]}"
    return text


def _step_lines(index: int, step: PlanStep) -> list[str]:
    head = f"step {index} {bare(step.kernel)}"
    if step.phase:
        head += f" phase {step.phase}"
    if step.flags:
        head += f" flags ({', '.join(name for flag, name in FLAG_NAMES.items() if step.flags & flag)})"
    inside: list[str] = []
    if step.scratch[1]:
        inside.append(f"scratch {step.scratch[1]} bytes at {step.scratch[0]}")
    inside += list_lines("reads", map(_region_text, step.reads))
    inside += list_lines("writes", map(_region_text, step.writes))
    inside += list_lines("words", _word_texts(step))
    return [*list_lines(f"{head} nodes", (marked("@", n) for n in step.nodes), " {"), *indented(inside), "}"]


def _region_text(region: PlanRegion) -> str:
    return marked("%", region.buffer) + extent_text(region.offset, region.size, region.images, region.stride)


def _word_texts(step: PlanStep) -> Iterator[str]:
    for name, word in step.words:
        if isinstance(word, Place):
            place = marked("%", word.buffer)
            text = f"{place} + {word.offset}" if word.offset else place
        elif isinstance(word, Bits):
            text = f"float({float_text(np.uint32(word.bits).view(np.float32), FLOAT32)})"
        else:
            text = str(word)
        yield f"{bare(name)} = {text}"
