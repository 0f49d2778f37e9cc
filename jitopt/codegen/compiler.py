"""Kernel sources become objects: from the cache, or side by side in worker processes, or in this process.

Equal keys compile once, the expensive first.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from jitopt_kernels.targets import Target

from jitopt.codegen.cache import Cache
from jitopt.codegen.core import Core, Cores, core_key
from jitopt.codegen.host import cpu_allowance
from jitopt.codegen.keys import kernel_key
from jitopt.codegen.parallel import Run
from jitopt.codegen.pool import Answer, WorkerDied, WorkerUnavailable, pool
from jitopt.codegen.symbols import read_symbols
from jitopt.codegen.worker import compile_text, entry_symbol, one_line
from jitopt.errors import CompileError

logger = logging.getLogger("jitopt")

KIND = "kernels"
MAX_WORKERS = 16

Progress = Callable[[int, int, str, float], None]
"""Called in the compiling thread after each kernel: how many are done, of how many, its key, its seconds."""


@dataclass(frozen=True)
class KernelSource:
    """The module text of one kernel, which defines `kernel(args, tid, nthreads)`; `key` comes from `kernel_key`.

    `cost` is a guess of its compile time in any unit: the dearest are compiled first.
    """

    key: str
    text: str
    target: Target
    cost: float = 0.0

    @classmethod
    def of(cls, text: str, target: Target, cost: float = 0.0) -> KernelSource:
        """The source with its key for `target`."""
        return cls(kernel_key(text, target), text, target, cost)

    @cached_property
    def core(self) -> str:
        """The key of its core, "" where it has none; only who compiles needs it."""
        return core_key(self.text, self.target)


@dataclass(frozen=True)
class CompiledKernel:
    """Object code with the one global symbol `k_<key>`, and where it came from.

    `seconds` is what compiling took, also when the object was in the cache; `path_of_source` is a readable file with
    `text`, or None without a cache folder.
    """

    key: str
    object: bytes
    seconds: float
    text: str
    from_cache: bool
    path_of_source: Path | None


def prestart(target: Target, workers: int | None = None) -> None:
    """Start workers now for a compile to come, so that Numba's import overlaps with reading and optimising."""
    pool.start(target, min(cpu_allowance().count, MAX_WORKERS) if workers is None else workers)


def compile_kernels(
    sources: Sequence[KernelSource],
    target: Target,
    *,
    workers: int | None = None,
    progress: Progress | None = None,
    cache: Cache | None = None,
) -> dict[str, CompiledKernel]:
    """Compile what the cache does not hold; the kernels by key.

    `workers` is the most processes to use (default: the CPUs allowed, at most MAX_WORKERS); 0 compiles in this
    process, which also happens where none can be started. Without `cache` nothing is read or kept. Raises
    CompileError for a kernel that does not compile; what was finished until then is in the cache.
    """
    unique = {source.key: source for source in sources}
    done: dict[str, CompiledKernel] = {}
    if cache is not None:
        for key, source in unique.items():
            found = _from_cache(source, target, cache)
            if found is not None:
                done[key] = found
    missing = [source for key, source in unique.items() if key not in done]
    missing.sort(key=lambda source: (-source.cost, -len(source.text), source.key))
    paths = {s.key: cache.store_text(KIND, s.key, s.text) if cache is not None else None for s in missing}
    total, before, cores = len(missing), len(done), Cores(target, cache, {source.core for source in missing})

    def finish(source: KernelSource, answer: Answer) -> None:
        path = paths[source.key]
        if answer.error:
            logger.debug("kernel %s:\n%s", source.key, answer.trace)
            raise CompileError(
                f"kernel {source.key}{f' ({path})' if path else ''} does not compile: {answer.error}",
                remedy=answer.remedy or None,
            )
        if cache is not None:
            header = {"cpu": target.cpu, "features": target.features, "seconds": answer.seconds}
            cache.store(KIND, source.key, header, {"object": answer.code})
        done[source.key] = CompiledKernel(source.key, answer.code, answer.seconds, source.text, False, path)
        if progress is not None:
            progress(len(done) - before, total, source.key, answer.seconds)

    limit = min(cpu_allowance().count, MAX_WORKERS) if workers is None else workers
    if limit > 0 and missing:
        try:
            Run(missing, target, paths, cores, finish).run(min(limit, len(missing)))
        except WorkerUnavailable as error:
            logger.info("compiling in this process: %s", error)
    for source in missing:
        if source.key not in done:
            answer = _compile_here(source, target, paths[source.key], core=cores.find(source.core))
            cores.keep(source.core, answer.core)
            finish(source, answer)
    return {key: done[key] for key in unique}


def kernel_assembly(source: KernelSource, target: Target) -> str:
    """The assembly text of a kernel, compiled again for it; raises CompileError when that fails."""
    try:
        worker = pool.take(target)
        answer = worker.compile(source.key, source.text, None, assembly=True)
        pool.give_back(worker)
    except WorkerUnavailable:
        answer = _compile_here(source, target, None, assembly=True)
    except WorkerDied as error:
        raise CompileError(f"kernel {source.key}: {error}") from error
    if answer.error:
        raise CompileError(f"kernel {source.key} does not compile: {answer.error}")
    return answer.assembly


def _compile_here(
    source: KernelSource, target: Target, path: Path | None, *, assembly: bool = False, core: Core | None = None
) -> Answer:
    """Compile in this process, which imports Numba."""
    start = time.perf_counter()
    file = str(path) if path else None
    try:
        out = compile_text(
            source.text, source.key, target.cpu, target.features, path=file, assembly=assembly, core=core
        )
    except CompileError as error:
        return Answer(error=error.message, remedy=error.remedy or "")
    except Exception as error:
        logger.debug("kernel %s", source.key, exc_info=True)
        return Answer(error=one_line(error))
    return Answer(out.code, out.assembly, out.core if out.core is not core else None, time.perf_counter() - start)


def _from_cache(source: KernelSource, target: Target, cache: Cache) -> CompiledKernel | None:
    """The kernel as the cache holds it; None unless it is for exactly this target and defines its symbol."""
    entry = cache.load(KIND, source.key)
    if entry is None or (entry.header.get("cpu"), entry.header.get("features")) != (target.cpu, target.features):
        return None
    try:
        code = bytes(entry.sections["object"])
        if read_symbols(code).defined != {entry_symbol(source.key)}:
            return None
        seconds = float(entry.header["seconds"])
    except (KeyError, TypeError, ValueError):
        return None
    return CompiledKernel(source.key, code, seconds, source.text, True, cache.store_text(KIND, source.key, source.text))
