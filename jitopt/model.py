"""From a model to a compiled one: read, optimise, lower, compile; everything a session needs but memory and threads."""

from __future__ import annotations

import difflib
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from jitopt_kernels.targets import Target

from jitopt.codegen.cache import Cache
from jitopt.codegen.compiler import CompiledKernel, KernelSource, compile_kernels
from jitopt.codegen.loader import KernelLibrary
from jitopt.codegen.templates import render
from jitopt.errors import MemoryLimitError, ModelError
from jitopt.ir.graph import Graph
from jitopt.ir.verifier import verify
from jitopt.lower.algorithms import ALGORITHMS
from jitopt.lower.groups import CONCAT_VIEWS, GROUPINGS
from jitopt.lower.layout import assign_layouts
from jitopt.lower.lowering import lower
from jitopt.lower.program import Program
from jitopt.lower.spec import KernelSpec
from jitopt.ops.registry import find
from jitopt.passes.base import remove_dead
from jitopt.passes.infer import infer
from jitopt.passes.optimize import OptimizeReport, optimize
from jitopt.verdict import OFF, Verdict


@dataclass(frozen=True)
class ModelOptions:
    """Everything that decides what a model compiles to."""

    target: Target
    precision: str = "default"
    gelu: str = "exact"
    optimize: bool = True
    disable: tuple[str, ...] = ()
    max_memory: int | None = None


@dataclass(eq=False)
class CompiledModel:
    """A lowered model with its kernels loaded; `graph` is what it was lowered from, `verdict` whether it is right."""

    graph: Graph
    program: Program
    options: ModelOptions
    report: OptimizeReport
    kernels: dict[KernelSpec, CompiledKernel]
    library: KernelLibrary
    seconds: dict[str, float] = field(default_factory=dict)
    original_types: dict[str, int] = field(default_factory=dict)
    verdict: Verdict = field(default_factory=lambda: Verdict(OFF))

    def addresses(self) -> dict[KernelSpec, int]:
        """Address of every spec's code."""
        return {spec: self.library.address(kernel.key) for spec, kernel in self.kernels.items()}


FUSION = "fusion"  # may be disabled like a pass, as may each of GROUPINGS: every operator stays its own kernel
# Kinds of rewrite whose benefit is reported, and what to disable to do without them.
REWRITES: dict[str, tuple[str, ...]] = {
    "folding": (
        "fold-batchnorm",
        "batchnorm-to-affine",
        "fold-affine",
        "fold-affine-before",
        "merge-affine",
        "fold-pad",
    ),
    "epilogues": ("epilogues",),
    "pointwise groups": ("pointwise-groups",),
    "concat views": (CONCAT_VIEWS,),
    "Winograd": ("winograd",),
}
Progress = Callable[[int, int, str, float], None]


def compile_model(
    graph: Graph, options: ModelOptions, *, cache: Cache | None = None, progress: Progress | None = None
) -> CompiledModel:  # fmt: skip
    """Optimise, lower and compile a graph, which is changed on the way.

    Raises what its stages raise: ModelError, ShapeError, UnsupportedOperator, CompileError, MemoryLimitError.
    """
    laps = _Laps()
    infer(graph)
    original = Counter(node.op for node in graph)
    report = optimize_model(graph, options)
    laps.lap("optimise")
    program = lower_model(graph, options)
    laps.lap("lower")
    sources = {spec: KernelSource.of(render(spec), options.target) for spec in program.specs}
    compiled = compile_kernels(list(sources.values()), options.target, cache=cache, progress=progress)
    laps.lap("compile")
    library = KernelLibrary(options.target)
    kernels: dict[KernelSpec, CompiledKernel] = {}
    for spec, source in sources.items():
        kernels[spec] = compiled[source.key]
        library.add(source.key, compiled[source.key].object)
    laps.lap("load")
    return CompiledModel(graph, program, options, report, kernels, library, laps.seconds, dict(original))


class _Laps:
    """Seconds of one stage after the other."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._start = time.perf_counter()

    def lap(self, stage: str) -> None:
        now = time.perf_counter()
        self.seconds[stage], self._start = now - self._start, now


def optimize_model(graph: Graph, options: ModelOptions) -> OptimizeReport:
    """Run the passes that the options leave on a graph with types; without any, take out nodes that feed nothing."""
    report = OptimizeReport()
    if options.optimize:
        passes = tuple(name for name in options.disable if name not in (FUSION, *GROUPINGS, *ALGORITHMS))
        report = optimize(
            graph, precision=options.precision, gelu=options.gelu, disable=passes, max_memory=options.max_memory
        )  # fmt: skip
    else:
        verify(graph, find)
        remove_dead(graph, graph.nodes)  # of what the file has, and of what the reader's upgrades left
    _check_weights(graph, options.max_memory)
    return report


def lower_model(graph: Graph, options: ModelOptions) -> Program:
    """The program of an optimised graph, which gets its layouts.

    Faster algorithms may keep larger weights: where these exceed `max_memory` the model does without them.
    """
    assign_layouts(graph, options.target.lanes)
    infer(graph)
    groupings, algorithms, limit = groupings_of(options), algorithms_of(options), options.max_memory
    program = lower(graph, options.target, groupings=groupings, algorithms=algorithms)
    if algorithms and limit is not None and _constant_bytes(program) > limit:
        program = lower(graph, options.target, groupings=groupings, algorithms=())
    _check_bytes(_constant_bytes(program), graph.name, limit)
    return program


def _constant_bytes(program: Program) -> int:
    return sum(b.array.nbytes for b in program.constants if b.array is not None)


def groupings_of(options: ModelOptions) -> tuple[str, ...]:
    """The groupings these options leave."""
    if not options.optimize or FUSION in options.disable:
        return ()
    return tuple(g for g in GROUPINGS if g not in options.disable)


def algorithms_of(options: ModelOptions) -> tuple[str, ...]:
    """The algorithms these options leave: none where every operator is a kernel, nor where answers must be exact."""
    if not options.optimize or options.precision == "exact":
        return ()
    return tuple(a for a in ALGORITHMS if a not in options.disable)


def select_outputs(graph: Graph, names: Sequence[str]) -> None:
    """Make the named values the graph's outputs, whatever they are, and take out what only fed others.

    Raises ModelError for an unknown name.
    """
    values = {v.name: v for v in graph.values()}
    for name in names:
        if name not in values:
            near = difflib.get_close_matches(str(name), values, n=3)
            remedy = f"did you mean {', '.join(near)}?" if near else None
            raise ModelError(f"there is no tensor named {name!r}", model=graph.name, remedy=remedy)
    graph.outputs = [values[name] for name in dict.fromkeys(names)]
    remove_dead(graph, graph.nodes)


def _check_weights(graph: Graph, limit: int | None) -> None:
    arrays = {id(v.constant): v.constant.nbytes for v in graph.constants if v.constant is not None}
    _check_bytes(sum(arrays.values()), graph.name, limit)


def _check_bytes(total: int, model: str, limit: int | None) -> None:
    if limit is not None and total > limit:
        raise MemoryLimitError(
            f"the model's constants take {total:,} bytes, more than the limit of {limit:,}", model=model,
            remedy="raise max_memory",
        )  # fmt: skip
