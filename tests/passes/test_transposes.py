"""Transposes merged, cancelled, pulled through maps, ungrouped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from jitopt.ir.dims import symbol
from jitopt.ir.graph import Graph, Value
from tests.passes.helpers import fires, floats, refuses

N = symbol("n")
Form = Callable[[Graph, Value], Value]
TO_LAST, TO_FIRST = [0, 2, 3, 1], [0, 3, 1, 2]


def t(g: Graph, x: Value, perm: Sequence[int], name: str = "") -> Value:
    return g.add("Transpose", [x], perm=list(perm), name=name)


def built(form: Form, shape: tuple[Any, ...] = (2, 3, 4, 5)) -> Graph:
    g = Graph("g")
    x = g.add("Neg", [g.input("x", "float32", shape)])
    g.output(g.add("Abs", [form(g, x)]), "y")
    return g


# merging ------------------------------------------------------------------------------------------------------------
def test_merge() -> None:
    def three(g: Graph, x: Value) -> Value:
        return t(g, t(g, t(g, x, [1, 0, 2, 3]), [3, 1, 0, 2]), [2, 0, 1, 3])

    fires(
        lambda: built(lambda g, x: t(g, t(g, x, TO_LAST), TO_FIRST)), "merge-transposes", 1, ["Neg", "Abs"], exact=True
    )
    fires(lambda: built(lambda g, x: t(g, t(g, x, TO_LAST), TO_LAST)), "merge-transposes", 1, 3, exact=True)
    fires(lambda: built(three), "merge-transposes", 2, 3, exact=True)
    default = lambda g, x: g.add("Transpose", [g.add("Transpose", [x])])  # noqa: E731
    fires(lambda: built(default), "merge-transposes", 1, ["Neg", "Abs"], exact=True)


def test_extents_of_one() -> None:
    fires(lambda: built(lambda g, x: t(g, x, TO_LAST), (2, 3, 1, 1)), "merge-transposes", 1, ["Neg", "Reshape", "Abs"],
          exact=True)  # fmt: skip
    fires(lambda: built(lambda g, x: t(g, x, [1, 0, 2]), (N, 1, 4)), "merge-transposes", 1, ["Neg", "Reshape", "Abs"])
    refuses(lambda: built(lambda g, x: t(g, x, [1, 0, 2]), (N, 2, 1)), "merge-transposes", None)


def test_an_inner_transpose_that_is_read_stays() -> None:
    def build() -> Graph:
        g = built(lambda g, x: t(g, t(g, x, TO_LAST, "inner"), TO_FIRST))
        g.output(g.node("inner").output)
        return g

    fires(build, "merge-transposes", 1, 3, exact=True)


# pulling ------------------------------------------------------------------------------------------------------------
def through(*ops: str) -> Form:
    def form(g: Graph, x: Value) -> Value:
        y = t(g, x, TO_LAST)
        for op in ops:
            y = g.add(op, [y])
        return t(g, y, TO_FIRST)

    return form


@pytest.mark.parametrize("ops", [("Relu",), ("Relu", "Tanh", "Sigmoid")])
def test_through_maps(ops: tuple[str, ...]) -> None:
    fires(lambda: built(through(*ops)), "cancel-transposes", 1, ["Neg", *ops, "Abs"], exact=True)


@pytest.mark.parametrize("shape", [(), (1,), (3,), (5, 3), (4, 1, 3), (2, 4, 5, 3), (1, 1, 1, 1)])
def test_through_a_map_with_a_constant(shape: tuple[int, ...]) -> None:
    def form(g: Graph, x: Value) -> Value:
        return t(g, g.add("Mul", [g.constant(floats(*shape), "c"), t(g, x, TO_LAST)]), TO_FIRST)

    fires(lambda: built(form), "cancel-transposes", 1, ["Neg", "Mul", "Abs"], exact=True)


def test_two_branches() -> None:
    def form(g: Graph, x: Value) -> Value:
        a, b = g.add("Relu", [t(g, x, TO_LAST)]), t(g, g.add("Exp", [x]), TO_LAST)
        return t(g, g.add("Add", [a, b]), TO_FIRST)

    fires(lambda: built(form), "cancel-transposes", 1, 5, exact=True)


def test_one_transpose_remains_of_two() -> None:
    def form(g: Graph, x: Value) -> Value:
        other = g.input("z", "float32", (2, 4, 5, 3))
        return t(g, g.add("Add", [t(g, x, TO_LAST), g.add("Exp", [other])]), TO_FIRST)

    graph = fires(lambda: built(form), "cancel-transposes", 1, 5, exact=True)
    assert [n.op for n in graph].count("Transpose") == 1


@pytest.mark.parametrize("axis", [0, 1, 3, -1])
def test_concat_and_softmax(axis: int) -> None:
    def concat(g: Graph, x: Value) -> Value:
        return t(g, g.add("Concat", [t(g, x, TO_LAST), t(g, g.add("Exp", [x]), TO_LAST)], axis=axis), TO_FIRST)

    def softmax(g: Graph, x: Value) -> Value:
        return t(g, g.add("Softmax", [t(g, x, TO_LAST)], axis=axis), TO_FIRST)

    fires(lambda: built(concat), "cancel-transposes", 1, 4, exact=True)
    fires(lambda: built(softmax), "cancel-transposes", 1, ["Neg", "Softmax", "Abs"])


def test_not_where_as_many_remain() -> None:
    def two(g: Graph, x: Value) -> Value:
        a, b = (g.input(n, "float32", (2, 4, 5, 3)) for n in "ab")
        return t(g, g.add("Add", [g.add("Exp", [a]), g.add("Exp", [b])]), TO_FIRST)

    refuses(lambda: built(two), "cancel-transposes", "as many")
    refuses(lambda: built(lambda g, x: t(g, g.add("Relu", [x]), TO_LAST)), "cancel-transposes", "as many")


def test_not_where_the_map_is_read() -> None:
    def build() -> Graph:
        g = built(through("Relu"))
        g.output(next(n for n in g if n.op == "Relu").output)
        return g

    refuses(build, "cancel-transposes", "another reader")


def test_not_through_other_operators() -> None:
    def form(g: Graph, x: Value) -> Value:
        return t(g, g.add("MatMul", [t(g, x, TO_LAST), g.constant(floats(3, 3))]), TO_FIRST)

    refuses(lambda: built(form), "cancel-transposes", None)


def test_broadcasting_by_rank() -> None:
    def form(g: Graph, x: Value) -> Value:
        return t(g, g.add("Mul", [t(g, x, TO_LAST), g.input("z", "float32", (3,))]), TO_FIRST)

    refuses(lambda: built(form), "cancel-transposes", "as many")


# grouping -----------------------------------------------------------------------------------------------------------
def grouped(middle: tuple[int, ...], perm: Sequence[int], back: tuple[int, ...]) -> Form:
    def form(g: Graph, x: Value) -> Value:
        y = g.add("Reshape", [x, g.constant(np.array(middle))])
        return g.add("Reshape", [t(g, y, perm, "t"), g.constant(np.array(back))])

    return form


@pytest.mark.parametrize(
    ("shape", "middle", "perm", "back"),
    [
        ((2, 12, 7, 8), (24, 7, 8), [0, 2, 1], (2, 12, 8, 7)),
        ((N, 12, 7, 8), (-1, 7, 8), [0, 2, 1], (-1, 12, 8, 7)),
        ((2, 3, 4, 5), (6, 20), [1, 0], (4, 5, 2, 3)),
        ((2, 1, 4, 5), (2, 20), [1, 0], (1, 4, 5, 2)),
        ((2, 3, 4, 1), (6, 4), [1, 0], (4, 1, 2, 3)),
    ],
)
def test_ungrouped(shape: Any, middle: Any, perm: Any, back: Any) -> None:
    fires(lambda: built(grouped(middle, perm, back), shape), "ungroup-transposes", 1, ["Neg", "Transpose", "Abs"],
          exact=True)  # fmt: skip


@pytest.mark.parametrize(
    ("shape", "middle", "perm", "back", "reason"),
    [
        ((2, 12, 8), (2, 3, 4, 8), [0, 2, 1, 3], (2, 12, 8), "more than group"),
        ((4, 6, 8), (3, 8, 8), [1, 0, 2], (8, 3, 8), "more than group"),
        ((2, 3, 4, 5), (6, 20), [1, 0], (5, 4, 2, 3), "not split again"),
        ((2, 3, 4, 5), (6, 20), [1, 0], (20, 6), "not split again"),
    ],
)
def test_not_ungrouped(shape: Any, middle: Any, perm: Any, back: Any, reason: str) -> None:
    refuses(lambda: built(grouped(middle, perm, back), shape), "ungroup-transposes", reason)


def test_not_ungrouped_where_read() -> None:
    def build() -> Graph:
        g = built(grouped((6, 20), [1, 0], (4, 5, 2, 3)))
        g.output(g.node("t").output)
        return g

    refuses(build, "ungroup-transposes", "another reader")
