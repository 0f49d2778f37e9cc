"""Reshapes merged, shape operands made constant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitopt.ir.dims import symbol
from jitopt.ir.graph import Graph, Value
from tests.passes.helpers import fires, refuses

N, S = symbol("n"), symbol("s")
Form = Callable[[Graph, Value], Value]


def i64(g: Graph, *values: int) -> Value:
    return g.constant(np.array(values, np.int64), "i")


def built(form: Form, shape: tuple[Any, ...]) -> Graph:
    g = Graph("g")
    x = g.add("Neg", [g.input("x", "float32", shape)])
    g.output(g.add("Abs", [form(g, x)]), "y")
    return g


def reshapes(*targets: tuple[int, ...]) -> Form:
    def form(g: Graph, x: Value) -> Value:
        for target in targets:
            x = g.add("Reshape", [x, i64(g, *target)])
        return x

    return form


@pytest.mark.parametrize(
    ("form", "shape", "changes", "left"),
    [
        (reshapes((6, 4), (2, 12)), (2, 3, 4), 1, ["Reshape"]),
        (reshapes((6, 4), (-1,), (4, 6)), (2, 3, 4), 2, ["Reshape"]),
        (reshapes((0, -1), (0, 3, 4)), (N, 3, 4), 1, []),
        (reshapes((0, -1), (0, 4, 3)), (N, 3, 4), 1, ["Reshape"]),
        (reshapes((-1, 4), (3, -1)), (N, 3, 4), 1, ["Reshape"]),
        (lambda g, x: g.add("Unsqueeze", [g.add("Squeeze", [x, i64(g, 1)]), i64(g, 1)]), (2, 1, 4), 1, []),
        (lambda g, x: g.add("Unsqueeze", [g.add("Squeeze", [x, i64(g, 1)]), i64(g, 2)]), (2, 1, 4), 1, ["Reshape"]),
        (lambda g, x: g.add("Flatten", [g.add("Unsqueeze", [x, i64(g, 0)])]), (2, 4), 1, ["Reshape"]),
        (lambda g, x: g.add("Reshape", [g.add("Flatten", [x]), i64(g, 0, 2, 6)]), (N, 3, 4), 1, ["Reshape"]),
        (lambda g, x: g.add("Squeeze", [g.add("Unsqueeze", [x, i64(g, 0)]), i64(g, 0)]), (N, S, 4), 1, []),
        (lambda g, x: g.add("Unsqueeze", [g.add("Squeeze", [x, i64(g, 0)]), i64(g, 2)]), (1, N, S), 1, None),
    ],
)  # fmt: skip
def test_merged(form: Form, shape: tuple[Any, ...], changes: int, left: list[str] | None) -> None:
    if left is None:
        refuses(lambda: built(form, shape), "merge-views", "two symbolic extents")
    else:
        fires(lambda: built(form, shape), "merge-views", changes, ["Neg", *left, "Abs"], exact=True)


def test_an_inner_reshape_that_is_read_stays() -> None:
    def build() -> Graph:
        g = built(reshapes((6, 4), (2, 12)), (2, 3, 4))
        g.output(g.nodes[1].output, "inner")
        return g

    g = fires(build, "merge-views", 1, 4, exact=True)
    assert g.outputs[1].name == "inner"


# computed shapes ----------------------------------------------------------------------------------------------------
def computed(parts: Callable[[Graph, Value], list[Value]], shape: tuple[Any, ...], op: str = "Reshape") -> Graph:
    def form(g: Graph, x: Value) -> Value:
        return g.add(op, [x, g.add("Concat", parts(g, x), axis=0)])

    return built(form, shape)


def dim(g: Graph, x: Value, axis: int) -> Value:
    return g.add("Slice", [g.add("Shape", [x]), i64(g, axis), i64(g, axis + 1)])


@pytest.mark.parametrize(
    ("parts", "shape", "operand"),
    [
        (lambda g, x: [dim(g, x, 0), i64(g, -1)], (N, 3, 4), [0, 12]),
        (lambda g, x: [dim(g, x, 0), dim(g, x, 1), i64(g, 2, 2)], (N, S, 4), [0, 0, 2, 2]),
        (lambda g, x: [i64(g, 2, 2), dim(g, x, 0)], (N, 4), [2, 2, -1]),
        (lambda g, x: [dim(g, x, 0), i64(g, 2), dim(g, x, 1), i64(g, 2)], (N, S, 4), [0, 2, -1, 2]),
    ],
)
def test_constant_shapes(parts: Any, shape: tuple[Any, ...], operand: list[int]) -> None:
    g = fires(lambda: computed(parts, shape), "constant-shapes", 1, ["Neg", "Reshape", "Abs"], exact=True)
    assert g.nodes[1].arg(1).constant.tolist() == operand


def test_expand() -> None:
    g = fires(lambda: computed(lambda g, x: [dim(g, x, 0), i64(g, 5)], (N, 1), "Expand"), "constant-shapes", 1,
              ["Neg", "Expand", "Abs"], exact=True)  # fmt: skip
    assert g.nodes[1].arg(1).constant.tolist() == [1, 5]


def test_more_than_one_operand_can_say() -> None:
    refuses(lambda: computed(lambda g, x: [dim(g, x, 1), dim(g, x, 0)], (N, S)), "constant-shapes", "0 and -1")
    refuses(lambda: computed(lambda g, x: [dim(g, x, 0), dim(g, x, 0)], (N, 1), "Expand"), "constant-shapes", "0 and")


def test_a_shape_that_is_fed() -> None:
    def build() -> Graph:
        g = Graph("g")
        x, shape = g.input("x", "float32", (2, 3)), g.input("shape", "int64", (2,))
        g.output(g.add("Reshape", [x, shape]), "y")
        return g

    refuses(build, "constant-shapes", None)
