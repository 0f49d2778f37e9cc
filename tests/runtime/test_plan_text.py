"""Plans print what the driver gets, read back equal, and verify; wrong ones and malformed text are refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from jitopt.errors import CompileError, ModelError
from jitopt.ir.dims import Environment
from jitopt.lower.program import Program, Segment
from jitopt.runtime.binding import SegmentPlan, plan_segment
from jitopt.runtime.guard import GuardedMemory
from jitopt.runtime.memory import HEAP, Memory
from jitopt.runtime.steps import BARRIER, FLAGS, ONE_THREAD
from jitopt.runtime.text import Bits, Place, PlanBuffer, PlanRegion, PlanStep, PlanText, describe_plan, print_plan
from jitopt.runtime.text_parser import parse_plan
from jitopt.runtime.verifier import verify_plan
from tests.golden.small import levels
from tests.lower.programs import everything, lowered
from tests.runtime.test_host import around_a_host_step

SHAPES = {"n": 3, "ids[0]": 1}


def bound(program: Program, nthreads: int = 2, memory: Memory = HEAP) -> list[SegmentPlan]:
    """Plans of all segments, kernels without code."""
    nowhere = dict.fromkeys(program.specs, 0)
    segments = [part for part in program.parts if isinstance(part, Segment)]
    return [plan_segment(s, Environment(SHAPES), nowhere, nthreads, memory) for s in segments]


PROGRAMS: dict[str, Callable[[], Program]] = {
    "small": lambda: levels("avx2").program,
    "around": lambda: lowered(around_a_host_step()),
    "everything": everything,
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("nthreads", [1, 3])
def test_plans_read_back_and_verify(name: str, nthreads: int) -> None:
    program = PROGRAMS[name]()
    for plan in bound(program, nthreads):
        described = describe_plan(program, plan)
        text = print_plan(described)
        assert parse_plan(text) == described and print_plan(parse_plan(text)) == text
        verify_plan(described)


def test_plans_for_guarded_memory_keep_everything_but_alignment() -> None:
    program = levels("avx2").program
    (plan,) = bound(program, memory=GuardedMemory())
    verify_plan(describe_plan(program, plan), alignment=1)
    with pytest.raises(CompileError, match="which is no multiple of 64"):
        verify_plan(describe_plan(program, plan))


def test_words_are_those_of_the_plan() -> None:
    """A changed word shows, whatever the step's arguments say; an address that is not one is refused."""
    program = levels("avx2").program
    (plan,) = bound(program)
    spec, block = plan.steps[0].spec, plan.blocks[0]
    at = {word: block + 4 + i for i, word in enumerate(spec.words)}
    plan.words[at["height"]] = 77
    plan.words[at["y0_at"]] += 192
    words = dict(describe_plan(program, plan).steps[0].words)
    assert words["height"] == 77 and words["y0_at"] == Place("relu", 192)
    plan.patches.clear()
    with pytest.raises(CompileError, match="word 'x' is not made an address of 'image'"):
        describe_plan(program, plan)


def test_multi_phase_steps_and_scratch() -> None:
    program = everything()
    (plan,) = bound(program, nthreads=3)
    described = describe_plan(program, plan)
    assert [(s.kernel, s.phase) for s in described.steps] == [("k0", 0), ("k0", 1), ("k1", 0)]
    assert described.steps[0].scratch == described.steps[1].scratch and described.steps[0].scratch[1] == 192
    assert dict(described.steps[0].words)["s0_word"] == Bits(int(np.float32(-np.inf).view(np.uint32)))
    assert dict(described.steps[2].words)["x"] == Place("x_1", 0) and dict(described.steps[2].words)["fill"] == -1


def plan_of(name: str = "small") -> PlanText:
    program = PROGRAMS[name]()
    return describe_plan(program, bound(program)[0])


def without(plan: PlanText, flag: int, index: int) -> PlanText:
    return change(plan, index, flags=plan.steps[index].flags & ~flag)


def change(plan: PlanText, index: int, **fields: object) -> PlanText:
    steps = list(plan.steps)
    steps[index] = replace(steps[index], **fields)
    return replace(plan, steps=tuple(steps))


def move(plan: PlanText, name: str, **fields: object) -> PlanText:
    return replace(plan, buffers=tuple(replace(b, **fields) if b.name == name else b for b in plan.buffers))


def word(plan: PlanText, index: int, name: str, value: object) -> PlanText:
    return change(plan, index, words=tuple((n, value if n == name else w) for n, w in plan.steps[index].words))


