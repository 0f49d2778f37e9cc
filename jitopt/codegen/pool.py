"""Worker processes: started as `python -m jitopt.codegen.worker`, kept a while between uses, replaced when they die.

They are started, not forked: a fork of a process with threads is not safe, and it would inherit NUMBA_* settings and
an imported Numba. Idle workers end after a few seconds, with this process, or when their input closes.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import site
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import jitopt_kernels
from jitopt_kernels.targets import Target

from jitopt.codegen.core import NO_CORE, Core
from jitopt.codegen.worker import read_message, write_message

IDLE_SECONDS = 10.0
"""How long an unused worker lives: long enough for the next compile of one session."""

_ROOT = Path(__file__).resolve().parents[2]


class WorkerDied(Exception):
    """The worker ended before it answered; the text says how and what it wrote last."""


class WorkerUnavailable(Exception):
    """No worker can be started here: frozen or embedded Python, no subprocesses, packages it cannot import."""


@dataclass(frozen=True)
class Answer:
    """What came back for one job. `error` is empty when it compiled; `trace` is the worker's traceback then.

    `core` is the kernel's core where it was compiled for this job.
    """

    code: bytes = b""
    assembly: str = ""
    core: Core | None = None
    seconds: float = 0.0
    error: str = ""
    remedy: str = ""
    trace: str = ""


class Worker:
    """One compile process for one target."""

    def __init__(self, target: Target) -> None:
        """Starts the process and returns at once; raises WorkerUnavailable where none can be started."""
        name = Path(sys.executable or "").name.lower()
        if getattr(sys, "frozen", False) or not name.startswith("python"):
            raise WorkerUnavailable(f"this Python ({sys.executable!r}) starts no modules")
        self.target = target
        self._ready = False
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (a pipe nobody reads would fill up)
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "jitopt.codegen.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                env=worker_environment(os.environ, target),
                cwd=Path(sys.executable).anchor or None,
            )
        except OSError as error:
            self._errors.close()
            raise WorkerUnavailable(str(error)) from error

    def compile(
        self, key: str, text: str, path: str | None, *, assembly: bool = False, core: Core | None = None
    ) -> Answer:
        """Compile one module text. Raises WorkerDied, or WorkerUnavailable when it never came up."""
        given = core or NO_CORE
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None and stdout is not None
        try:
            head = {"key": key, "path": path, "assembly": assembly, "native": given.native}
            write_message(stdin, head, [text.encode(), given.bitcode])
            if not self._ready:
                if read_message(stdout) is None:
                    raise WorkerUnavailable(self._last_words())
                self._ready = True
            message = read_message(stdout)
        except (OSError, ValueError):
            message = None
        if message is None:
            raise (WorkerDied if self._ready else WorkerUnavailable)(self._last_words())
        header, sections = message
        if "error" in header:
            return Answer(error=header["error"], remedy=header["remedy"], trace=header["trace"])
        made = Core(sections[2], header["native"]) if sections[2] else None
        return Answer(sections[0], sections[1].decode(), made, header["seconds"])

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""
        return self._process.poll() is None

    def kill(self) -> None:
        """End the process at once; a thread waiting in `compile` gets WorkerDied."""
        self._process.kill()

    def close(self) -> None:
        """End an idle process and release what belongs to it."""
        self._process.kill()
        self._process.wait()
        self.forget()

    def forget(self) -> None:
        """Close the files of this side and leave the process alone."""
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            with contextlib.suppress(OSError):
                if stream is not None:
                    stream.close()

    def _last_words(self) -> str:
        try:
            code = self._process.wait(timeout=1.0)
        except subprocess.TimeoutExpired:  # it answered nonsense and lives on
            self._process.kill()
            code = self._process.wait()
        self._errors.seek(0)
        text = self._errors.read()[-2000:].decode(errors="replace").strip()
        end = f"signal {-code}" if code < 0 else f"exit code {code}"
        return f"the compile process ended with {end}" + (f": {text.splitlines()[-1]}" if text else "")


def worker_environment(environment: Mapping[str, str], target: Target) -> dict[str, str]:
    """The environment of a worker: no NUMBA_* setting of the user's, CPU name and features set together."""
    variables = {name: value for name, value in environment.items() if not name.startswith("NUMBA_")}
    variables["NUMBA_OPT"] = "1"  # LLVM's O2 and O3 cost a sixth more time; kernels unroll and vectorise themselves
    variables["NUMBA_CPU_NAME"], variables["NUMBA_CPU_FEATURES"] = target.cpu, target.features
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        variables[name] = "1"  # importing NumPy would start threads the worker never uses
    installed = {Path(folder).resolve() for folder in [*site.getsitepackages(), site.getusersitepackages()]}
    roots = [root for root in (_ROOT, Path(jitopt_kernels.__file__).resolve().parents[1]) if root not in installed]
    inherited = [Path(entry).absolute() for entry in variables.pop("PYTHONPATH", "").split(os.pathsep) if entry]
    if inherited or roots:
        variables["PYTHONPATH"] = os.pathsep.join(map(str, [*inherited, *roots]))
    return variables


class WorkerPool:
    """Idle workers of this process. `take` and `give_back` may be called from any thread."""

    def __init__(self) -> None:
        self._idle: list[Worker] = []
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None

    def take(self, target: Target) -> Worker:
        """An idle worker for the target, or a new one; raises WorkerUnavailable."""
        with self._lock:
            for worker in self._idle:
                if worker.target == target and worker.alive:
                    self._idle.remove(worker)
                    return worker
        return Worker(target)

    def give_back(self, worker: Worker) -> None:
        """Keep a worker for the next use, or close it when it is dead."""
        if not worker.alive:
            worker.close()
            return
        with self._lock:
            self._idle.append(worker)
            if self._timer is not None:
                self._timer.cancel()
            self._timer = threading.Timer(IDLE_SECONDS, self.close)
            self._timer.daemon = True
            self._timer.start()

    def start(self, target: Target, count: int) -> None:
        """Start workers ahead of their first job, so that Numba's import overlaps with the caller's own work."""
        with self._lock:
            missing = count - sum(worker.target == target for worker in self._idle)
        with contextlib.suppress(WorkerUnavailable):
            for worker in [Worker(target) for _ in range(missing)]:
                self.give_back(worker)

    def close(self) -> None:
        """End all idle workers."""
        with self._lock:
            idle, self._idle = self._idle, []
        for worker in idle:
            worker.close()

    def forget(self) -> None:
        """After a fork: the workers are the parent's."""
        idle, self._idle, self._lock, self._timer = self._idle, [], threading.Lock(), None
        for worker in idle:
            worker.forget()


pool = WorkerPool()
"""The one pool of this process."""

os.register_at_fork(after_in_child=pool.forget)
atexit.register(pool.close)
