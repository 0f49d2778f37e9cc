"""The functions a user calls: `compile`, `optimize`, `load_graph`."""

from __future__ import annotations

import difflib
import logging
import operator
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from jitopt_kernels.targets import TARGETS

from jitopt.codegen.cache import Cache
from jitopt.codegen.host import choose_target, cpu_allowance, memory_limit
from jitopt.errors import JitoptError, MemoryLimitError, ModelError
from jitopt.ir.clone import clone
from jitopt.ir.graph import Graph
from jitopt.ir.verifier import verify as verify_graph
from jitopt.lower.algorithms import ALGORITHMS
from jitopt.lower.groups import GROUPINGS
from jitopt.lower.program import Program
from jitopt.model import FUSION, CompiledModel, ModelOptions, compile_model, select_outputs
from jitopt.ops import find
from jitopt.passes.optimize import GELUS, PRECISIONS, OptimizeReport
from jitopt.passes.optimize import optimize as optimize_graph
from jitopt.passes.pipelines import PASSES
from jitopt.runtime.driver import driver
from jitopt.runtime.executor import Executor
from jitopt.session import Session
from jitopt.settle import Maker, settle

logger = logging.getLogger("jitopt")

MEMORY_SHARE = 0.8


def load_graph(model: Any, *, max_memory: int | None = None) -> Graph:
    """The model as a graph: a path, bytes, an onnx ModelProto, or a Graph, which is returned as it is.

    `max_memory` bounds the bytes of its constants. Raises ModelError or UnsupportedOperator for what cannot be read,
    MemoryLimitError.
    """
    if isinstance(model, Graph):
        return model
    from jitopt.onnx_io import read_model

    return read_model(model, max_memory=max_memory)


def optimize(model: Any, **options: Any) -> OptimizeReport:
    """Optimise a graph in place (see `jitopt.passes.optimize`); returns what every pass did."""
    return optimize_graph(load_graph(model), **options)


def compile(
    model: str | os.PathLike[str] | bytes | Graph | Any, *, num_threads: int | None = None, precision: str = "default",
    gelu: str = "exact", optimize: bool = True, disable: Iterable[str] = (), shapes: Sequence[Mapping[str, Any]] = (),
    outputs: Sequence[str] | None = None, feeds: Mapping[str, Any] | None = None, verify: bool = True,
    max_memory: int | None = None, target: str | None = None, cache: bool = True,
    progress: Callable[[int, int, str, float], None] | None = None,
) -> Session:  # fmt: skip
    """Compile a model for this machine and return a session that runs it.

    model        path, bytes, onnx ModelProto or Graph (which stays as it is)
    num_threads  threads of a run; default: what the process may use
    precision    "exact", "default" or "fast"; see docs/architecture.md
    gelu         "exact", "tanh" or "sigmoid": the form GELU may take
    optimize     False: no pass runs, every operator is its own kernel
    disable      names of passes not to run; also "winograd", "fusion" or its parts "pointwise-groups", "epilogues"
                 and "concat-views"
    shapes       input shapes to bind before the first run: mappings from input name to extents, or one mapping
    outputs      names of the tensors to return, intermediate ones too; None or []: the model's outputs
    feeds        sample inputs; their shapes are bound, too
    verify       hold "default" and "fast" against exact answers at first compile, on `feeds` or on generated ones, and
                 lower the model again with fewer rewrites where they differ; `explain()` gives the verdict
    max_memory   bytes that constants and pools may take; default: 80 % of what the process may use
    target       "avx512", "avx2", "x86-64-v2"; default: the best this CPU runs
    cache        keep compiled kernels on disk
    progress     called after each kernel with (done, total, key, seconds)

    Raises ModelError, UnsupportedOperator, ShapeError, CompileError, MemoryLimitError, FeedError for wrong `shapes` or
    `feeds`; ValueError or TypeError for a wrong option.
    """
    options = _options(num_threads, precision, gelu, optimize, disable, max_memory, target)
    disk = Cache.default() if cache else None
    name = str(model) if isinstance(model, (str, os.PathLike)) else model.name if isinstance(model, Graph) else None
    try:
        graph = _checked(clone(model)) if isinstance(model, Graph) else load_graph(model, max_memory=options.max_memory)
        name = name or graph.name
        if outputs:
            select_outputs(graph, [outputs] if isinstance(outputs, str) else outputs)
        driver(disk)
        bound = (shapes,) if isinstance(shapes, Mapping) else tuple(shapes)

        def build(options: ModelOptions) -> CompiledModel:
            return compile_model(clone(graph), options, cache=disk, progress=progress)

        def executor(compiled: CompiledModel) -> Executor:
            return Executor(
                compiled.program, compiled.addresses(), num_threads or cpu_allowance().count,
                flush_denormals=precision != "exact", max_memory=options.max_memory,
            )  # fmt: skip

        def start(compiled: CompiledModel) -> Session:
            session = Session(compiled, executor(compiled), graph, disk)
            for given in bound:
                session.bind(given)
            if feeds is not None:
                session.bind_feeds(feeds)
            return session

        compiled = build(options)
        session = start(compiled)
        if verify:
            first = next(iter(bound), None)
            settled = settle(compiled, graph, Maker(build, executor), feeds=feeds, shapes=first, cache=disk)
            if settled is not compiled:
                session = start(settled)
            compiled = settled
        _tell_of_host_steps(compiled.program)
    except JitoptError as error:
        raise error.at(model=name) from error.__cause__
    except MemoryError as error:
        raise MemoryLimitError(f"there is not enough memory to compile it: {error}", model=name) from error
    return session


