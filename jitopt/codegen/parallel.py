"""Kernels compiled side by side: a thread for each worker process, all taking jobs from one queue.

A worker that dies costs its job one more try in a fresh process; then the kernel is named in a CompileError.
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from jitopt_kernels.targets import Target

from jitopt.codegen.core import Cores
from jitopt.codegen.pool import Answer, Worker, WorkerDied, pool
from jitopt.errors import CompileError

if TYPE_CHECKING:
    from jitopt.codegen.compiler import KernelSource


class Run:
    """One parallel compile: a thread for each worker, results handled in the calling thread."""

    def __init__(
        self,
        sources: Sequence[KernelSource],
        target: Target,
        paths: dict[str, Path | None],
        cores: Cores,
        finish: Callable[[KernelSource, Answer], None],
    ) -> None:
        self._jobs = deque(sources)
        self._left = len(sources)
        self._target, self._paths, self._cores, self._finish = target, paths, cores, finish
        self._making: set[str] = set()  # cores that a worker compiles right now
        self._results: queue.SimpleQueue[tuple[KernelSource, Answer] | BaseException] = queue.SimpleQueue()
        self._busy: set[Worker] = set()
        self._stopped = False
        self._lock = threading.Lock()

    def run(self, count: int) -> None:
        """Compile everything with `count` workers; after an error or Ctrl-C no process of this run is left busy."""
        threads = [threading.Thread(target=self._work, name="jitopt-compile", daemon=True) for _ in range(count)]
        for thread in threads:
            thread.start()
        try:
            while self._left:
                result = self._results.get()
                if isinstance(result, BaseException):
                    raise result
                self._left -= 1
                self._finish(*result)
        except BaseException:
            with self._lock:
                self._stopped = True
                for worker in self._busy:
                    worker.kill()
            raise
        finally:
            for thread in threads:
                thread.join()

    def _work(self) -> None:
        worker = None
        try:
            while (source := self._next()) is not None:
                worker = worker or self._take()
                try:
                    answer = self._compile(worker, source)
                except WorkerDied:
                    if self._stopped:
                        return
                    self._release(worker)
                    worker = self._take()
                    answer = self._compile(worker, source)
                self._results.put((source, answer))
        except WorkerDied as error:
            key = source.key if source is not None else "?"
            self._results.put(CompileError(f"kernel {key} does not compile: {error}, twice"))
        except BaseException as error:
            self._results.put(error)
        finally:
            if worker is not None:
                self._release(worker)

    def _compile(self, worker: Worker, source: KernelSource) -> Answer:
        path, core = self._paths[source.key], self._cores.find(source.core)
        try:
            answer = worker.compile(source.key, source.text, str(path) if path else None, core=core)
            self._cores.keep(source.core, answer.core)
        finally:
            with self._lock:
                self._making.discard(source.core)
        return answer

    def _next(self) -> KernelSource | None:
        """The next job, if possible one that does not need the core another worker is compiling."""
        with self._lock:
            if not self._jobs or self._stopped:
                return None
            job = next((job for job in self._jobs if job.core not in self._making), self._jobs[0])
            self._jobs.remove(job)
            if job.core and self._cores.find(job.core) is None:
                self._making.add(job.core)
            return job

    def _take(self) -> Worker:
        worker = pool.take(self._target)
        with self._lock:
            self._busy.add(worker)
        return worker

    def _release(self, worker: Worker) -> None:
        with self._lock:
            self._busy.discard(worker)
        pool.give_back(worker)
