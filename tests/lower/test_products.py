"""Matrix products of high rank and odd operands: where images lie, and which operands an epilogue may take."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jitopt
from tests.lower.test_rows import check, floats

PAIRS = [
    ((1, 2, 3, 4, 5), (1, 2, 1, 5, 8)),
    ((2, 3, 4, 4, 5), (1, 1, 4, 5, 8)),
    ((2, 1, 3, 4, 5), (2, 4, 1, 5, 8)),
    ((2, 3, 4, 5), (3, 5, 8)),
    ((1, 3, 1, 4, 5), (2, 1, 6, 5, 9)),
    ((3, 1, 4, 5), (1, 2, 5, 7)),
    ((5,), (2, 5, 8)),
    ((2, 3, 5), (5,)),
    ((3, 1, 5), (5, 1)),
]


def addends(shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Shapes that broadcast to `shape`: all of it, and each axis alone or left out."""
    found = {shape, shape[-1:], ()}
    for axis in range(len(shape)):
        found.add(tuple(d if i == axis else 1 for i, d in enumerate(shape)))
        found.add(tuple(1 if i == axis else d for i, d in enumerate(shape)))
    return sorted(found)


@pytest.mark.parametrize(("a", "b"), PAIRS, ids=str)
@pytest.mark.parametrize("constant", [False, True])
def test_products_with_epilogues(a: tuple[int, ...], b: tuple[int, ...], constant: bool) -> None:
    shape = np.matmul(np.zeros(a), np.zeros(b)).shape
    graph = jitopt.Graph("product")
    x = graph.input("x", "float32", a)
    feeds: dict[str, Any] = {"x": floats(*a)}
    if constant:
        y = graph.constant(floats(*b))
    else:
        y, feeds["y"] = graph.input("y", "float32", b), floats(*b)
    plain = graph.add("MatMul", [x, y])
    graph.output(plain, "plain")
    for index, addend in enumerate(addends(shape)):
        product = graph.add("MatMul", [x, y])
        operand = graph.input(f"c{index}", "float32", addend)
        feeds[f"c{index}"] = floats(*addend)
        graph.output(graph.add("Relu", [graph.add("Add", [product, operand])]), f"z{index}")
    check(graph, feeds)


@pytest.mark.parametrize("order", [(0, 1, 3, 2, 4), (0, 2, 1, 3, 4), (0, 3, 1, 2, 4)], ids=str)
def test_products_that_read_and_store_through_transposes(order: tuple[int, ...]) -> None:
    graph = jitopt.Graph("transposed")
    x, y = graph.input("x", "float32", (1, 2, 3, 4, 5)), graph.input("y", "float32", (1, 2, 1, 5, 8))
    product = graph.add("Mul", [graph.add("MatMul", [x, y]), graph.constant(np.float32(0.5))])
    moved = graph.add("Transpose", [product], perm=order)
    graph.output(moved, "z")
    u = graph.input("u", "float32", (1, 3, 2, 4, 5))
    again = graph.add("Transpose", [u], perm=[0, 2, 1, 3, 4])
    graph.output(graph.add("MatMul", [again, y]), "again")
    check(graph, {"x": floats(1, 2, 3, 4, 5), "y": floats(1, 2, 1, 5, 8), "u": floats(1, 3, 2, 4, 5)})
