"""Nodes that change nothing, pairs that cancel, and those that only nearly do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitopt.ir.dims import symbol
from jitopt.ir.graph import Graph, Value
from tests.passes.helpers import fires, floats, refuses

Form = Callable[[Graph, Value], Value]
EDGES = {"x": np.array([[0.0, -0.0, 1.0, np.inf], [-np.inf, 1e-40, -2.5, 3e38]], np.float32)}


def built(form: Form, dtype: str = "float32", shape: tuple[Any, ...] = (2, 4)) -> Graph:
    """Relu guards both ends, so that neither an input's nor an output's name is in the way."""
    graph = Graph("g")
    x = graph.add("Neg", [graph.input("x", dtype, shape)])
    graph.output(graph.add("Abs", [form(graph, x)]), "y")
    return graph


def k(g: Graph, value: Any, dtype: Any = np.float32) -> Value:
    return g.constant(np.array(value, dtype), "k")


def ints(g: Graph, *values: int) -> Value:
    return g.constant(np.array(values, np.int64), "i")


FORMS: dict[str, Form] = {
    "Identity": lambda g, x: g.add("Identity", [x]),
    "Dropout": lambda g, x: g.add("Dropout", [x]),
    "Dropout in inference": lambda g, x: g.add("Dropout", [x, k(g, 0.5), k(g, False, bool)]),
    "x * 1": lambda g, x: g.add("Mul", [x, k(g, 1.0)]),
    "1 * x": lambda g, x: g.add("Mul", [k(g, [[1.0]]), x]),
    "x / 1": lambda g, x: g.add("Div", [x, k(g, [1.0, 1.0, 1.0, 1.0])]),
    "x - 0": lambda g, x: g.add("Sub", [x, k(g, 0.0)]),
    "x + -0": lambda g, x: g.add("Add", [x, k(g, -0.0)]),
    "x ^ 1": lambda g, x: g.add("Pow", [x, k(g, 1.0)]),
    "Cast": lambda g, x: g.add("Cast", [x], to=1),
    "Transpose": lambda g, x: g.add("Transpose", [x], perm=[0, 1]),
    "Reshape": lambda g, x: g.add("Reshape", [x, ints(g, 2, -1)]),
    "Flatten": lambda g, x: g.add("Flatten", [x]),
    "Squeeze": lambda g, x: g.add("Squeeze", [x]),
    "Expand": lambda g, x: g.add("Expand", [x, ints(g, 1, 4)]),
    "Tile": lambda g, x: g.add("Tile", [x, ints(g, 1, 1)]),
    "Slice": lambda g, x: g.add("Slice", [x, ints(g, 0), ints(g, 2**31), ints(g, 1), ints(g, 1)]),
    "Slice without steps": lambda g, x: g.add("Slice", [x, ints(g, 0, 0), ints(g, 2, 4)]),
    "Pad": lambda g, x: g.add("Pad", [x, ints(g, 0, 0, 0, 0)]),
    "Concat": lambda g, x: g.add("Concat", [x], axis=1),
    "Split": lambda g, x: g.add("Split", [x], axis=1, num_outputs=1),
    "Max": lambda g, x: g.add("Max", [x]),
    "Sum": lambda g, x: g.add("Sum", [x]),
    "Mean": lambda g, x: g.add("Mean", [x]),
    "Clip": lambda g, x: g.add("Clip", [x]),
    "Where": lambda g, x: g.add("Where", [k(g, [True], bool), x, k(g, 5.0)]),
    "Where not": lambda g, x: g.add("Where", [k(g, False, bool), k(g, 5.0), x]),
}


@pytest.mark.parametrize("name", FORMS)
def test_removed(name: str) -> None:
    fires(lambda: built(FORMS[name]), "remove-identities", 1, ["Neg", "Abs"], feeds=EDGES, exact=True)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("by", ["scales", "sizes"])
def test_resize_to_the_same_size(mode: str, by: str) -> None:
    def form(g: Graph, x: Value) -> Value:
        scales = k(g, [1.0, 1.0, 1.0, 1.0])
        inputs = [x, None, scales] if by == "scales" else [x, None, None, ints(g, 2, 3, 4, 5)]
        return g.add("Resize", inputs, mode=mode)

    fires(lambda: built(form, shape=(2, 3, 4, 5)), "remove-identities", 1, ["Neg", "Abs"], exact=True)


def test_symbolic_extents() -> None:
    n = symbol("n")
    fires(lambda: built(lambda g, x: g.add("Reshape", [x, ints(g, 0, 4)]), shape=(n, 4)), "remove-identities", 1,
          ["Neg", "Abs"])  # fmt: skip
    fires(lambda: built(lambda g, x: g.add("Reshape", [x, g.add("Shape", [x])]), shape=(n, 4)), "remove-identities", 1,
          ["Neg", "Abs"])  # fmt: skip


def test_boolean_operators() -> None:
    for op, constant in (("And", True), ("Or", False), ("Xor", False)):

        def build(op: str = op, constant: bool = constant) -> Graph:
            g = Graph("g")
            x = g.add("Not", [g.input("x", "bool", (3,))])
            g.output(g.add("Not", [g.add(op, [k(g, constant, bool), x])]), "y")
            return g

        fires(build, "remove-identities", 1, ["Not", "Not"], exact=True)


# near misses --------------------------------------------------------------------------------------------------------
NEAR: dict[str, tuple[Form, str | None]] = {
    "x + 0": (lambda g, x: g.add("Add", [x, k(g, 0.0)]), "turns -0 into 0"),
    "x - -0": (lambda g, x: g.add("Sub", [x, k(g, -0.0)]), None),
    "0 - x": (lambda g, x: g.add("Sub", [k(g, 0.0), x]), None),
    "1 / x": (lambda g, x: g.add("Div", [k(g, 1.0), x]), None),
    "1 ^ x": (lambda g, x: g.add("Pow", [k(g, 1.0), x]), None),
    "x * 1 that broadcasts": (lambda g, x: g.add("Mul", [x, k(g, np.ones((3, 1, 1)))]), None),
    "x * almost 1": (lambda g, x: g.add("Mul", [x, k(g, [1.0, 1.0, 1.0, 1.0000001])]), None),
    "Dropout in training": (lambda g, x: g.add("Dropout", [x, k(g, 0.0), k(g, True, bool)]), "training"),
    "Cast": (lambda g, x: g.add("Cast", [x], to=11), None),
    "Slice backwards": (
        lambda g, x: g.add("Slice", [x, ints(g, -1), ints(g, -(2**31)), ints(g, 1), ints(g, -1)]),
        None,
    ),
    "Pad and crop": (lambda g, x: g.add("Pad", [x, ints(g, 0, 1, 0, -1)]), None),
    "Reshape": (lambda g, x: g.add("Reshape", [x, ints(g, 4, 2)]), None),
    "Transpose": (lambda g, x: g.add("Transpose", [x]), None),
    "Expand": (lambda g, x: g.add("Expand", [x, ints(g, 3, 1, 1)]), None),
    "Tile": (lambda g, x: g.add("Tile", [x, ints(g, 2, 1)]), None),
    "Where of both": (lambda g, x: g.add("Where", [k(g, [True, False, True, True], bool), x, k(g, 5.0)]), None),
    "Where that broadcasts": (lambda g, x: g.add("Where", [k(g, True, bool), x, k(g, np.ones((3, 2, 4)))]), None),
}


@pytest.mark.parametrize("name", NEAR)
def test_kept(name: str) -> None:
    form, reason = NEAR[name]
    refuses(lambda: built(form), "remove-identities", reason)


def test_a_square_transposed_is_not_itself() -> None:
    refuses(lambda: built(lambda g, x: g.add("Transpose", [x]), shape=(4, 4)), "remove-identities", None)


def test_a_resize_whose_size_only_rounds_to_the_same() -> None:
    def form(g: Graph, x: Value) -> Value:
        return g.add("Resize", [x, None, k(g, [1.0, 1.0, 1.1, 1.0])], mode="linear")

    refuses(lambda: built(form, shape=(1, 1, 5, 5)), "remove-identities", None)


def test_a_dropout_whose_mask_is_read() -> None:
    def build() -> Graph:
        g = Graph("g")
        y, mask = g.add("Dropout", [g.input("x", "float32", (3,))], outputs=2)
        g.output(y, "y")
        g.output(mask, "mask")
        return g

    refuses(build, "remove-identities", "mask")


def test_names_of_outputs() -> None:
    """An output that is an input keeps its Identity; others hand their name on."""

    def direct() -> Graph:
        g = Graph("g")
        g.output(g.add("Identity", [g.input("x", "float32", (3,))]), "y")
        return g

    def two() -> Graph:
        g = Graph("g")
        y = g.output(g.add("Neg", [g.input("x", "float32", (3,))]), "y")
        g.output(g.add("Identity", [y]), "z")
        return g

    refuses(direct, "remove-identities", "carries the name")
    refuses(two, "remove-identities", "carries the name")

    def by_product() -> Graph:
        g = Graph("g")
        g.output(g.add("Mul", [g.input("x", "float32", (3,)), k(g, 1.0)]), "y")
        return g

    def behind() -> Graph:
        g = Graph("g")
        g.output(g.add("Identity", [g.add("Neg", [g.input("x", "float32", (3,))])]), "y")
        return g

    fires(by_product, "remove-identities", 1, ["Identity"])
    fires(behind, "remove-identities", 1, ["Neg"])


# pairs --------------------------------------------------------------------------------------------------------------
def twice(op: str, dtype: str = "float32") -> Graph:
    g = Graph("g")
    x = g.add("Identity", [g.input("x", dtype, (2, 4))])
    g.output(g.add("Identity", [g.add(op, [g.add(op, [x])])]), "y")
    return g


@pytest.mark.parametrize("op", ["Relu", "Abs", "Floor", "Ceil", "Round", "Sign"])
def test_idempotent(op: str) -> None:
    fires(lambda: twice(op), "cancel-pairs", 1, ["Identity", op, "Identity"], feeds=EDGES, exact=True)


def test_involutions() -> None:
    fires(lambda: twice("Neg"), "cancel-pairs", 1, ["Identity", "Identity"], feeds=EDGES, exact=True)
    fires(lambda: twice("Not", "bool"), "cancel-pairs", 1, ["Identity", "Identity"], exact=True)


def casts(dtype: str, *codes: int) -> Graph:
    g = Graph("g")
    y = g.add("Identity", [g.input("x", dtype, (2, 4))])
    for code in codes:
        y = g.add("Cast", [y], to=code)
    g.output(g.add("Identity", [y]), "y")
    return g


FLOAT, INT32, INT64, BOOL, HALF, DOUBLE, INT8, UINT8 = 1, 6, 7, 9, 10, 11, 3, 2


@pytest.mark.parametrize(
    ("dtype", "codes", "left"),
    [
        ("float32", (DOUBLE, FLOAT), 0), ("float16", (FLOAT, HALF), 0), ("int32", (INT64, INT32), 0),
        ("bool", (INT64, BOOL), 0), ("uint8", (FLOAT, UINT8), 0), ("int32", (DOUBLE, INT32), 0),
        ("int32", (INT64, FLOAT), 1), ("float16", (DOUBLE, FLOAT), 1), ("int8", (INT64, DOUBLE), 1),
    ],
)  # fmt: skip
def test_casts(dtype: str, codes: tuple[int, int], left: int) -> None:
    feeds = {"x": floats(2, 4, low=0, high=9).astype(dtype)}
    graph = fires(lambda: casts(dtype, *codes), "cancel-pairs", 1, ["Identity"] + ["Cast"] * left + ["Identity"],
                  feeds=feeds, exact=True)  # fmt: skip
    assert graph.outputs[0].name == "y"


@pytest.mark.parametrize(
    ("dtype", "codes"),
    [
        ("float32", (HALF, FLOAT)), ("float32", (INT64, FLOAT)), ("int64", (INT32, INT64)), ("int64", (DOUBLE, INT64)),
        ("int32", (FLOAT, INT32)), ("uint8", (INT8, UINT8)), ("int32", (BOOL, INT32)), ("int32", (HALF, INT32)),
    ],
)  # fmt: skip
def test_casts_that_lose(dtype: str, codes: tuple[int, int]) -> None:
    refuses(lambda: casts(dtype, *codes), "cancel-pairs", "does not hold every")