def alone(plan: PlanText) -> PlanText:
    """Every step on the calling thread, no barrier."""
    return replace(plan, steps=tuple(replace(s, flags=ONE_THREAD) for s in plan.steps))


MUTATIONS: dict[str, Callable[[PlanText], PlanText]] = {
    "buffer 'relu' lies at bytes [1048576, 1060864) of a pool of": lambda p: move(p, "relu", offset=1 << 20),
    "buffer 'relu' lies at bytes [-64, 12224)": lambda p: move(p, "relu", offset=-64),
    "buffer 'pool' lies at byte 32, which is no multiple of 64": lambda p: move(p, "pool", offset=32),
    "buffer 'relu' of kind pool has no place in the pool": lambda p: move(p, "relu", offset=None),
    "buffer 'image' of kind input lies in the pool": lambda p: move(p, "image", offset=0, live=(0, 0)),
    "buffer 'image' has -1 bytes": lambda p: move(p, "image", size=-1),
    "buffer 'relu' lives from step 0 to 9": lambda p: move(p, "relu", live=(0, 9)),
    "node 'pool': step 1 (k1): buffer 'relu' is used, but lives from step 0 to 0":
        lambda p: move(p, "relu", live=(0, 0)),
    "step 0 (k0): buffer 'relu' is read, but nothing has written it before":
        lambda p: change(p, 0, reads=regions("relu", "image", "c0", "c1")),
    "step 0 (k0): buffer 'c0' is written, it is of kind constant":
        lambda p: change(p, 0, writes=regions("relu", "c0")),
    "step 1 (k1): buffer 'relu' is read, but nothing has written it before":
        lambda p: change(p, 0, writes=(PlanRegion("relu", 0, 64), PlanRegion("relu", 128, 12160))),
    "step 1 (k1): bytes [12284, 12292) of 'relu' are used, it has 12288":
        lambda p: change(p, 1, reads=(PlanRegion("relu", 4, 8, 3, 6140),)),
    "step 1 (k1): word 'x0_at' is byte 0 of 'relu', which the step does not say it uses":
        lambda p: change(p, 1, reads=(PlanRegion("relu", 64, 12224),)),
    "step 1 (k1): word 'x0_at' addresses 'gelu', which the step does not say it uses":
        lambda p: word(p, 1, "x0_at", Place("gelu", 0)),
    "step 1 (k1): word 'x0_at' is byte 12289 of 'relu', which has 12288 bytes":
        lambda p: word(p, 1, "x0_at", Place("relu", 12289)),
    "step 1 (k1): word 'y0_at' is byte 192 of 'pool', which has 192 bytes":
        lambda p: word(p, 1, "y0_at", Place("pool", 192)),
    "step 1 (k1): the loops over 'x0_at' end at byte 12320 of 'relu', which has 12288 bytes":
        lambda p: word(p, 1, "length", 66),
    "step 1 (k1): the loops over 'x0_at' end at byte -8224 of 'relu'": lambda p: word(p, 1, "x0_0", -2048),
    "step 1 (k1): the loops over 'y0_at' end at byte 160 of 'pool', which the step does not say it uses":
        lambda p: change(p, 1, writes=(PlanRegion("pool", 0, 160),)),
    "step 1 (k1): word 'length' is 9223372036854775808, which does not fit 64 bits":
        lambda p: word(p, 1, "length", 1 << 63),
    "step 1 (k1): 'relu' and 'pool' share bytes from": lambda p: move(p, "pool", offset=plan_offset(p, "relu") + 64),
    "step 0 (k0): the scratch lies at byte 17": lambda p: change(p, 0, scratch=(17, 64)),
    "step 0 (k0): 'relu' and the scratch share bytes":
        lambda p: change(p, 0, scratch=(plan_offset(p, "relu") + 128, 64)),
    "node 'pool': step 1 (k1): no barrier stands between it and step 0":
        lambda p: without(p, BARRIER, 1),
}  # fmt: skip


def regions(*names: str) -> tuple[PlanRegion, ...]:
    return tuple(map(PlanRegion, names))


def plan_offset(plan: PlanText, name: str) -> int:
    return next(b.offset for b in plan.buffers if b.name == name and b.offset is not None)


@pytest.mark.parametrize("message", MUTATIONS)
def test_unsound_plans_are_refused(message: str) -> None:
    plan = plan_of()
    with pytest.raises(CompileError) as caught:
        verify_plan(MUTATIONS[message](plan))
    assert message in str(caught.value) and caught.value.model == "small"


