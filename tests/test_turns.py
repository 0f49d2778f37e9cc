"""The rule of a turn, on a clock that only moves when somebody sleeps or works: wait, warm up, then time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from jitopt import turns


@dataclass
class Machine:
    """Two cores and a process on them. Threads left spinning use one core until `busy_until` and slow the next call."""

    now: float = 0.0
    used: float = 0.0
    busy_until: float = 0.0
    log: list[str] = field(default_factory=list)

    def pass_time(self, seconds: float, own: float) -> None:
        """`own` CPUs work for us meanwhile."""
        self.used += own * seconds + max(0.0, min(self.busy_until, self.now + seconds) - self.now)
        self.now += seconds

    def sleep(self, seconds: float) -> None:
        self.pass_time(seconds, 0.0)

    def contestant(self, name: str, seconds: float, spins: float = 0.0) -> Callable[[], None]:
        """A call that takes twice as long while others spin, and leaves its own threads spinning."""

        def call() -> None:
            self.log.append(name)
            self.pass_time(seconds * (2 if self.busy_until > self.now else 1), 1.0)
            self.busy_until = self.now + spins

        return call

    @property
    def clock(self) -> turns.Clock:
        return turns.Clock(lambda: self.now, lambda: self.used, self.sleep)


def test_who_spins_does_not_slow_the_next() -> None:
    machine = Machine()
    calls = {"ours": machine.contestant("ours", 0.05), "theirs": machine.contestant("theirs", 0.03, spins=0.04)}
    found = turns.samples(calls, runs=4, clock=machine.clock)
    assert found["ours"] == pytest.approx([0.05] * 4)
    # Theirs slows itself down when run again at once, as it would in a service: the wait is before a turn only.
    assert found["theirs"] == pytest.approx([0.06] * 4)


def test_a_turn_is_one_warm_call_and_the_timed_ones() -> None:
    machine = Machine()
    calls = {name: machine.contestant(name, 0.04) for name in "ab"}
    found = turns.samples(calls, runs=4, clock=machine.clock)
    assert "".join(machine.log) == "aaabbb" * 2  # two of 0.04 s fit into a turn's 0.1 s
    assert [len(times) for times in found.values()] == [4, 4]


@pytest.mark.parametrize(("seconds", "most", "calls"), [(1.0, 10, 1), (0.001, 10, 10), (0.001, 3, 3), (0.03, 10, 3)])
def test_timed_calls_of_a_turn(seconds: float, most: int, calls: int) -> None:
    machine = Machine()
    assert len(turns.turn(machine.contestant("x", seconds), most, machine.clock)) == calls
    assert len(machine.log) == calls + 1


def test_waiting_is_bounded() -> None:
    machine = Machine(busy_until=1e9)
    assert not turns.settle(machine.clock)
    assert turns.PATIENCE <= machine.now < turns.PATIENCE + 2 * turns.POLL
    still = Machine()
    assert turns.settle(still.clock) and still.now == pytest.approx(turns.POLLS * turns.POLL)


def test_the_end_of_waiting_is_when_nothing_runs() -> None:
    machine = Machine(busy_until=0.1)
    assert turns.settle(machine.clock)
    assert 0.1 <= machine.now <= 0.1 + (turns.POLLS + 1) * turns.POLL


def test_a_spinning_thread_off_the_cpu_for_a_moment_is_not_taken_for_asleep() -> None:
    machine = Machine(busy_until=0.05)
    stolen = iter([False, True, False, True, True] + [False] * 100)

    def sleep(seconds: float) -> None:
        machine.used -= min(seconds, max(0.0, machine.busy_until - machine.now)) if next(stolen) else 0.0
        machine.sleep(seconds)

    assert turns.settle(turns.Clock(lambda: machine.now, lambda: machine.used, sleep)) and machine.now >= 0.05


def test_seconds_end_the_rounds_but_not_before_the_least() -> None:
    machine = Machine()
    calls = {"slow": machine.contestant("slow", 1.0), "fast": machine.contestant("fast", 0.001)}
    found = turns.samples(calls, runs=100, seconds=0.5, least=3, clock=machine.clock)
    assert len(found["slow"]) == 3 and len(found["fast"]) == 30


def test_medians_and_nobody() -> None:
    numbers = iter(range(100))
    found = turns.interleaved({"x": lambda: next(numbers)}, runs=5)
    assert next(numbers) == 6 and found["x"] >= 0
    assert turns.interleaved({}) == {}
