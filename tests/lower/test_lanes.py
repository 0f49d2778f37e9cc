"""Lanes beyond the channels stay zero, whatever runs before a value is stored."""

from __future__ import annotations

import numpy as np
import pytest

import jitopt
from tests.lower.test_rows import check, floats


@pytest.mark.parametrize("prologue", ["Log", "Reciprocal", "Exp", "Relu"])
@pytest.mark.parametrize("pool", ["GlobalAveragePool", "GlobalMaxPool"])
def test_a_prologue_before_a_global_pool_leaves_no_garbage_in_the_lanes(prologue: str, pool: str) -> None:
    graph = jitopt.Graph("lanes")
    x = graph.input("x", "float32", (1, 16, 6, 6))
    y = graph.add("Conv", [x, graph.constant(np.abs(floats(20, 16, 1, 1)))])
    y = graph.add("MaxPool", [y], kernel_shape=[2, 2], strides=[2, 2])
    y = graph.add(pool, [graph.add(prologue, [y])])
    graph.output(graph.add("Conv", [y, graph.constant(floats(5, 20, 1, 1))]), "y")
    check(graph, {"x": np.abs(floats(1, 16, 6, 6)) + 0.5})


def test_a_reorder_that_nobody_reads_does_not_run() -> None:
    graph = jitopt.Graph("dead")
    x, w = graph.input("x", "float32", (1, 16, 4, 4)), graph.input("w", "float32", (16, 16, 1, 1))
    graph.output(graph.add("Conv", [x, w]), "y")
    session = check(graph, {"x": floats(1, 16, 4, 4), "w": floats(16, 16, 1, 1)})
    assert session.explain().as_dict()["groups"] == []


def test_a_scalar_joins_blocked_domains_of_different_rank() -> None:
    graph = jitopt.Graph("ranks")
    one = graph.constant(np.float32(1.5))
    for rank in (4, 3):
        x = graph.input(f"x{rank}", "float32", (1, 8, *(5,) * (rank - 2)))
        y = graph.add("Conv", [x, graph.constant(floats(1, 8, *(1,) * (rank - 2)))])
        pooled = graph.add("MaxPool", [y], kernel_shape=[2] * (rank - 2))
        graph.output(graph.add("Pow", [graph.add("Abs", [pooled]), one]), f"y{rank}")
    check(graph, {"x4": floats(1, 8, 5, 5), "x3": floats(1, 8, 5)})
