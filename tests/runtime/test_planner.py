"""The memory planner: no overlap whatever the buffers, near the bound, quick, deterministic."""

from __future__ import annotations

import random
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jitopt.runtime import placing
from jitopt.runtime.planner import Buffer, Placement, live_bytes, plan_offsets

SIZES = st.integers(0, 5000) | st.integers(0, 3)
BUFFERS = st.lists(
    st.tuples(SIZES, st.integers(0, 30), st.integers(0, 30)).map(lambda t: Buffer(t[0], min(t[1:]), max(t[1:]))),
    max_size=40,
)


def check(buffers: list[Buffer], placement: Placement, alignment: int) -> None:
    assert len(placement.offsets) == len(buffers)
    assert all(offset % alignment == 0 for offset in placement.offsets)
    placed = [(o, b) for o, b in zip(placement.offsets, buffers, strict=True) if b.size]
    for index, (start, buffer) in enumerate(placed):
        assert start + buffer.size <= placement.pool_bytes
        for other_start, other in placed[:index]:
            if buffer.first <= other.last and other.first <= buffer.last:
                assert start >= other_start + other.size or other_start >= start + buffer.size
    assert placement.pool_bytes >= placement.lower_bound >= max(live_bytes(buffers), default=0)
    assert sorted(placement.order) == list(range(len(buffers)))


@given(BUFFERS, st.sampled_from([1, 32, 64, 100]))
@settings(max_examples=300, deadline=None)
def test_buffers_that_live_together_share_no_byte(buffers, alignment):
    placement = plan_offsets(buffers, alignment)
    check(buffers, placement, alignment)
    assert plan_offsets(buffers, alignment) == placement


@given(BUFFERS, st.randoms(use_true_random=False))
@settings(max_examples=200, deadline=None)
def test_a_given_order_is_used_for_other_sizes_too(buffers, rng):
    first = plan_offsets(buffers)
    assert plan_offsets(buffers, order=first.order).offsets == first.offsets
    resized = [b._replace(size=rng.randrange(5000)) for b in buffers]
    check(resized, plan_offsets(resized, order=first.order), 64)


@given(BUFFERS, st.randoms(use_true_random=False))
@settings(max_examples=200, deadline=None)
def test_both_placers_give_the_same_offsets(buffers, rng):
    fields = [[b[k] for b in buffers] for k in range(3)]
    order = [i for i, b in enumerate(buffers) if b.size]
    rng.shuffle(order)
    assert placing.ListPlacer(*fields, 1)(order) == placing.ArrayPlacer(*fields, 1)(order)


def test_empty_plan_and_empty_buffers():
    assert plan_offsets([]) == Placement((), 0, 0, ())
    nothing = plan_offsets([Buffer(0, 0, 5), Buffer(0, 2, 3)])
    assert (nothing.offsets, nothing.pool_bytes) == ((0, 0), 0)
    between = plan_offsets([Buffer(100, 0, 5), Buffer(0, 0, 5), Buffer(100, 6, 7)])
    assert between.pool_bytes == between.lower_bound == 128


@pytest.mark.parametrize("buffer", [Buffer(-1, 0, 0), Buffer(1, 3, 2)])
def test_impossible_buffers_are_refused(buffer):
    with pytest.raises(ValueError, match="buffer 1 is impossible"):
        plan_offsets([Buffer(1, 0, 0), buffer])


def test_an_order_that_is_no_permutation_is_refused():
    with pytest.raises(ValueError, match="no permutation"):
        plan_offsets([Buffer(1, 0, 0)] * 2, order=(0, 0))


def network(count: int, seed: int, longest_skip: int) -> list[Buffer]:
    """A chain of layers, some of whose outputs are read again later."""
    rng = random.Random(seed)
    sizes = [c * s * 1024 for c in (64, 128, 256) for s in (1, 4, 7, 14)]
    return [
        Buffer(rng.choice(sizes), step, step + 1 + (rng.randrange(1, longest_skip) if rng.random() < 0.3 else 0))
        for step in range(count)
    ]


def u_shape(depth: int) -> list[Buffer]:
    """An encoder whose outputs wait for their decoder."""
    down = [Buffer((1 << 20) >> d, 2 * d, 4 * depth - 2 * d) for d in range(depth)]
    inner = [Buffer((1 << 21) >> d, 2 * d + 1, 2 * d + 2) for d in range(depth)]
    up = [Buffer((1 << 21) >> d, 4 * depth - 2 * d, 4 * depth - 2 * d + 2) for d in range(depth)]
    return down + inner + up


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(("longest_skip", "excess"), [(3, 1.0), (12, 1.0), (50, 1.06)])
def test_networks_reach_the_bound(seed, longest_skip, excess):
    placement = plan_offsets(network(300, seed, longest_skip))
    assert placement.pool_bytes <= excess * placement.lower_bound


@pytest.mark.parametrize("depth", [2, 4, 7])
def test_u_shapes_reach_the_bound(depth):
    placement = plan_offsets(u_shape(depth))
    assert placement.pool_bytes == placement.lower_bound


@pytest.mark.parametrize(("count", "seconds"), [(1000, 0.05), (10_000, 1.0)])
def test_the_search_is_quick(count, seconds):
    buffers = network(count, 1, 30)
    took = []
    for _ in range(3):
        start = time.process_time()
        plan_offsets(buffers)
        took.append(time.process_time() - start)
    assert min(took) < seconds


def test_many_buffers_that_mostly_live_together():
    rng = random.Random(5)
    steps = [sorted(rng.sample(range(2000), 2)) for _ in range(2000)]
    buffers = [Buffer(rng.randrange(1, 1 << 20), *life) for life in steps]
    start = time.process_time()
    placement = plan_offsets(buffers)
    assert time.process_time() - start < 2.0
    assert placement.pool_bytes <= 1.15 * placement.lower_bound
