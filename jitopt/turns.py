"""Times taken turn about, so that neither a machine whose speed drifts nor the one before favours anybody.

Libraries keep their worker threads spinning after a run, to be quick should another follow: ONNX Runtime for about
40 ms. On two cores whoever runs next has half a machine. So every contestant, ours and theirs, gets the same turn: it
waits until this process uses no CPU, makes one call that does not count (its data and threads come back), then the
calls that do.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

POLL = 0.004
"""Seconds between looks at the process's CPU time: far above the clock's step and what a look itself costs."""
POLLS = 3
"""Looks in a row that find it idle: a spinning thread that other processes keep off the CPU uses none for a moment."""
IDLE = 0.25
"""CPUs the process may use and count as idle; one spinning thread uses 1."""
PATIENCE = 0.25
"""Seconds a turn waits at most: longer than the 0.2 s that OpenMP's threads spin by default."""
TURN = 0.1
"""Seconds the timed calls of a turn may take together, where they are many."""
CALLS = 10
"""Timed calls of a turn at most."""


@dataclass(frozen=True)
class Clock:
    """Wall clock, CPU time of all threads of this process, and a way to wait, all in seconds."""

    wall: Callable[[], float] = time.perf_counter
    cpu: Callable[[], float] = time.process_time
    sleep: Callable[[float], None] = time.sleep


CLOCK = Clock()


def settle(clock: Clock = CLOCK) -> bool:
    """Wait until no thread of this process runs, `PATIENCE` seconds at most; whether it came to that."""
    end, idle = clock.wall() + PATIENCE, 0
    while idle < POLLS:
        if clock.wall() >= end:
            return False
        wall, cpu = clock.wall(), clock.cpu()
        clock.sleep(POLL)
        idle = idle + 1 if clock.cpu() - cpu <= IDLE * (clock.wall() - wall) else 0
    return True


def turn(call: Callable[[], object], most: int = CALLS, clock: Clock = CLOCK) -> list[float]:
    """Seconds of each timed call of one turn: one at least, `most` at most, as many as fit into `TURN` seconds."""
    settle(clock)
    call()
    taken: list[float] = []
    while len(taken) < most and (not taken or sum(taken) + taken[-1] <= TURN):
        start = clock.wall()
        call()
        taken.append(clock.wall() - start)
    return taken


def samples(
    calls: Mapping[str, Callable[[], object]], *, runs: int = 30, seconds: float = float("inf"), least: int = 3,
    clock: Clock = CLOCK,
) -> dict[str, list[float]]:  # fmt: skip
    """Seconds of every timed call, by contestant, in rounds in which each has its turn.

    Ends once each was timed `runs` times, or `seconds` have passed and each was timed `least` times.
    """
    taken: dict[str, list[float]] = {name: [] for name in calls}
    begin = clock.wall()
    while any(len(times) < runs for times in taken.values()):
        if all(len(times) >= least for times in taken.values()) and clock.wall() - begin > seconds:
            break
        for name, call in calls.items():
            if len(taken[name]) < runs:
                taken[name] += turn(call, min(CALLS, runs - len(taken[name])), clock)
    return taken


def interleaved(
    calls: Mapping[str, Callable[[], object]], *, runs: int = 30, seconds: float = float("inf"), least: int = 3
) -> dict[str, float]:
    """Median seconds of each call, of its `samples`."""
    found = samples(calls, runs=runs, seconds=seconds, least=least)
    return {name: statistics.median(times) for name, times in found.items()}
