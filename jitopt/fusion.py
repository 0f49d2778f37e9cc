"""What did fusion buy?  Every group against its members run one by one, then each kind of rewrite, then break-even.

Times are medians of runs interleaved with those of the programs they are compared with, so that a machine whose speed
drifts does not favour one of them. The members of the groups, `aside` and `host` partition the optimised graph; times
of single steps add up to `steps_seconds` and `unfused_steps_seconds`. A run takes longer than its steps: checking
feeds, allocating results and the call into native code are in `fused_seconds` and `unfused_seconds` only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from jitopt.ir.dims import Environment
from jitopt.ir.graph import Node, Value
from jitopt.ir.types import TensorType
from jitopt.lower.loops import value_shape
from jitopt.profile import HOST_STEP, summarise
from jitopt.runtime.executor import Executor, StepTimes
from jitopt.turns import settle


@dataclass(frozen=True)
class GroupBenefit:
    """One group: the sum of its members' times run one by one, its own time (seconds), and bytes it does not move."""

    label: str
    template: str
    members: tuple[str, ...]
    unfused_seconds: float
    fused_seconds: float
    bytes_not_moved: int

    @property
    def saved_seconds(self) -> float:
        return self.unfused_seconds - self.fused_seconds


@dataclass(frozen=True)
class KindBenefit:
    """What one kind of rewrite saves: run time without it, and with everything, in seconds."""

    name: str
    without_seconds: float
    saved_seconds: float


@dataclass(frozen=True)
class FusionReport:
    """The whole account; `str()` is a table, `as_dict()` plain data."""

    groups: tuple[GroupBenefit, ...]
    # Nodes that need no step: views, shape arithmetic, transposes that readers look through, what is joined in place.
    aside: tuple[str, ...]
    host: tuple[str, ...]
    aside_seconds: float  # of `aside`, run one by one
    host_seconds: float
    unfused_host_seconds: float
    kinds: tuple[KindBenefit, ...]
    unfused_seconds: float
    fused_seconds: float
    aside_bytes_not_moved: int  # that kernels of `aside` would read and write
    unfused_pool_bytes: int
    fused_pool_bytes: int
    compile_seconds: float
    runs: int

    @property
    def steps_seconds(self) -> float:
        """The time of all steps: of the groups and the host steps."""
        return sum(g.fused_seconds for g in self.groups) + self.host_seconds

    @property
    def unfused_steps_seconds(self) -> float:
        """The time of all steps when every operator is a step of its own."""
        return sum(g.unfused_seconds for g in self.groups) + self.aside_seconds + self.unfused_host_seconds

    @property
    def bytes_not_moved(self) -> int:
        """Of groups and of what is aside."""
        return sum(g.bytes_not_moved for g in self.groups) + self.aside_bytes_not_moved

    @property
    def pool_bytes_saved(self) -> int:
        return self.unfused_pool_bytes - self.fused_pool_bytes

    @property
    def saved_seconds(self) -> float:
        """What a run saves against running one operator at a time."""
        return self.unfused_seconds - self.fused_seconds

    @property
    def break_even_runs(self) -> int | None:
        """Runs after which compiling has paid, or None if it never does."""
        return None if self.saved_seconds <= 0 else int(np.ceil(self.compile_seconds / self.saved_seconds))

    def as_dict(self) -> dict[str, Any]:
        return {
            **asdict(self), "steps_seconds": self.steps_seconds, "unfused_steps_seconds": self.unfused_steps_seconds,
            "bytes_not_moved": self.bytes_not_moved, "pool_bytes_saved": self.pool_bytes_saved,
            "saved_seconds": self.saved_seconds, "break_even_runs": self.break_even_runs,
        }  # fmt: skip

    def __str__(self) -> str:
        lines = [f"{'unfused us':>11} {'fused us':>9} {'saved':>6} {'MB not moved':>13}  group"]
        for g in sorted(self.groups, key=lambda g: -g.saved_seconds):
            share = g.saved_seconds / g.unfused_seconds if g.unfused_seconds else 0.0
            lines.append(
                f"{g.unfused_seconds * 1e6:11.1f} {g.fused_seconds * 1e6:9.1f} {share:6.0%} "
                f"{g.bytes_not_moved / 1e6:13.3f}  {g.template}: {g.label}"
            )
        lines += ["", f"one operator at a time {self.unfused_seconds * 1e3:9.3f} ms a run"]
        lines += [f"  {k.name:20} saves {k.saved_seconds * 1e3:9.3f} ms a run" for k in self.kinds]
        lines += [
            f"everything             {self.fused_seconds * 1e3:9.3f} ms a run",
            f"pool {self.unfused_pool_bytes:,} -> {self.fused_pool_bytes:,} bytes, "
            f"{self.bytes_not_moved / 1e6:.3f} MB a run not moved",
        ]
        runs = self.break_even_runs
        pays = "does not pay on this machine" if runs is None else f"pays after {runs:,} runs"
        lines.append(
            f"compiling cost {self.compile_seconds:.2f} s, saves {self.saved_seconds * 1e3:.3f} ms a run: {pays}"
        )
        return "\n".join(lines)


