"""The executor: bindings taken and given back, memory counted, frames kept, phases timed as one step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitopt
from jitopt.errors import ExecutionError, MemoryLimitError
from jitopt.runtime.executor import MAX_FRAMES, Executor, StepTimes
from jitopt.runtime.memory import Heap
from jitopt.runtime.planner import ALIGNMENT
from tests.networks import convolutional, floats


class CountingMemory(Heap):
    """The heap, counting pools; `fails` makes the next pool impossible."""

    def __init__(self) -> None:
        self.pools: list[int] = []
        self.fails = False

    def pool(self, placement: Any) -> Any:
        if self.fails:
            self.fails = False
            raise MemoryError("no pool")
        self.pools.append(placement.pool_bytes)
        return super().pool(placement)


@pytest.fixture(scope="module")
def session() -> Any:
    return jitopt.compile(convolutional())


def executor_of(session: Any, memory: Heap, **options: Any) -> Executor:
    return Executor(session._program, session._model.addresses(), 1, memory=memory, **options)


def run(executor: Executor, images: int = 2, times: StepTimes | None = None) -> Any:
    return executor.run([floats(images, 3, 8, 8)], executor.program.outputs, times=times)[0]


def test_pools_are_aligned_and_as_large_as_planned(session: Any) -> None:
    (plan,) = executor_of(session, Heap()).plans([floats(2, 3, 8, 8)])
    pool = Heap().pool(plan.placement)
    assert pool.nbytes == plan.pool_bytes and pool.ctypes.data % ALIGNMENT == 0


def test_runs_in_turn_share_one_pool(session: Any) -> None:
    memory = CountingMemory()
    executor = executor_of(session, memory)
    expected = run(executor)
    for _ in range(5):
        np.testing.assert_array_equal(run(executor), expected)
    assert len(memory.pools) == 1
    run(executor, images=3)
    assert len(memory.pools) == 2 and executor._busy_bytes == 0


def test_frames_met_lately_are_kept(session: Any) -> None:
    memory = CountingMemory()
    executor = executor_of(session, memory)
    for images in range(1, MAX_FRAMES + 2):
        run(executor, images)
    count = len(memory.pools)
    run(executor, MAX_FRAMES + 1)
    run(executor, 2)
    assert len(memory.pools) == count
    run(executor, 1)  # the one that went
    assert len(memory.pools) == count + 1


def test_a_pool_that_cannot_be_had_is_a_memory_error_and_nothing_stays_counted(session: Any) -> None:
    memory = CountingMemory()
    executor = executor_of(session, memory)
    memory.fails = True
    with pytest.raises(MemoryLimitError, match="not enough memory for this run: no pool") as caught:
        run(executor)
    assert caught.value.model == "convolutional" and executor._busy_bytes == 0
    assert run(executor).shape == (2, 10)


def test_concurrent_runs_count_their_pools(session: Any) -> None:
    """A run that begins while others hold pools is refused where one more would be too much."""
    memory = CountingMemory()
    free = executor_of(session, memory)
    (plan,) = free.plans([floats(2, 3, 8, 8)])
    limit = free._weight_bytes + 2 * plan.pool_bytes
    executor = executor_of(session, memory, max_memory=limit)
    frame = executor.frame(((2, 3, 8, 8),))
    held = [executor._take(frame, 0, executor.plan(frame, 0)) for _ in range(2)]
    with pytest.raises(MemoryLimitError, match="bytes of other runs"):
        run(executor)
    executor._give_back(frame, 0, held.pop())
    assert run(executor).shape == (2, 10)
    with pytest.raises(MemoryLimitError):
        run(executor, images=3)
    executor._give_back(frame, 0, held.pop())
    assert executor._busy_bytes == 0 and run(executor, images=3).shape == (3, 10)  # the idle pools of the others went
    assert frame.idle_bytes == 0


def test_an_error_gives_the_binding_back() -> None:
    graph = jitopt.Graph("look up")
    rows = graph.add("Gather", [graph.constant(floats(4, 3), "w"), graph.input("i", "int64", (1,))], name="row")
    graph.output(graph.add("Relu", [rows], name="y"))
    session = jitopt.compile(graph)
    memory = CountingMemory()
    executor = executor_of(session, memory)
    for _ in range(3):
        with pytest.raises(ExecutionError, match="index 9"):
            executor.run([np.array([9])], executor.program.outputs)
    assert len(memory.pools) <= 1 and executor._busy_bytes == 0


def test_times_cover_the_steps_of_a_run(session: Any) -> None:
    executor, times = executor_of(session, Heap()), StepTimes()
    run(executor, times=times)
    assert [step for step, _ in times.steps] == executor.program.steps
    assert 0 < sum(seconds for _, seconds in times.steps) <= times.total


def test_phases_of_a_step_count_as_one(session: Any) -> None:
    first, second, *_ = session._program.steps
    times = StepTimes()
    times.add([first, first, second], [1.0, 2.0, 4.0])
    times.add([second], [8.0])
    assert times.steps == [(first, 3.0), (second, 12.0)]
