"""No kernel touches a byte outside its operands: every buffer ends where a protected page begins.

The runs are in a process of their own, so that a fault fails this test and names the case.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_kernels_stay_inside_their_buffers() -> None:
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-m", "tests.runtime.guarded"], cwd=ROOT, capture_output=True, text=True,
        timeout=1200, check=False,
    )  # fmt: skip
    last = done.stdout.splitlines()[-1:]
    assert (done.returncode, last) == (0, ["done"]), f"{last} ended with {done.returncode}:\n{done.stderr[-3000:]}"


GUARDED = """
import numpy as np
from jitopt.lower.program import INPUT, OUTPUT
from jitopt.runtime.executor import Executor
from jitopt.runtime.guard import GuardedArrays, GuardedMemory
import jitopt
from tests.networks import pair
session = jitopt.compile(pair())
program = session._program
feeds = [GuardedArrays().copy(np.ones((3, 4), np.float32)) for _ in range(2)]
for port in program.outputs:  # results of a row less than the kernel writes
    port.type = port.type.with_shape((2, 4))
program.checks.clear()
print("runs", flush=True)
Executor(program, session._model.addresses(), 1, memory=GuardedMemory()).run(feeds, program.outputs)
print("done", flush=True)
"""


def test_a_kernel_that_writes_outside_is_killed() -> None:
    """The check can fail: a result that is a row too short."""
    done = subprocess.run([sys.executable, "-c", GUARDED], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout == "runs\n" and done.returncode < 0, done.stderr
