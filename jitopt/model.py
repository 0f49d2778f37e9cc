"""From a model to a compiled one: read, optimise, lower, compile; everything a session needs but memory and threads."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from jitopt_kernels.targets import Target

from jitopt.codegen.cache import Cache
from jitopt.codegen.compiler import CompiledKernel, KernelSource, compile_kernels
from jitopt.codegen.loader import KernelLibrary
from jitopt.codegen.templates import render
from jitopt.ir.graph import Graph
from jitopt.lower.layout import assign_layouts
from jitopt.lower.lowering import lower
from jitopt.lower.program import Program
from jitopt.lower.spec import KernelSpec
from jitopt.passes.infer import infer
from jitopt.passes.optimize import OptimizeReport, optimize


@dataclass(frozen=True)
class ModelOptions:
    """Everything that decides what a model compiles to."""

    target: Target
    precision: str = "default"
    gelu: str = "exact"
    optimize: bool = True
    disable: tuple[str, ...] = ()


@dataclass(eq=False)
class CompiledModel:
    """A lowered model with its kernels loaded."""

    program: Program
    options: ModelOptions
    report: OptimizeReport
    kernels: dict[KernelSpec, CompiledKernel]
    library: KernelLibrary
    seconds: dict[str, float] = field(default_factory=dict)
    original_types: dict[str, int] = field(default_factory=dict)

    def addresses(self) -> dict[KernelSpec, int]:
        """Address of every spec's code."""
        return {spec: self.library.address(kernel.key) for spec, kernel in self.kernels.items()}


Progress = Callable[[int, int, str, float], None]


def compile_model(
    graph: Graph, options: ModelOptions, *, cache: Cache | None = None, progress: Progress | None = None
) -> CompiledModel:  # fmt: skip
    """Optimise, lower and compile a graph, which is changed on the way.

    Raises what its stages raise: ModelError, ShapeError, UnsupportedOperator, CompileError.
    """
    seconds: dict[str, float] = {}
    start = time.perf_counter()

    def lap(stage: str) -> None:
        nonlocal start
        now = time.perf_counter()
        seconds[stage], start = now - start, now

    infer(graph)
    original = Counter(node.op for node in graph)
    report = OptimizeReport()
    if options.optimize:
        report = optimize(graph, precision=options.precision, gelu=options.gelu, disable=options.disable)
    lap("optimise")
    assign_layouts(graph, options.target.lanes)
    infer(graph)
    fuse = options.optimize and "fusion" not in options.disable
    program = lower(graph, options.target, precision=options.precision, fuse=fuse)
    lap("lower")
    sources = {spec: KernelSource.of(render(spec), options.target) for spec in program.specs}
    compiled = compile_kernels(list(sources.values()), options.target, cache=cache, progress=progress)
    lap("compile")
    library = KernelLibrary(options.target)
    kernels: dict[KernelSpec, CompiledKernel] = {}
    for spec, source in sources.items():
        kernels[spec] = compiled[source.key]
        library.add(source.key, compiled[source.key].object)
    lap("load")
    return CompiledModel(program, options, report, kernels, library, seconds, dict(original))
