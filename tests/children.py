"""Cases that may crash or hang, run in child processes: many a child, watched one by one.

A child is `python -m MODULE FIRST LAST`. It prints "case N" before each case, "failed N REASON" (one line) for one that
went wrong, and "done" at the end. A case that outlasts the time it is given, or ends the process, is a failure, and
another child goes on behind it.
"""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
STARTUP = 120.0  # seconds a child may take to import what it needs, on a machine that is busy
NO_JIT = {"NUMBA_DISABLE_JIT": "1"}


def failures_of(module: str, cases: range, seconds: float, environment: Mapping[str, str] = {}) -> list[str]:
    """What went wrong in these cases, a line each; `seconds` is the time of one case."""
    found: list[str] = []
    first = cases.start
    while first < cases.stop:
        first = _one_child(module, first, cases.stop, seconds, environment, found)
    return found


def _one_child(
    module: str, first: int, last: int, seconds: float, environment: Mapping[str, str], found: list[str]
) -> int:  # fmt: skip
    """Run cases until the child ends; the case to go on with."""
    command = [sys.executable, "-X", "faulthandler", "-m", module, str(first), str(last)]
    with tempfile.TemporaryFile("w+") as errors:
        child = subprocess.Popen(
            command, cwd=ROOT, env={**os.environ, **environment}, stdout=subprocess.PIPE, stderr=errors, text=True
        )
        assert child.stdout is not None
        lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        threading.Thread(target=_read, args=(child.stdout, lines), daemon=True).start()
        case, done, end = first - 1, False, ""
        try:
            for line in _until(lines, seconds):
                kind, _, rest = line.strip().partition(" ")
                if kind == "case":
                    case = int(rest)
                elif kind == "failed":
                    found.append(f"{module} {rest}")
                done = done or kind == "done"
        except TimeoutError:
            end = f"took more than {seconds:g} s"
        finally:
            child.kill()
            status = child.wait()
        if done and not end:
            return last
        errors.seek(0)
        end = end or (f"signal {signal.Signals(-status).name}" if status < 0 else f"exit status {status}")
        found.append(f"{module} {case}: {end}\n{errors.read()[-2000:]}")
        return max(case, first) + 1


def _read(stream: Iterable[str], lines: queue.SimpleQueue[str | None]) -> None:
    for line in stream:
        lines.put(line)
    lines.put(None)


def _until(lines: queue.SimpleQueue[str | None], seconds: float) -> Iterator[str]:
    """Lines as they come; TimeoutError when the next one is not there in time."""
    limit = STARTUP
    while True:
        try:
            line = lines.get(timeout=limit)
        except queue.Empty:
            raise TimeoutError from None
        if line is None:
            return
        yield line
        limit = seconds
