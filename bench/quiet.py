"""Was the machine ours while we measured? CPUs that other processes used meanwhile, from the kernel's own accounts."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

STAT = Path("/proc/stat")
QUIET = 0.1  # CPUs that others may use for a time to count as measured alone
PAUSE = 2.0  # seconds between tries


def alone(measure: Callable[[], dict[str, Any]], tries: int, *, children: bool = False) -> dict[str, Any]:
    """What `measure` returns, with "others": CPUs that other processes used meanwhile (0 where it is unknown).

    Of up to `tries` tries the first that was alone counts, or else the least disturbed. `children` says that the work
    is done by processes that start and end within `measure`; otherwise it is done by this process.
    """
    best: dict[str, Any] = {}
    for number in range(max(tries, 1)):
        if number:
            time.sleep(PAUSE)
        begin = _seconds(children)
        found = measure()
        wall, busy, own = (after - before for after, before in zip(_seconds(children), begin, strict=True))
        found["others"] = max(0.0, busy - own) / wall
        if not best or found["others"] < best["others"]:
            best = found
        if best["others"] <= QUIET:
            break
    return best


def _seconds(children: bool) -> tuple[float, float, float]:
    """Wall clock, busy time of all CPUs (0 where it is not told), CPU time of this process and ended children."""
    own = 0.0
    for who in (resource.RUSAGE_SELF, *((resource.RUSAGE_CHILDREN,) if children else ())):
        usage = resource.getrusage(who)
        own += usage.ru_utime + usage.ru_stime
    busy = 0.0
    if STAT.exists():
        user, nice, system, _idle, _wait, irq, soft, steal = map(int, STAT.read_text().split("\n", 1)[0].split()[1:9])
        busy = (user + nice + system + irq + soft + steal) / os.sysconf("SC_CLK_TCK")
    return time.perf_counter(), busy, own
