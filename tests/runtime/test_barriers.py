"""The barrier rule against its definition, and what goes wrong when only shared values count."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from jitopt.runtime.barriers import Access, ByteSet, mark_barriers
from jitopt.runtime.planner import Buffer, plan_offsets
from jitopt.runtime.steps import BARRIER

RANGE = st.tuples(st.integers(0, 40), st.integers(0, 8)).map(lambda t: (t[0], t[0] + t[1]))
STEPS = st.lists(st.builds(Access, st.lists(RANGE, max_size=3), st.lists(RANGE, max_size=2)), max_size=12)


def spans(ranges):
    return {byte for start, end in ranges for byte in range(start, end)}


def dependent(one, two):
    reads, writes = spans(one.reads), spans(one.writes)
    return bool(spans(two.writes) & (reads | writes) or spans(two.reads) & writes)


@given(STEPS, st.data())
@settings(max_examples=300)
def test_dependent_steps_are_parted_and_no_barrier_is_idle(steps, data):
    alone = data.draw(st.lists(st.booleans(), min_size=len(steps), max_size=len(steps)))
    flags = mark_barriers(steps, alone)
    last = 0
    for index, step in enumerate(steps):
        if flags[index] == BARRIER:
            needed = [e for e in range(last, index) if dependent(steps[e], step) and not (alone[e] and alone[index])]
            assert needed
            last = index
        for earlier in range(last, index):
            assert not dependent(steps[earlier], step) or (alone[earlier] and alone[index])


@given(st.lists(RANGE, max_size=20), RANGE)
@settings(max_examples=300)
def test_byte_sets_are_sets_of_bytes(ranges, other):
    touched = ByteSet()
    for added in ranges:
        touched.add(added)
    assert touched.touches(other) == bool(spans(ranges) & spans([other]))


def test_reused_bytes_order_steps_that_share_no_value():
    """a -> b reads a; c is a fresh value placed on a's bytes: writing it must wait although no value is shared."""
    buffers = [Buffer(64, 0, 1), Buffer(64, 1, 9), Buffer(64, 2, 9)]  # a, b, c
    a, b, c = ((offset, offset + 64) for offset in plan_offsets(buffers).offsets)
    assert a == c
    values = {"a": [(0, 64)], "b": [(100, 164)], "c": [(200, 264)]}  # as if no two values shared bytes
    by_value = [Access([], values["a"]), Access(values["a"], values["b"]), Access([], values["c"])]
    by_bytes = [Access([], [a]), Access([a], [b]), Access([], [c])]
    assert mark_barriers(by_value).tolist() == [0, BARRIER, 0]
    assert mark_barriers(by_bytes).tolist() == [0, BARRIER, BARRIER]


def run_in_an_unlucky_order(flags, nthreads=2):
    """a = 1, b = a reversed, c = 2 over a's bytes; between barriers thread 1 is done before thread 0 begins."""
    pool = np.zeros(8, np.int64)
    a, b = pool[:4], pool[4:]

    def share(tid):
        return slice(4 // nthreads * tid, 4 // nthreads * (tid + 1))

    def write_a(tid):
        a[share(tid)] = 1

    def reverse_to_b(tid):
        b[share(tid)] = a[::-1][share(tid)]

    def write_c(tid):
        a[share(tid)] = 2

    steps = [write_a, reverse_to_b, write_c]
    starts = [0, *(i for i, flag in enumerate(flags) if flag and i), len(steps)]
    for start, end in pairwise(starts):
        for tid in reversed(range(nthreads)):
            for step in steps[start:end]:
                step(tid)
    return b.tolist()


def test_dropping_a_barrier_between_steps_that_share_bytes_but_no_value_gives_wrong_answers():
    bytes_a, bytes_b = (0, 32), (32, 64)
    by_bytes = [Access([], [bytes_a]), Access([bytes_a], [bytes_b]), Access([], [bytes_a])]
    by_value = [*by_bytes[:2], Access([], [(64, 96)])]  # as if c had bytes of its own
    assert run_in_an_unlucky_order(mark_barriers(by_bytes)) == [1] * 4
    assert run_in_an_unlucky_order(mark_barriers(by_value)) == [2, 2, 1, 1]


def test_a_chain_on_the_calling_thread_needs_no_barrier():
    chain = [Access([(8 * i, 8 * i + 8)], [(8 * i + 8, 8 * i + 16)]) for i in range(4)]
    assert mark_barriers(chain, [True] * 4).tolist() == [0] * 4
    assert mark_barriers(chain, [True, True, False, True]).tolist() == [0, 0, BARRIER, BARRIER]
    assert mark_barriers(chain).tolist() == [0, BARRIER, BARRIER, BARRIER]


def test_readers_of_common_bytes_are_independent():
    assert mark_barriers([Access([(0, 8)], [(8 * i + 8, 8 * i + 16)]) for i in range(5)]).tolist() == [0] * 5
