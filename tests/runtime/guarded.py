"""Runs kernels between protected pages; started by `test_guarded_runs` in a process of its own, for a fault kills it.

Prints the name of each case before it runs, and "done" at the end. Cases are the operators' samples, as far as they
need kernels that differ in how they touch memory (formulas apart, which do not), and a few networks of fused groups.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

import jitopt
from jitopt.codegen.cache import Cache
from jitopt.codegen.compiler import KernelSource, compile_kernels
from jitopt.codegen.loader import KernelLibrary
from jitopt.codegen.templates import render
from jitopt.ir.interpreter import Interpreter
from jitopt.lower.program import Program
from jitopt.lower.spec import KernelSpec
from jitopt.ops import find
from jitopt.runtime.executor import Executor
from jitopt.runtime.guard import GuardedArrays, GuardedMemory
from jitopt.verify import compare
from tests.lower.test_operator_kernels import TARGET, Case, cases
from tests.networks import convolutional, floats, mixed, reference

Addresses = dict[KernelSpec, int]


def signature(spec: KernelSpec) -> Any:
    """How the kernel touches memory: everything but its formulas."""
    operands = (*spec.body.loads, *(s.target for s in spec.body.stores))
    return spec.template, spec.constants, spec.words, tuple((o.dtype, o.inner, o.along) for o in operands)


def chosen() -> list[Case]:
    """The samples whose kernels are among the first of each signature."""
    first: dict[Any, KernelSpec] = {}
    for case in cases().values():
        for spec in case.program.specs:
            first.setdefault(signature(spec), spec)
    kept = set(first.values())
    return [c for c in cases().values() if kept.issuperset(c.program.specs)]


def run(program: Program, addresses: Addresses, feeds: dict[str, Any], expected: dict[str, Any], exact: bool) -> None:
    """One run a number of threads, feeds, results, constants, tables and pool guarded, against the answers."""
    for nthreads in (1, 3):
        arrays, memory = GuardedArrays(), GuardedMemory()
        executor = Executor(program, addresses, nthreads, flush_denormals=not exact, memory=memory)
        inputs = [arrays.copy(np.asarray(feeds[port.name])) for port in program.inputs]
        for port, found in zip(program.outputs, executor.run(inputs, program.outputs), strict=True):
            verdict = compare(found, expected[port.name])
            assert verdict, f"{port.name}: {verdict.reason}"
        arrays.check()
        memory.check()


def networks() -> Iterator[tuple[str, Any, dict[str, Any]]]:
    """Name, session and feeds of networks whose groups have epilogues, residuals, several stores and odd extents."""
    for images in (1, 3):
        feeds = {"x": floats(images, 3, 8, 8)}
        for precision in ("default", "exact"):
            yield f"convolutional {precision} {images}", jitopt.compile(convolutional(), precision=precision), feeds
    for length in (1, 7, 33):
        yield f"mixed {length}", jitopt.compile(mixed()), {"x": floats(length, 20), "i": np.arange(length) % 5}


def main() -> None:
    selected = chosen()
    sources = {s: KernelSource.of(render(s), TARGET) for case in selected for s in case.program.specs}
    compiled = compile_kernels(list(sources.values()), TARGET, cache=Cache.default())
    print(len(selected), "samples,", len(sources), "kernels", flush=True)
    with KernelLibrary(TARGET) as library:
        addresses = {spec: library.add(s.key, compiled[s.key].object) for spec, s in sources.items()}
        for case in selected:
            print(case.name, flush=True)
            run(case.program, addresses, case.feeds, Interpreter(case.graph, find).run(case.feeds), exact=True)
    for name, session, feeds in networks():
        print(name, flush=True)
        graph = session._source
        run(session._program, session._model.addresses(), feeds, reference(graph, feeds), exact=False)
    print("done", flush=True)


if __name__ == "__main__":
    sys.exit(main())
