"""Child of test_mutations: each damaged model is compiled and run, or refused.

`python -m tests.mutations.run FIRST LAST` with NUMBA_DISABLE_JIT=1; see tests/children.py. Case N damages model
N % 5 with seed N: every third its bytes or fields, the others the network it describes.
"""

from __future__ import annotations

import math
import sys
import threading
from typing import Any

import numpy as np

import jitopt
from jitopt import evidence
from jitopt.errors import CompileError, JitoptError
from jitopt.runtime.guard import GuardedMemory
from jitopt.session import RunOptions, Session
from tests.interpreted import install
from tests.mutations.damage import damage
from tests.mutations.models import BUILDERS, model
from tests.onnx_io.mutate import mutate

MEMORY = 1 << 22
MOST_WORK = 400_000  # bytes moved or flops / 8 of a run; a Python kernel takes some microseconds for 8 elements
PATIENCE = 2.0  # seconds until a run is ended by its options
DTYPES = {"float": "float32", "double": "float64"}


def feeds_of(session: Session) -> dict[str, Any] | None:
    """Small feeds for the inputs as the damaged model declares them; None where they would be large."""
    feeds: dict[str, Any] = {}
    extents: dict[str, int] = {}
    for arg in session.get_inputs():
        if not arg.type.startswith("tensor"):
            feeds[arg.name] = []
            continue
        name = arg.type[7:-1]
        shape = [
            d if isinstance(d, int) else extents.setdefault(str(d), 2)
            for d in ((2, 2) if arg.shape is None else arg.shape)
        ]
        if math.prod(shape) > 10_000:
            return None
        array = np.random.default_rng(0).integers(0, 3, shape)
        if name.startswith(("bfloat", "float8", "float6", "float4", "int4", "uint4", "int2", "uint2")):
            return None  # NumPy cannot hold them
        feeds[arg.name] = array.astype(str) if name == "string" else array.astype(DTYPES.get(name, name))
    return feeds


def work_of(session: Session, feeds: dict[str, Any]) -> int:
    environment = session._executor.environment([feeds[port.name] for port in session._program.inputs])
    try:
        return sum(environment(step.work) for step in session._program.steps)
    except (KeyError, ZeroDivisionError):
        return 0  # extents that only the run tells


def check(case: int) -> str:
    """What became of the damaged model: "ran", "compiled", or the kind of error."""
    name = list(BUILDERS)[case % len(BUILDERS)]
    data = mutate(model(name), case) if case % 3 == 0 else damage(model(name), case).SerializeToString()
    try:
        options: dict[str, Any] = {"max_memory": MEMORY, "cache": False, "num_threads": 1 + case % 3}
        session = jitopt.compile(data, verify=False, **options)
        feeds = feeds_of(session)
        if feeds is None or work_of(session, feeds) > MOST_WORK:
            return "compiled"
        memory = session._executor.memory = GuardedMemory()
        run_options = RunOptions()
        timer = threading.Timer(PATIENCE, lambda: setattr(run_options, "terminate", True))  # a loop may be endless
        timer.start()
        try:
            session.run(None, feeds, run_options)
        finally:
            timer.cancel()
        memory.check()
        if case % 4 == 0 and all(isinstance(feed, np.ndarray) for feed in feeds.values()):  # the check of answers, too
            jitopt.compile(data, shapes={name: feed.shape for name, feed in feeds.items()}, **options)
    except CompileError as error:
        raise AssertionError(f"no model is to blame for {error}") from error
    except JitoptError as error:
        assert error.model, "an error that does not name the model"
        return type(error).__name__
    return "ran"


def main(first: int, last: int) -> None:
    install()
    evidence.SECONDS = PATIENCE
    for case in range(first, last):
        print("case", case, flush=True)
        try:
            print("outcome", check(case), flush=True)
        except Exception as error:
            print("failed", case, f"{type(error).__name__}: {error}".replace("\n", " "), flush=True)
    print("done", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