def _tell_of_host_steps(program: Program) -> None:
    """Log what has no kernel and runs in NumPy, which may be hundreds of times slower."""
    operators = [step.node.op for step in program.host_steps]
    if operators:
        names = ", ".join(sorted(set(operators)))
        logger.warning(
            "model '%s': %d operators run in NumPy (%s); explain() says why", program.name, len(operators), names
        )


def _checked(graph: Graph) -> Graph:
    """A graph built in Python, its nodes put in order. Raises ModelError where something about it cannot be."""
    if not graph.outputs:
        raise ModelError("the graph has no outputs", model=graph.name)
    graph.sort()
    verify_graph(graph, find)
    return graph


def _options(
    num_threads: int | None, precision: str, gelu: str, optimize: bool, disable: Iterable[str], max_memory: int | None,
    target: str | None,
) -> ModelOptions:  # fmt: skip
    """The options of `compile`, checked. Raises ValueError or TypeError; CompileError for a target not of this CPU."""
    _one_of("precision", precision, PRECISIONS)
    _one_of("gelu", gelu, GELUS)
    names = (disable,) if isinstance(disable, str) else tuple(disable)
    for name in names:
        _one_of("disable", name, (FUSION, *GROUPINGS, *ALGORITHMS, *PASSES))
    if target is not None:
        _one_of("target", target, tuple(TARGETS))
    if num_threads is not None and _whole("num_threads", num_threads) < 1:
        raise ValueError(f"num_threads is {num_threads}, it must be at least 1")
    if max_memory is None:
        available = memory_limit()
        max_memory = None if available is None else int(available * MEMORY_SHARE)
    elif _whole("max_memory", max_memory) < 0:
        raise ValueError(f"max_memory is {max_memory}, it must not be negative")
    return ModelOptions(choose_target(target), precision, gelu, optimize, names, max_memory)


def _whole(option: str, value: Any) -> int:
    """Raises TypeError for what is no integer."""
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{option} is {value!r}, it must be an integer") from None


def _one_of(option: str, value: Any, allowed: Sequence[str]) -> None:
    if value not in allowed:
        near = difflib.get_close_matches(str(value), allowed, n=3)
        hint = f"did you mean {' or '.join(map(repr, near))}?" if near else f"it is one of {', '.join(allowed)}"
        raise ValueError(f"{option}={value!r} is unknown; {hint}")
