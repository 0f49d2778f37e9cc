"""This machine: its CPU, the target chosen for it, and what it was just measured to do."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Any

from jitopt.codegen.cache import Cache
from jitopt.codegen.host import choose_target, cpu_allowance, host_cpu
from jitopt.runtime.measure import measure_peak


def machine() -> dict[str, Any]:
    """CPU, target, threads, and peaks of one thread and of all of them (about half a second each)."""
    target, allowance, cache = choose_target(), cpu_allowance(), Cache.default()
    peaks = [measure_peak(target, threads, cache) for threads in sorted({1, allowance.count})]
    return {
        "cpu": f"{cpu_model()} ({host_cpu()})",
        "target": target.name,
        "lanes": target.lanes,
        "threads": allowance.count,
        "threads_reason": allowance.reason,
        "peaks": [
            {"threads": p.nthreads, "fma_gflops": p.gflops, "copy_gbs": p.copy_gbs} for p in peaks
        ],
    }  # fmt: skip


def cpu_model() -> str:
    """The CPU's name as its maker writes it, where Linux tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, "") or platform.processor() or platform.machine()
