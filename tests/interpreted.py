"""Programs run without a compiler: kernels as the Python functions that their generated modules define.

With NUMBA_DISABLE_JIT=1, set before anything imports Numba, every function of `jitopt_kernels` is its Python body over
memory at plain addresses. Slow, but a kernel costs nothing to make: random and damaged models can run by the thousand.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from jitopt_kernels.targets import Target

from jitopt import model
from jitopt.codegen.compiler import CompiledKernel, KernelSource
from jitopt.codegen.host import choose_target
from jitopt.codegen.templates import render
from jitopt.ir.graph import Graph
from jitopt.lower.groups import GROUPINGS
from jitopt.lower.layout import assign_layouts
from jitopt.lower.lowering import lower
from jitopt.lower.program import Program
from jitopt.lower.spec import KernelSpec
from jitopt.passes.base import remove_dead
from jitopt.passes.infer import infer
from jitopt.passes.optimize import optimize
from jitopt.runtime import binding
from jitopt.runtime.executor import Executor
from jitopt.runtime.launch import RunOptions
from jitopt.runtime.memory import HEAP, Memory
from jitopt.runtime.steps import ARGS, KERNEL

_functions: list[Any] = []
_numbers: dict[str, int] = {}


def _word(args: int, index: int) -> int:
    return ctypes.c_int64.from_address(args + 8 * index).value


class PythonLaunch:
    """Stands for the native driver: calls the functions of the step table, every share of each step, last one first."""

    def __init__(self, table: Any, nthreads: int = 1, *, flush_denormals: bool = True) -> None:
        self.table, self.nthreads = table, nthreads

    def __call__(self, options: RunOptions | None = None, stamps: Any = None) -> bool:
        with np.errstate(all="ignore"):
            for row in self.table:
                for tid in reversed(range(self.nthreads)):
                    _functions[row[KERNEL]](int(row[ARGS]), tid, self.nthreads)
        return True


def install() -> None:
    """Make this process run kernels in Python: every executor, and what `jitopt.compile` makes.

    Raises RuntimeError unless Numba is switched off.
    """
    if os.environ.get("NUMBA_DISABLE_JIT") != "1":
        raise RuntimeError("NUMBA_DISABLE_JIT=1 must be set before Python starts")
    binding.Launch = PythonLaunch  # type: ignore[assignment, misc]
    model.compile_kernels = _compile  # type: ignore[assignment]
    model.KernelLibrary = _Library  # type: ignore[assignment, misc]


def kernels_of(program: Program) -> dict[KernelSpec, int]:
    """What stands for the addresses of the program's kernels."""
    return {spec: _number(render(spec)) for spec in program.specs}


def _number(text: str) -> int:
    """The place among `_functions` of the kernel that a module's text defines."""
    if text not in _numbers:
        module: dict[str, Any] = {}
        exec(compile(text, "<kernel>", "exec"), module)
        module["word"] = _word  # a Python integer: as in compiled code, it takes the element type of its partner
        _numbers[text] = len(_functions)
        _functions.append(module["kernel"])
    return _numbers[text]


def _compile(sources: Sequence[KernelSource], *_: Any, **__: Any) -> dict[str, CompiledKernel]:
    return {s.key: CompiledKernel(s.key, s.text.encode(), 0.0, s.text, False, None) for s in sources}


class _Library:
    """Stands for the loader; the "object code" of a kernel is its module's text."""

    def __init__(self, *_: Any) -> None:
        self._numbers: dict[str, int] = {}

    def add(self, key: str, code: bytes) -> int:
        return self._numbers.setdefault(key, _number(code.decode()))

    def address(self, key: str) -> int:
        return self._numbers[key]


def lowered(
    graph: Graph, precision: str | None = "default", groupings: Any = GROUPINGS, target: Target | None = None,
    max_memory: int | None = None,
) -> Program:  # fmt: skip
    """The graph's program for any target; the graph changes on the way. `precision` None leaves out optimisation."""
    chosen = choose_target() if target is None else target
    infer(graph)
    if precision is not None:
        optimize(graph, precision=precision, max_memory=max_memory)
    else:
        remove_dead(graph, graph.nodes)
    assign_layouts(graph, chosen.lanes)
    infer(graph)
    return lower(graph, chosen, groupings=groupings)


def executor_of(program: Program, nthreads: int = 1, memory: Memory = HEAP, max_memory: int | None = None) -> Executor:
    return Executor(program, kernels_of(program), nthreads, memory=memory, max_memory=max_memory)
