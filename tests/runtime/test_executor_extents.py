"""Extents that do not fit are refused when shapes are bound, before any kernel could read past a buffer.

Nothing is compiled: binding needs no code, only addresses nobody calls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from jitopt.codegen.host import choose_target
from jitopt.errors import MemoryLimitError, ShapeError
from jitopt.ir.dims import symbol
from jitopt.ir.graph import Graph
from jitopt.model import ModelOptions, lower_model, optimize_model
from jitopt.passes.infer import infer
from jitopt.runtime.executor import Executor

A, B, C, D = (symbol(name) for name in "abcd")
Build = Callable[[Graph], Any]
Shapes = Sequence[tuple[int, ...]]


def executor_of(build: Build, **options: Any) -> Executor:
    """An executor that can bind, but not run."""
    graph = Graph("extents")
    made = build(graph)
    for value in made if isinstance(made, tuple) else (made,):
        graph.output(value)
    settings = ModelOptions(choose_target())
    infer(graph)
    optimize_model(graph, settings)
    program = lower_model(graph, settings)
    return Executor(program, dict.fromkeys(program.specs, 0), 1, **options)


def inputs(graph: Graph, *shapes: Any) -> list[Any]:
    return [graph.input(f"x{i}", "float32", shape) for i, shape in enumerate(shapes)]


def constant(graph: Graph, values: Any, dtype: Any = np.int64) -> Any:
    return graph.constant(np.asarray(values, dtype), "c")


def op(name: str, *shapes: Any, extra: Sequence[Any] = (), outputs: int = 1, **attrs: Any) -> Build:
    """One operator on inputs of these shapes and constants (int64, or arrays as they are)."""
    return lambda g: g.add(
        name,
        [*inputs(g, *shapes), *(constant(g, e, getattr(e, "dtype", np.int64)) for e in extra)],
        outputs=outputs, name="it", **attrs,
    )  # fmt: skip


def ones(*shape: int) -> Any:
    return np.ones(shape, np.float32)


# What is built, shapes that fit, shapes that do not.
CASES: dict[str, tuple[Build, list[Shapes], list[Shapes]]] = {
    "broadcast": (
        op("Add", (A, 4), (B, 4)), [[(3, 4), (3, 4)], [(1, 4), (3, 4)], [(3, 4), (1, 4)], [(0, 4), (1, 4)]],
        [[(3, 4), (2, 4)], [(0, 4), (2, 4)]]),
    "broadcast of three": (
        op("Max", (A,), (B,), (C,)), [[(1,), (3,), (3,)], [(3,), (1,), (1,)]],
        [[(1,), (3,), (2,)], [(2,), (1,), (3,)]]),
    "broadcast to a number": (op("Mul", (A, 4), (3, 4)), [[(1, 4), (3, 4)], [(3, 4), (3, 4)]], [[(2, 4), (3, 4)]]),
    "matrix product": (op("MatMul", (A, B), (C, D)), [[(2, 3), (3, 5)]], [[(2, 3), (4, 5)], [(2, 3), (2, 5)]]),
    "product with weights": (op("MatMul", (A, B), extra=[ones(3, 5)]), [[(2, 3)]], [[(2, 4)], [(2, 2)]]),
    "batches of products": (
        op("MatMul", (A, 2, 3), (B, 3, 2)), [[(4, 2, 3), (4, 3, 2)], [(1, 2, 3), (4, 3, 2)]], [[(4, 2, 3), (2, 3, 2)]]),
    "Gemm": (op("Gemm", (A, B), (C, D), (D,)), [[(2, 3), (3, 5), (5,)]], [[(2, 3), (2, 5), (5,)]]),
    "Gemm's addend": (op("Gemm", (A, 3), (3, 5), (B,)), [[(2, 3), (3, 5), (5,)], [(2, 3), (3, 5), (1,)]],
                      [[(2, 3), (3, 5), (4,)]]),
    "join": (op("Concat", (A, 3), (B, C), axis=0), [[(1, 3), (5, 3)]], [[(1, 3), (5, 2)], [(1, 3), (5, 4)]]),
    "join of symbols": (op("Concat", (A, B), (C, D), axis=1), [[(2, 3), (2, 5)]], [[(2, 3), (1, 5)]]),
    "reshape": (op("Reshape", (A,), extra=[[2, 3]]), [[(6,)]], [[(5,)], [(7,)]]),
    "reshape by a quotient": (op("Reshape", (A, B), extra=[[4, -1]]), [[(2, 6)], [(4, 1)]], [[(3, 3)], [(1, 5)]]),
    "squeeze": (op("Squeeze", (A, B), extra=[[0]]), [[(1, 4)]], [[(2, 4)]]),
    "split": (op("Split", (A, 2), extra=[[3, 2]], outputs=2, axis=0), [[(5, 2)]], [[(4, 2)], [(6, 2)]]),
    "expand": (op("Expand", (A, 4), extra=[[3, 1]]), [[(1, 4)], [(3, 4)]], [[(2, 4)]]),
    "channel vectors": (
        op("InstanceNormalization", (A, B, 8), extra=[ones(3), ones(3)]), [[(2, 3, 8)]], [[(2, 4, 8)], [(2, 2, 8)]]),
    "BatchNormalization": (
        op("BatchNormalization", (A, B, 8), extra=[ones(3)] * 4), [[(2, 3, 8)]], [[(2, 4, 8)], [(2, 2, 8)]]),
    "scale of a row": (op("LayerNormalization", (A, B), extra=[ones(4)]), [[(2, 4)]], [[(2, 5)], [(2, 3)]]),
    "slope": (op("PRelu", (A, B), extra=[ones(4)]), [[(2, 4)]], [[(2, 5)], [(2, 1)]]),
    "convolution larger than its image": (
        op("Conv", (1, 3, A, B), extra=[ones(4, 3, 3, 3)]), [[(1, 3, 3, 3)], [(1, 3, 9, 4)]],
        [[(1, 3, 2, 9)], [(1, 3, 9, 1)], [(1, 3, 1, 1)], [(1, 3, 0, 9)]]),
    "channels of a convolution": (
        op("Conv", (1, A, 5, 5), extra=[ones(4, 3, 3, 3)]), [[(1, 3, 5, 5)]], [[(1, 2, 5, 5)], [(1, 4, 5, 5)]]),
    "pool larger than its image": (
        op("MaxPool", (1, 3, A, 5), kernel_shape=[4, 2]), [[(1, 3, 4, 5)]], [[(1, 3, 3, 5)]]),
    "padding that takes away": (op("Pad", (A,), extra=[[-2, -1]]), [[(4,)], [(3,)]], [[(2,)]]),
    "blocks of channels": (
        op("DepthToSpace", (1, A, 2, 2), blocksize=2), [[(1, 8, 2, 2)]], [[(1, 6, 2, 2)]]),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_extents_that_do_not_fit_are_refused_and_name_the_node(case: str) -> None:
    build, good, bad = CASES[case]
    executor = executor_of(build)
    for shapes in good:
        executor.bind(shapes)
    for shapes in bad:
        with pytest.raises(ShapeError) as caught:
            executor.bind(shapes)
        assert caught.value.model == "extents" and caught.value.node, shapes
        assert "with " in str(caught.value)
    assert len(executor._frames) == len({tuple(s) for s in good})


def test_empty_tensors_can_be_tiled() -> None:
    executor = executor_of(op("Tile", (A, 3), extra=[[2, 2]]))
    for extent in (0, 1, 4):
        executor.bind([(extent, 3)])


def test_extents_known_from_the_start_need_no_check() -> None:
    for build in (op("Add", (A, 4), (A, 4)), op("MatMul", (A, 3), (3, B)), op("Reshape", (A, 6), extra=[[0, 2, 3]])):
        assert executor_of(build).program.checks == []


def test_a_quotient_by_an_extent_of_zero_is_refused() -> None:
    def build(g: Graph) -> Any:
        (x,) = inputs(g, (A, B))
        rows = g.add("Slice", [g.add("Shape", [x]), *(constant(g, [i]) for i in (1, 2))])
        target = g.add("Concat", [rows, constant(g, [-1])], axis=0)
        return g.add("Relu", [g.add("Reshape", [g.add("Transpose", [x], perm=[1, 0]), target], name="it")])

    executor = executor_of(build)
    executor.bind([(3, 4)])
    executor.bind([(0, 4)])


def test_memory_is_counted_before_it_is_taken() -> None:
    executor = executor_of(lambda g: g.add("Relu", [g.add("MatMul", [*inputs(g, (A, B), (B, C))])]), max_memory=1 << 20)
    executor.bind([(8, 8), (8, 8)])
    for shapes in ([(1 << 20, 1), (1, 1 << 20)], [(1 << 40, 1), (1, 1 << 20)]):
        with pytest.raises(MemoryLimitError, match="more than the limit of 1,048,576"):
            executor.bind(shapes)
