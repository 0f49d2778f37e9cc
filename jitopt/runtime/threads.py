"""The team: the worker threads of this process, asleep in native code on a futex between runs.

There is one team a process, and one run at a time has it; others run on their calling threads. Workers are daemon
threads inside one native call, so they never hold the GIL, take no CPU while nothing runs, and see no Python. Their
number grows to the largest asked for. A forked child has none of its parent's threads and makes a team of its own; at
exit the workers are told to leave.
"""

from __future__ import annotations

import atexit
import ctypes
import logging
import mmap
import os
import threading

from jitopt.runtime.driver import driver
from jitopt.runtime.driver_ir import MAILBOX_BYTES, MAILBOXES
from jitopt.runtime.platform import this_platform

logger = logging.getLogger("jitopt")

MAX_THREADS = 256
"""The most threads of a run, the caller's included; more are cut down to it."""


class Team:
    """Workers and the memory they meet in. Hold `lock` from before `grow` until the run is over."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.size = 1
        """Threads a run may use, the caller's included."""
        length = MAILBOXES + MAX_THREADS * MAILBOX_BYTES
        self._memory = mmap.mmap(-1, length, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        self._workers: list[threading.Thread] = []

    def grow(self, nthreads: int) -> None:
        """Start workers until a run may use `nthreads`, or as many as the system allows."""
        while self.size < nthreads:
            worker = threading.Thread(
                target=driver().worker, args=(self.address, self.size), name=f"jitopt-{self.size}", daemon=True
            )
            try:
                worker.start()
            except RuntimeError as error:
                logger.warning("runs use %d threads, not %d: %s", self.size, nthreads, error)
                return
            self._workers.append(worker)
            self.size += 1

    def dismiss(self, timeout: float) -> None:
        """Tell all workers to leave and wait up to `timeout` seconds for each."""
        while self._workers:
            self.size -= 1
            driver().dismiss(self.address, self.size)
            self._workers.pop().join(timeout)


_team: Team | None = None
_making = threading.Lock()
_closed = False


def take_team(nthreads: int) -> Team | None:
    """The team with its lock held and at least two threads, or None when it is taken or there is none."""
    global _team
    team = _team
    if team is None:
        with _making:
            if _closed or not this_platform().can_sleep:
                return None
            if _team is None:
                _team = Team()
            team = _team
    if not team.lock.acquire(blocking=False):
        return None
    if team.size < nthreads:
        team.grow(nthreads)
        if team.size == 1:
            team.lock.release()
            return None
    return team


def team_size() -> int:
    """Threads the team has now, callers not counted."""
    return _team.size - 1 if _team is not None else 0


def _forget() -> None:
    """In a forked child: the workers stayed with the parent, and its locks may be held by threads that are gone."""
    global _team, _making
    _team, _making = None, threading.Lock()


def _leave() -> None:
    """At exit, when only daemon threads run on: a run under way keeps its team, and the process ends around it."""
    global _team, _closed
    _closed = True
    team, _team = _team, None
    if team is not None and team.lock.acquire(timeout=1.0):
        team.dismiss(timeout=1.0)


os.register_at_fork(after_in_child=_forget)
atexit.register(_leave)
