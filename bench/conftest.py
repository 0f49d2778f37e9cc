"""Fixtures of the benchmarks: the machine's peaks, and a way to time a case. Run with `pytest bench`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from jitopt_kernels.targets import Target

import jitopt
from jitopt.cli.bench_kernel import result
from jitopt.cli.cases import Case, measure
from jitopt.codegen.cache import Cache
from jitopt.codegen.host import choose_target
from jitopt.runtime.measure import MachinePeak, measure_peak

Time = Callable[..., dict[str, Any]]


@pytest.fixture(scope="session")
def target() -> Target:
    return choose_target()


@pytest.fixture(scope="session")
def peak(target: Target) -> MachinePeak:
    """What one thread can do at most."""
    return measure_peak(target, 1, Cache.default())


@pytest.fixture
def timed(benchmark: Any, peak: MachinePeak) -> Time:
    """Times a case on one thread: pytest-benchmark the whole run, `extra_info` the kernels on the driver's clock.

    `timed(case, group, asked)` returns and records what `jitopt bench-kernel --json` prints, with the share asked for.
    """

    def call(case: Case, group: str, asked: float | None = None, **options: Any) -> dict[str, Any]:
        session = jitopt.compile(case.graph, num_threads=1, **options)
        out = session.run(None, case.feeds)
        speed = measure(session, case, runs=200)
        found = {**result(case, speed, peak), "asked": asked}
        benchmark.group = group
        benchmark.extra_info.update(found)
        benchmark.pedantic(session.run, (None, case.feeds), {"out": out}, rounds=5, warmup_rounds=1)
        return found

    return call
