"""Tensors of high rank, compiled: as many loops as axes that do not merge, up to twice the rank for Tile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitopt
from jitopt import Graph
from tests.networks import N, check, floats

SHAPE = (N, 2, 3, 2, 1, 3, 2, 2, 3)
EXTENTS = (2, *SHAPE[1:])


def constant(graph: Graph, array: Any) -> Any:
    return graph.constant(np.asarray(array), "c")


def broadcast(graph: Graph, x: Any) -> Any:
    """Every other axis repeats, so that no two become one loop."""
    return graph.add("Add", [x, constant(graph, floats(*(d if i % 2 else 1 for i, d in enumerate(EXTENTS))))])


def reversed_axes(graph: Graph, x: Any) -> Any:
    return graph.add("Transpose", [x], perm=[8, 1, 6, 3, 4, 5, 2, 7, 0])


def tiled(graph: Graph, x: Any) -> Any:
    return graph.add("Tile", [x, constant(graph, [1, 2, 1, 2, 1, 2, 1, 2, 1])])


def reduced(graph: Graph, x: Any) -> Any:
    return graph.add("ReduceMax", [broadcast(graph, x), constant(graph, [5])])


def padded(graph: Graph, x: Any) -> Any:
    return graph.add("Pad", [x, constant(graph, [0, 1] * 9)], mode="constant")


def places(graph: Graph, x: Any) -> Any:
    return graph.add("GatherND", [x, constant(graph, [[0, 1, 2, 1, 0, 2, 1, 1], [-1, 0, 0, -2, -1, 1, -2, 0]])])


@pytest.mark.parametrize("build", [broadcast, reversed_axes, tiled, reduced, padded, places])
def test_nine_axes(build: Callable[[Graph, Any], Any]) -> None:
    graph = Graph("deep")
    graph.output(build(graph, graph.input("x", "float32", SHAPE)))
    session = jitopt.compile(graph, num_threads=2)
    assert session.explain().as_dict()["host_steps"] == []
    for extent in (2, 1) if build is not broadcast and build is not reduced else (2,):
        check(session, graph, {"x": floats(extent, *SHAPE[1:])})
