"""Where the time of a run goes, step by step, on the driver's own clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jitopt.lower.program import HostStep, Step
from jitopt.runtime.executor import Executor, StepTimes

HOST_STEP = "host step"  # stands for the template of steps that have none


@dataclass(frozen=True)
class StepProfile:
    """Median time of one step: what it is and how long it took, in seconds."""

    label: str
    template: str
    nodes: tuple[str, ...]
    seconds: float


@dataclass(frozen=True)
class Profile:
    """Median step times over the runs, and the median time of a whole run, in seconds."""

    steps: tuple[StepProfile, ...]
    run_seconds: float
    runs: int

    def __str__(self) -> str:
        total = sum(s.seconds for s in self.steps) or 1.0
        by_time = sorted(self.steps, key=lambda s: -s.seconds)
        took = f"{self.run_seconds * 1e3:.3f} ms a run (median of {self.runs})"
        lines = [f"{took}, of which {total * 1e3:.3f} ms in {len(self.steps)} steps; the rest is waiting and the call"]
        lines += [f"  {s.seconds * 1e6:9.1f} us {s.seconds / total:6.1%}  {s.template:14} {s.label}" for s in by_time]
        return "\n".join(lines)


def profile(executor: Executor, inputs: Sequence[Any], runs: int) -> Profile:
    """Run `runs` times (after one to warm up) with stamps. Raises ValueError for fewer than one run."""
    if runs < 1:
        raise ValueError(f"runs is {runs}, it must be at least 1")
    executor.run(inputs, executor.program.outputs)
    taken: list[StepTimes] = []
    for _ in range(runs):
        times = StepTimes()
        executor.run(inputs, executor.program.outputs, times=times)
        taken.append(times)
    return summarise(taken)


def summarise(taken: Sequence[StepTimes]) -> Profile:
    """Medians over several runs of the same program."""
    medians = np.median([[seconds for _, seconds in t.steps] for t in taken], axis=0)
    steps = tuple(_named(step, float(m)) for (step, _), m in zip(taken[0].steps, medians, strict=True))
    return Profile(steps, float(np.median([t.total for t in taken])), len(taken))


def _named(step: Step | HostStep, seconds: float) -> StepProfile:
    if isinstance(step, HostStep):
        return StepProfile(step.node.op, HOST_STEP, (step.node.name,), seconds)
    return StepProfile(step.label, step.spec.template, step.nodes, seconds)
