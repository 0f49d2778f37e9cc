"""Running a step table: what a session calls, without the GIL, on the team of threads or on the calling thread alone.

With more than one thread a run takes the process's team of workers if that is free, and otherwise walks the table
alone; the results are the same. Work is shared evenly before a step begins, so a worker that is kept off its CPU, by
other processes for one, holds everybody up at the next barrier. A launch that spent most of a run waiting therefore
runs alone for a while, and for longer each time it finds the others no better.
"""

from __future__ import annotations

import ctypes
import time

import numpy as np
from numpy.typing import NDArray

from jitopt.runtime.driver import driver
from jitopt.runtime.driver_ir import BLOCK_WORDS, COUNT, FLUSH, STAMPS, STEPS, TERMINATE, TOOK, WAITED
from jitopt.runtime.steps import FLAGS, ONE_THREAD, STEP_WORDS
from jitopt.runtime.threads import MAX_THREADS, take_team

LATE = 3
"""Runs in a row that were spent waiting before a launch goes alone: one may have woken a CPU from deep sleep."""

ALONE, ALONE_AT_MOST = 0.02, 2.0
"""Seconds that a launch runs alone after it waited for most of a run, doubled each time up to the most."""


class RunOptions:
    """Options of one run, after ONNX Runtime's class of this name."""

    def __init__(self) -> None:
        self._word = ctypes.c_int64(0)

    @property
    def terminate(self) -> bool:
        """Set it from any thread: runs that were given these options end before their next step."""
        return bool(self._word.value)

    @terminate.setter
    def terminate(self, value: bool) -> None:
        self._word.value = int(value)

    @property
    def terminate_address(self) -> int:
        """Address of the word that the driver reads, valid while this object lives."""
        return ctypes.addressof(self._word)


class Launch:
    """A step table ready to run. One run at a time: concurrent runs need a launch each."""

    def __init__(self, table: NDArray[np.int64], nthreads: int = 1, *, flush_denormals: bool = True) -> None:
        """`table` is (steps, STEP_WORDS), contiguous; it is kept alive, and all but its flags may change between runs.

        Raises ValueError for another shape or layout, or fewer than one thread.
        """
        if table.ndim != 2 or table.shape[1] != STEP_WORDS or table.dtype != np.int64 or not table.flags.c_contiguous:
            raise ValueError(f"not a step table: {table.dtype} of shape {table.shape}")
        if nthreads < 1:
            raise ValueError(f"nthreads is {nthreads}")
        self.table = table
        shared = not (table[:, FLAGS] & ONE_THREAD).all()
        self.nthreads = min(nthreads, MAX_THREADS) if shared else 1  # nobody is woken to watch one thread
        self.block = np.zeros(BLOCK_WORDS, np.int64)
        self.block[[STEPS, COUNT, FLUSH]] = table.ctypes.data, len(table), flush_denormals
        self._address = int(self.block.ctypes.data)
        self._waits = (ctypes.c_int64 * 2).from_address(self._address + 8 * WAITED)
        assert TOOK == WAITED + 1
        self._alone, self._again, self._late = 0.0, 0.0, 0  # how long to run alone, until when, late runs in a row
        self._run = driver().run

    def __call__(self, options: RunOptions | None = None, stamps: NDArray[np.int64] | None = None) -> bool:
        """Run all steps; False when `options.terminate` ended the run early.

        `stamps` (profile slots, 2) receives the clock at begin and end of each step on the calling thread.
        """
        if options is not None:
            self.block[TERMINATE] = options.terminate_address
        if stamps is not None:
            self.block[STAMPS] = stamps.ctypes.data
        try:
            return self.run() == len(self.table)
        finally:
            if options is not None:
                self.block[TERMINATE] = 0
            if stamps is not None:
                self.block[STAMPS] = 0

    def run(self) -> int:
        """Run all steps without options; returns how many were begun."""
        if self.nthreads > 1 and (not self._alone or time.perf_counter() >= self._again):
            team = take_team(self.nthreads)
            if team is not None:
                try:
                    return self._run(self._address, team.address, min(self.nthreads, team.size))
                finally:
                    team.lock.release()
                    self._judge(*self._waits)
        return self._run(self._address, 0, 1)

    def _judge(self, waited: int, took: int) -> None:
        """Was the team worth it? `waited` of the ticks that the run `took` went by at barriers."""
        if 2 * waited <= took:
            self._alone, self._late = 0.0, 0
            return
        self._late += 1
        if self._late < LATE:
            return
        self._late = 0
        self._alone = min(max(2 * self._alone, ALONE), ALONE_AT_MOST)
        self._again = time.perf_counter() + self._alone