def measure(executors: Sequence[Executor], inputs: Sequence[Any], runs: int) -> list[list[StepTimes]]:
    """Step times of each executor over `runs` interleaved rounds, after one round to warm up."""
    if runs < 1:
        raise ValueError(f"runs is {runs}, it must be at least 1")
    settle()  # threads of whatever ran before, ONNX Runtime perhaps
    taken: list[list[StepTimes]] = [[] for _ in executors]
    for number in range(runs + 1):
        for executor, record in zip(executors, taken, strict=True):
            times = StepTimes()
            executor.run(inputs, executor.program.outputs, times=times)
            if number:
                record.append(times)
    return taken


def report(
    fused: Executor, unfused: Executor, variants: dict[str, Executor], inputs: Sequence[Any], *,
    nodes: Sequence[Node], compile_seconds: float, runs: int,
) -> FusionReport:  # fmt: skip
    """Compare a program with itself without grouping, and with each of `variants` (kind of rewrite left out).

    Raises ValueError for fewer than one run.
    """
    taken = measure([fused, unfused, *variants.values()], inputs, runs)
    whole, single = summarise(taken[0]), summarise(taken[1])
    alone = {name: step.seconds / len(step.nodes) for step in single.steps for name in step.nodes}
    environment = fused.environment(inputs)
    by_name = {n.name: n for n in nodes}
    groups: list[GroupBenefit] = []
    host: list[str] = []
    for step in whole.steps:
        if step.template == HOST_STEP:
            host += step.nodes
            continue
        unfused_seconds = sum(alone.pop(name, 0.0) for name in step.nodes)
        moved = _bytes_not_moved([by_name[name] for name in step.nodes], environment)
        groups.append(GroupBenefit(step.label, step.template, step.nodes, unfused_seconds, step.seconds, moved))
    covered = {name for group in groups for name in group.members} | set(host)
    host_seconds = sum(s.seconds for s in whole.steps if s.template == HOST_STEP)
    unfused_host = sum(alone.pop(name, 0.0) for name in host)
    kinds = tuple(
        KindBenefit(name, s.run_seconds, s.run_seconds - whole.run_seconds)
        for name, s in ((name, summarise(t)) for name, t in zip(variants, taken[2:], strict=True))
    )
    return FusionReport(
        tuple(groups), tuple(n.name for n in nodes if n.name not in covered), tuple(host), sum(alone.values()),
        host_seconds, unfused_host, kinds, single.run_seconds, whole.run_seconds,
        sum(2 * _bytes(v, environment) for name in alone for v in by_name[name].outputs), _pool(unfused, inputs),
        _pool(fused, inputs), compile_seconds, runs,
    )  # fmt: skip


def _pool(executor: Executor, inputs: Sequence[Any]) -> int:
    return max((p.pool_bytes for p in executor.plans(inputs)), default=0)


def _bytes_not_moved(nodes: Sequence[Node], environment: Environment) -> int:
    """Bytes that single kernels would write and read for values that stay inside the group."""
    inside = set(nodes)
    total = 0
    for node in nodes:
        for value in node.outputs:
            readers = [user for user, _ in value.uses if user in inside]
            stays = all(user in inside for user, _ in value.uses) and not node.graph.is_output(value)
            total += (len(set(readers)) + stays) * _bytes(value, environment)
    return total


def _bytes(value: Value, environment: Environment) -> int:
    if not isinstance(value.type, TensorType) or value.type.shape is None:
        return 0
    return int(np.prod(environment.shape(value_shape(value)), dtype=np.int64)) * value.dtype.itemsize
