"""Row kernels where shapes are treacherous: extents of 1, square domains, folded axes kept and taken out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitopt
from jitopt.ir.clone import clone
from jitopt.ir.graph import Graph
from jitopt.ir.interpreter import Interpreter
from jitopt.ops import find
from jitopt.passes.infer import infer
from jitopt.verify import compare

SHAPES = [(1, 1), (4, 4), (5, 1), (1, 7), (3, 5)]
RNG = np.random.default_rng(0)


def floats(*shape: int) -> np.ndarray[Any, Any]:
    return RNG.standard_normal(shape).astype(np.float32)


def check(graph: Graph, feeds: dict[str, Any]) -> jitopt.Session:
    """The compiled graph gives what the reference gives."""
    typed = clone(graph)
    infer(typed)
    expected = Interpreter(typed, find).run(feeds)
    session = jitopt.compile(graph, num_threads=1)
    for found, wanted in zip(session.run(None, feeds), expected.values(), strict=True):
        assert found.shape == wanted.shape
        assert compare(found, wanted)
    return session


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("axis", [0, 1])
def test_a_row_result_with_an_epilogue_is_stored_once_a_row(shape: tuple[int, int], keepdims: int, axis: int) -> None:
    graph = Graph("rows")
    x = graph.input("x", "float32", shape)
    mean = graph.add("ReduceMean", [x, graph.constant(np.array([axis]))], keepdims=keepdims)
    spread = graph.add("Sqrt", [graph.add("Abs", [mean])])
    scale = floats(*np.mean(np.zeros(shape), axis=axis, keepdims=bool(keepdims)).shape)
    graph.output(graph.add("Mul", [spread, graph.constant(scale)]), "y")
    graph.output(mean, "mean")
    session = check(graph, {"x": floats(*shape)})
    assert len(session.explain().as_dict()["groups"]) == 1


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_vectors_along_the_row_are_not_taken_for_row_results(shape: tuple[int, int]) -> None:
    graph = Graph("norm")
    x, n = graph.input("x", "float32", shape), shape[1]
    shifted = graph.add("Add", [x, graph.constant(floats(n))])
    y = graph.add("LayerNormalization", [shifted, graph.constant(floats(n)), graph.constant(floats(n))], axis=-1)
    graph.output(graph.add("Mul", [y, graph.constant(floats(n))]), "y")
    check(graph, {"x": floats(*shape)})
