"""ResNet-50 from one operator at a time to everything, step by step, and ONNX Runtime on the same picture."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import jitopt
from jitopt.codegen.host import cpu_allowance
from jitopt.demo.resnet import Network, resnet50
from jitopt.errors import JitoptError
from jitopt.peer import runtime_installed, runtime_session
from jitopt.turns import interleaved
from jitopt.verify import Comparison, compare_all

STAGES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("one operator at a time", {"optimize": False}),
    ("+ folding", {"disable": ("fusion",)}),
    ("+ epilogues", {"disable": ("pointwise-groups",)}),
    ("+ everything", {}),
)
PEER = "ONNX Runtime"
SECONDS, RUNS = 3.0, 20
Progress = Callable[[int, int, str, float], None]


class Stage:
    """One step of the waterfall: the session, what compiling it took, and whether it answers right."""

    def __init__(self, name: str, options: dict[str, Any], network: Network, progress: Progress | None) -> None:
        self.name, self.compiled = name, 0

        def count(done: int, total: int, key: str, seconds: float) -> None:
            self.compiled = done
            if progress is not None:
                progress(done, total, key, seconds)

        start = time.perf_counter()
        self.session = jitopt.compile(network.graph, progress=count, verify=False, **options)
        self.seconds = time.perf_counter() - start
        self.explanation = self.session.explain().as_dict()
        self.comparison = compare_all(self.session.run(None, network.feeds), list(network.answer.values()))

    @property
    def kernels(self) -> list[str]:
        """The kernels of a run in order: equal lists are equal programs."""
        return [group["kernel"] for group in self.explanation["groups"]]

    def run(self, network: Network) -> object:
        return self.session.run(None, network.feeds)


def waterfall(progress: Progress | None = None) -> dict[str, Any]:
    """Compile seconds, milliseconds at every step (medians, turn about), break-even and agreement with NumPy."""
    network = resnet50()
    operators = Counter(node.op for node in network.graph)
    # The last stage is compiled first: what compiling takes must not be less for what other stages left in the cache.
    stages = [Stage(name, options, network, progress) for name, options in reversed(STAGES)][::-1]
    peer, remark = _peer(network)
    distinct = [s for i, s in enumerate(stages) if not i or s.kernels != stages[i - 1].kernels]
    calls: dict[str, Callable[[], object]] = {stage.name: partial(stage.run, network) for stage in distinct}
    if peer is not None:
        calls[PEER] = partial(peer.run, None, network.feeds)
    times = interleaved(calls, runs=RUNS, seconds=SECONDS)
    rows: list[dict[str, Any]] = []
    for stage in stages:
        same = stage.name not in times
        seconds = rows[-1]["ms"] / 1e3 if same else times[stage.name]
        rows.append(_row(stage, seconds, same))
    full, saved = stages[-1], (rows[0]["ms"] - rows[-1]["ms"]) / 1e3
    theirs = times.get(PEER)
    return {
        "ok": all(stage.comparison for stage in stages),
        "operators": sum(operators.values()),
        "convolutions": operators["Conv"],
        "batch_normalizations": operators["BatchNormalization"],
        "compile_seconds": full.seconds,
        "kernels": full.explanation["kernels_compiled"],
        "kernels_new": full.compiled,
        "waterfall": rows,
        "onnxruntime_ms": None if theirs is None else theirs * 1e3,
        "onnxruntime_remark": remark,
        "saved_ms": saved * 1e3,
        "break_even_runs": math.ceil(full.seconds / saved) if saved > 0 else None,
    }


def _row(stage: Stage, seconds: float, same: bool) -> dict[str, Any]:
    comparison: Comparison = stage.comparison
    return {
        "name": stage.name, "ms": seconds * 1e3, "same_as_previous": same,
        "kernels_run": stage.explanation["kernels_run"], "reorders_run": stage.explanation["reorders_run"],
        "host_steps": len(stage.explanation["host_steps"]), "compile_seconds": stage.seconds,
        "ok": bool(comparison), "max_error": comparison.max_error, "tolerance": comparison.tolerance,
        "reason": comparison.reason,
    }  # fmt: skip


def _peer(network: Network) -> tuple[Any, str]:
    """ONNX Runtime on the same graph with as many threads, or None and why not."""
    if not runtime_installed():
        return None, "not installed"
    try:
        return runtime_session(network.graph, cpu_allowance().count), ""
    except JitoptError as error:
        return None, str(error)
