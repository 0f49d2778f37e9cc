"""One model, one number of threads: every contestant first looked at alone, then all timed turn about.

Alone, in a process each: does it load the model, are its answers those of ONNX Runtime without optimisation, how long
does loading take, how much memory does it keep. Only who passes is timed, in one process that holds all of them. Every
process may use as many CPUs as there are threads.
"""

from __future__ import annotations

import hashlib
import importlib
import math
import os
import tempfile
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bench.adapters import CONTESTANTS, OURS, Array, environment, installed
from bench.child import ChildFailed, in_child
from bench.inputs import Feeds
from bench.quiet import alone
from jitopt.peer import reference_answers
from jitopt.turns import samples
from jitopt.verify import compare_all

RUNS_WATCHED = 3  # after loading, before memory is looked at
LEAST = 3  # timed runs of each contestant at least


@dataclass(frozen=True)
class Limits:
    """When a race ends: each was timed `runs` times, or `seconds` have passed. `tries`: see `quiet.alone`."""

    seconds: float = 5.0
    runs: int = 300
    tries: int = 1


def contest(model: Path, feeds: Feeds, threads: int, chosen: Sequence[str], limits: Limits) -> dict[str, Any]:
    """Reference, CPUs others used, and a result for each contestant: what `probe` says and times, or a remark why not.

    Raises ChildFailed where nobody can say what the right answer is.
    """
    cpus = sorted(os.sched_getaffinity(0))[:threads]
    setting: dict[str, Any] = {"cpus": cpus, "environment": environment(threads)}
    reference, expected = in_child(reference_answers, model, feeds, **setting)
    results: dict[str, dict[str, Any]] = {}
    for name in chosen:
        missing = CONTESTANTS[name].missing
        if missing:
            results[name] = {"remark": f"not installed: {missing}"}
            continue
        try:
            results[name] = in_child(probe, name, model, feeds, threads, expected, **setting)
        except ChildFailed as error:
            results[name] = {"remark": str(error)}
    passed = [name for name in installed(list(chosen)) if not results[name]["remark"]]
    others = 0.0
    try:
        times_of = partial(in_child, race, passed, model, feeds, threads, limits, **setting)
        raced = alone(times_of, limits.tries, children=True)
        others = raced.pop("others")
        for name, times in raced.items():
            results[name].update(summary(times))
    except ChildFailed as error:
        for name in passed:
            results[name]["remark"] = f"timing together: {error}"
    return {"reference": reference, "others": others, "results": results, **ratio(results)}


def probe(name: str, model: Path, feeds: Feeds, threads: int, expected: list[Array]) -> dict[str, Any]:
    """Load the model once and run it a few times: seconds, bytes of resident memory more than before, largest error.

    The contestant's packages are imported before. `remark` says what is wrong with its answers; who has no part in the
    ratio may be less exact.
    """
    contestant = CONTESTANTS[name]
    for module in contestant.modules:
        importlib.import_module(module)
    before, start = resident(), time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        loaded = contestant.load(model, feeds, threads, Path(folder))
        seconds = time.perf_counter() - start
        found = [loaded.run() for _ in range(RUNS_WATCHED)][-1]
        grown = resident() - before
    comparison = compare_all(found, expected)
    wrong = "" if comparison or not contestant.in_ratio else f"differs: {comparison.reason}"
    return {
        "remark": wrong, "load_seconds": seconds, "memory_bytes": grown, "max_error": comparison.max_error,
        "about": loaded.about,
    }  # fmt: skip


def race(chosen: Iterable[str], model: Path, feeds: Feeds, threads: int, limits: Limits) -> dict[str, list[float]]:
    """Seconds of every timed run, by contestant."""
    with ExitStack() as stack:
        calls = {}
        for name in chosen:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            calls[name] = CONTESTANTS[name].load(model, feeds, threads, folder).run
        return samples(calls, runs=limits.runs, seconds=limits.seconds, least=LEAST)


def resident() -> int:
    """Bytes of this process in memory, as Linux counts them."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def summary(times: Sequence[float]) -> dict[str, Any]:
    """Median, 99th percentile (the slowest, of fewer than a hundred) and number of timed runs."""
    return {"p50": float(np.median(times)), "p99": float(np.quantile(times, 0.99, method="higher")), "runs": len(times)}


def ratio(results: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The fastest of the others that are in the ratio, and its median over ours; None where either is missing."""
    ours = results.get(OURS, {}).get("p50")
    theirs = {
        name: found["p50"]
        for name, found in results.items()
        if name != OURS and CONTESTANTS[name].in_ratio and "p50" in found
    }
    best = min(theirs, key=lambda name: theirs[name], default=None)
    return {"best": best, "ratio": theirs[best] / ours if best is not None and ours else None}


def geometric_mean(values: Iterable[float]) -> float | None:
    """None of nothing."""
    logs = [math.log(value) for value in values]
    return math.exp(sum(logs) / len(logs)) if logs else None


def digest(feeds: Feeds) -> str:
    """sha256 over names, types, shapes and bytes."""
    found = hashlib.sha256()
    for name, array in sorted(feeds.items()):
        found.update(f"{name} {array.dtype} {array.shape} ".encode())
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()
