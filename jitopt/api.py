"""The functions a user calls: `compile`, `optimize`, `load_graph`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from jitopt.codegen.cache import Cache
from jitopt.codegen.host import choose_target, cpu_allowance, memory_limit
from jitopt.ir.clone import clone
from jitopt.ir.graph import Graph
from jitopt.model import ModelOptions, compile_model, select_outputs
from jitopt.passes.optimize import GELUS, PRECISIONS, OptimizeReport
from jitopt.passes.optimize import optimize as optimize_graph
from jitopt.runtime.driver import driver
from jitopt.runtime.executor import Executor
from jitopt.session import Session

MEMORY_SHARE = 0.8


def load_graph(model: Any) -> Graph:
    """The model as a graph: a path, bytes, an onnx ModelProto, or a Graph, which is returned as it is.

    Raises ModelError or UnsupportedOperator for what cannot be read.
    """
    if isinstance(model, Graph):
        return model
    from jitopt.onnx_io import read_model

    return read_model(model)


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
    disable      names of passes not to run; also "fusion" or its parts "pointwise-groups" and "epilogues"
    shapes       input shapes to bind before the first run: mappings from input name to extents
    outputs      names of the tensors to return, intermediate ones too; default: the model's outputs
    feeds        sample inputs; their shapes are bound, too
    verify       check default precision against exact on sample feeds at first compile
    max_memory   bytes that constants and pools may take; default: 80 % of what the process may use
    target       "avx512", "avx2", "x86-64-v2"; default: the best this CPU runs
    cache        keep compiled kernels on disk
    progress     called after each kernel with (done, total, key, seconds)

    Raises ModelError, UnsupportedOperator, ShapeError, CompileError, MemoryLimitError; ValueError for a wrong option.
    """
    for name, value, allowed in (("precision", precision, PRECISIONS), ("gelu", gelu, GELUS)):
        if value not in allowed:
            raise ValueError(f"{name} is {value!r}, not one of {', '.join(map(repr, allowed))}")
    if num_threads is not None and num_threads < 1:
        raise ValueError(f"num_threads is {num_threads}, it must be at least 1")
    if max_memory is None:
        available = memory_limit()
        max_memory = None if available is None else int(available * MEMORY_SHARE)
    chosen = choose_target(target)
    disk = Cache.default() if cache else None
    graph = clone(model) if isinstance(model, Graph) else load_graph(model)
    if outputs is not None:
        select_outputs(graph, outputs)
    options = ModelOptions(chosen, precision, gelu, optimize, tuple(disable), max_memory)
    driver(disk)
    compiled = compile_model(clone(graph), options, cache=disk, progress=progress)
    threads = num_threads or cpu_allowance().count
    executor = Executor(
        compiled.program, compiled.addresses(), threads, flush_denormals=precision != "exact", max_memory=max_memory
    )  # fmt: skip
    session = Session(compiled, executor, graph, disk)
    for given in shapes:
        session.bind(given)
    if feeds is not None:
        session.bind({name: getattr(feed, "shape", ()) for name, feed in feeds.items()})
    return session