def test_the_calling_thread_alone_needs_no_barrier() -> None:
    plan = plan_of()
    assert any(s.flags & BARRIER for s in plan.steps)
    verify_plan(alone(plan))


def test_reused_bytes_need_a_barrier() -> None:
    """Two steps that share no buffer, but bytes that their buffers lie in one after the other; or a buffer outside."""

    def step(flags: int, writes: str) -> PlanStep:
        return PlanStep("k0", 0, flags, ("a",), (0, 0), (), (PlanRegion(writes),), ())

    early, late = PlanBuffer("early", "pool", 100, 0, (0, 0)), PlanBuffer("late", "pool", 64, 64, (1, 1))
    plan = PlanText("p", 0, (), 2, 128, 128, (early, late), (step(0, "early"), step(BARRIER, "late")))
    verify_plan(plan)
    with pytest.raises(CompileError, match="no barrier stands between it and step 0: 'late' shares bytes with 'early'"):
        verify_plan(without(plan, BARRIER, 1))
    verify_plan(move(without(plan, BARRIER, 1), "early", size=64))
    outside = replace(plan, buffers=(PlanBuffer("y", "output", 8),), steps=(step(0, "y"), step(0, "y")))
    with pytest.raises(CompileError, match="no barrier stands between it and step 0: both touch 'y'"):
        verify_plan(outside)


def test_parts_of_a_buffer_that_are_apart_need_no_barrier() -> None:
    """Two steps that write every other 16 bytes, in the pool and outside; the third reads what both wrote."""

    def step(flags: int, *writes: PlanRegion, reads: tuple[PlanRegion, ...] = ()) -> PlanStep:
        return PlanStep("k0", 0, flags, ("a",), (0, 0), reads, writes, ())

    even, odd = PlanRegion("x", 0, 16, 4, 32), PlanRegion("x", 16, 16, 4, 32)
    for x in (PlanBuffer("x", "pool", 128, 0, (0, 2)), PlanBuffer("x", "output", 128)):
        steps = (step(0, even), step(0, odd), step(BARRIER, reads=regions("x")))
        plan = PlanText("p", 0, (), 2, 128, 128, (x,), steps)
        verify_plan(plan)
        assert parse_plan(print_plan(plan)) == plan
        with pytest.raises(CompileError, match="no barrier stands between it and step 0: both touch 'x'"):
            verify_plan(without(plan, BARRIER, 2))
        with pytest.raises(CompileError, match="no barrier stands between it and step 0: both touch 'x'"):
            verify_plan(change(plan, 1, writes=(replace(odd, offset=15, size=17),)))


def test_flags_are_those_of_the_table() -> None:
    program = levels("avx2").program
    (plan,) = bound(program)
    assert [s.flags for s in describe_plan(program, plan).steps] == plan.table[:, FLAGS].tolist()


HEAD = 'plan of "p" segment 0 {\n  shapes (n = 2) threads 1 pool 64 bytes, bound 64\n  buffer %x: input, 16 bytes\n  '
STEP = HEAD + "step 0 k0 nodes (@a) { "


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1, column 1: expected 'plan', found the end of the text"),
        (HEAD + "} }", "line 4, column 5: unexpected '}' after the plan"),
        (HEAD + "buffer %x: input, 1 bytes", "line 4, column 10: buffer 'x' is defined twice"),
        (HEAD + "buffer %y: pool, 8 bytes at 0 }", "line 4, column 33: expected ',', found '}'"),
        (HEAD + "step 1 k0", "line 4, column 8: expected step 0, found 1"),
        (HEAD + "step 0 k0 flags (fast)", "line 4, column 20: unknown flag 'fast', it is one of barrier, one_thread"),
        (STEP + "reads (%y)", "line 4, column 33: buffer 'y' is not defined before its use"),
        (STEP + "reads (%x[4])", "line 4, column 36: expected two or four dims of a region, found 1"),
        (STEP + "reads (%x[4 8])", "line 4, column 38: expected ',', found '8'"),
        (STEP + "reads () writes () words (x = %y)", "line 4, column 56: buffer 'y' is not defined before its use"),
        (STEP + "reads () writes () words (x = 1.5)", "line 4, column 56: expected an integer, found '1.5'"),
        (STEP + "reads () words ()", "line 4, column 35: expected 'writes', found 'words'"),
    ],
)
def test_malformed_text(text: str, message: str) -> None:
    with pytest.raises(ModelError) as caught:
        parse_plan(text)
    assert message in str(caught.value)
