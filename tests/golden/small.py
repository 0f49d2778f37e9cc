"""The small model whose every level is kept in files: graph, optimised graph, groups, program, plan, kernels."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from jitopt_kernels.targets import TARGETS

from jitopt.codegen.templates import render
from jitopt.ir.clone import clone
from jitopt.ir.dims import Environment, symbol
from jitopt.ir.graph import Graph
from jitopt.ir.text import print_graph
from jitopt.lower.groups import Group
from jitopt.lower.layout import assign_layouts
from jitopt.lower.lowering import groups_of, lower
from jitopt.lower.program import Program, Segment
from jitopt.lower.text import kernel_names, print_program
from jitopt.lower.text_groups import print_groups
from jitopt.passes.infer import infer
from jitopt.passes.optimize import optimize
from jitopt.runtime.binding import plan_segment
from jitopt.runtime.text import describe_plan, print_plan


def small_model() -> Graph:
    """Conv, BatchNormalization, Relu, GlobalAveragePool, Gemm, Gelu, Softmax on [n, 3, 8, 8].

    The numbers are exact in float32 under every order of evaluation the passes may choose.
    """
    graph = Graph("small")
    x = graph.input("image", "float32", (symbol("n"), 3, 8, 8))
    weights = graph.constant(_steps(12, 3, 3, 3), "conv.weight")
    y = graph.add("Conv", [x, weights], name="conv", pads=(1, 1, 1, 1))
    # Variance plus epsilon is 1/4: a power of two, so folding divides exactly.
    ones, quarter = np.ones(12, np.float32), np.full(12, 0.25 - 2.0**-10, np.float32)
    norm = [graph.constant(a, f"bn.{n}") for n, a in (("scale", _steps(12)), ("bias", ones), ("mean", _steps(12)))]
    y = graph.add("BatchNormalization", [y, *norm, graph.constant(quarter, "bn.var")], name="bn", epsilon=2.0**-10)
    y = graph.add("Relu", [y], name="relu")
    y = graph.add("GlobalAveragePool", [y], name="pool")
    y = graph.add("Flatten", [y], name="flatten")
    head = [graph.constant(_steps(10, 12), "fc.weight"), graph.constant(_steps(10), "fc.bias")]
    y = graph.add("Gemm", [y, *head], name="fc", transB=1)
    y = graph.add("Gelu", [y], name="gelu")
    graph.output(graph.add("Softmax", [y], name="softmax", axis=-1), "probabilities")
    infer(graph)
    return graph


def _steps(*shape: int) -> np.ndarray:
    """Multiples of 1/8 between -1 and 1 in no simple order."""
    count = int(np.prod(shape))
    return ((np.arange(count) * 5 % 17 - 8) / 8).astype(np.float32).reshape(shape)


@dataclass(frozen=True)
class Levels:
    """The model at each level; `laid_out` is the optimised graph with layouts, which groups and program are made of."""

    graph: Graph
    optimized: Graph
    laid_out: Graph
    groups: list[Group]
    program: Program


@cache
def levels(target: str = "avx2") -> Levels:
    """All levels for a target, by the same steps as `jitopt.compile`; what is returned must not be changed."""
    graph = small_model()
    optimized = clone(graph)
    optimize(optimized)
    laid_out = clone(optimized)
    assign_layouts(laid_out, TARGETS[target].lanes)
    infer(laid_out)
    return Levels(graph, optimized, laid_out, groups_of(laid_out), lower(laid_out, TARGETS[target]))


BATCH, THREADS = 2, 2


def texts() -> dict[str, str]:
    """Everything by the name of the file that keeps it."""
    small = levels("avx2")
    return {
        "small.graph": print_graph(small.graph),
        "small.optimized.graph": print_graph(small.optimized),
        "small.avx2.graph": print_graph(small.laid_out),
        "small.avx2.groups": print_groups(small.groups, small.laid_out),
        "small.avx2.program": print_program(small.program),
        "small.avx2.plan": plan_text(small.program),
        "small.avx2.kernels": kernels_text(small.program),
        "small.avx512.kernels": kernels_text(levels("avx512").program),
    }


def plan_text(program: Program) -> str:
    """The program's only segment, bound to a batch of BATCH for THREADS threads."""
    (segment,) = program.parts
    assert isinstance(segment, Segment)
    plan = plan_segment(segment, Environment({"n": BATCH}), dict.fromkeys(program.specs, 0), THREADS)
    return print_plan(describe_plan(program, plan))


def kernels_text(program: Program) -> str:
    """The generated modules one after the other."""
    return "\n\n".join(f"# {name} {'-' * 110}\n{render(spec)}" for spec, name in kernel_names(program).items())
