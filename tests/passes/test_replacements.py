"""The table of operator replacements: each entry fires, keeps its bound, and leaves what only looks alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitopt.ir.graph import Graph, Value
from jitopt.passes.replacements import ENTRIES
from tests.passes.helpers import evaluate, feeds_of, fires, floats, refuses, run_pass

EXACT, BOUNDED = "replace-operators", "replace-operators-bounded"
Form = Callable[[Graph, Value], Value]


def k(g: Graph, value: Any, dtype: Any = np.float32) -> Value:
    return g.constant(np.array(value, dtype), "k")


def built(form: Form, dtype: str = "float32", shape: tuple[int, ...] = (3, 5)) -> Graph:
    g = Graph("g")
    g.output(form(g, g.input("x", dtype, shape)), "y")
    return g


def matmul_add(g: Graph, x: Value, bias: tuple[int, ...] = (4,), swap: bool = False) -> Value:
    y = g.add("MatMul", [x, k(g, floats(5, 4))], name="matmul")
    b = k(g, floats(*bias, seed=1))
    return g.add("Add", [b, y] if swap else [y, b])


def clips(g: Graph, x: Value, a: float, b: float, c: float, d: float) -> Value:
    return g.add("Clip", [g.add("Clip", [x, k(g, a), k(g, b)]), k(g, c), k(g, d)])


EXACT_FORMS: dict[str, tuple[Form, list[str]]] = {
    "x / 8": (lambda g, x: g.add("Div", [x, k(g, 8.0)]), ["Mul"]),
    "x / -0.25": (lambda g, x: g.add("Div", [x, k(g, [-0.25])]), ["Mul"]),
    "x / powers": (lambda g, x: g.add("Div", [x, k(g, [1.0, 2.0, 0.5, 64.0, 2.0**-20])]), ["Mul"]),
    "1 / x": (lambda g, x: g.add("Div", [k(g, 1.0), x]), ["Reciprocal"]),
    "x - c": (lambda g, x: g.add("Sub", [x, k(g, floats(5))]), ["Add"]),
    "Sum": (lambda g, x: g.add("Sum", [x, g.add("Neg", [x])]), ["Neg", "Add"]),
    "MatMul + Add": (matmul_add, ["Gemm"]),
    "Add + MatMul": (lambda g, x: matmul_add(g, x, (1, 4), True), ["Gemm"]),
    "Clip of Clip": (lambda g, x: clips(g, x, -1.0, 1.0, -0.5, 0.5), ["Clip"]),
}


@pytest.mark.parametrize("name", EXACT_FORMS)
def test_bit_exact(name: str) -> None:
    form, left = EXACT_FORMS[name]
    fires(lambda: built(form), EXACT, 1, left, exact=True)


BOUNDED_FORMS: dict[str, tuple[Form, list[str], float]] = {
    "x^2": (lambda g, x: g.add("Pow", [x, k(g, 2.0)]), ["Mul"], 1),
    "x^3": (lambda g, x: g.add("Pow", [x, k(g, [3.0])]), ["Mul", "Mul"], 2),
    "x^0.5": (lambda g, x: g.add("Pow", [g.add("Abs", [x]), k(g, 0.5)]), ["Abs", "Sqrt"], 1),
    "x^-1": (lambda g, x: g.add("Pow", [x, k(g, -1.0)]), ["Reciprocal"], 1),
    "x^-0.5": (lambda g, x: g.add("Pow", [g.add("Abs", [x]), k(g, -0.5)]), ["Abs", "Sqrt", "Reciprocal"], 2),
    "x / 3": (lambda g, x: g.add("Div", [x, k(g, 3.0)]), ["Mul"], 1.5),
    "x / c": (lambda g, x: g.add("Div", [x, k(g, floats(5, low=0.1))]), ["Mul"], 1.5),
    "x + 0": (lambda g, x: g.add("Neg", [g.add("Add", [k(g, 0.0), x])]), ["Neg"], 0),
    "Clip": (lambda g, x: g.add("Clip", [x, k(g, 0.0), None]), ["Relu"], 0),
    "Clip to the largest": (lambda g, x: g.add("Clip", [x, k(g, 0.0), k(g, np.finfo(np.float32).max)]), ["Relu"], 0),
    "Max": (lambda g, x: g.add("Max", [x, k(g, 0.0)]), ["Relu"], 0),
}


@pytest.mark.parametrize("name", BOUNDED_FORMS)
def test_bounded(name: str) -> None:
    form, left, ulps = BOUNDED_FORMS[name]
    fires(lambda: built(form), BOUNDED, 1, left)
    g = built(form, shape=(100, 5))
    feeds = feeds_of(g)
    run_pass(g, "dead-code")
    before = evaluate(g, feeds)["y"].astype(np.float64)
    run_pass(g, BOUNDED)
    error = np.abs(evaluate(g, feeds)["y"] - before) / np.spacing(np.abs(before).astype(np.float32))
    assert np.max(error) <= ulps + 0.5  # the reference itself is rounded


def test_every_entry_is_tested() -> None:
    assert len([e for e in ENTRIES if not e.bound]) == 6
    assert len([e for e in ENTRIES if e.bound]) == 9
    assert {e.what.split(" ")[0] for e in ENTRIES if not e.bound}


def test_bounded_ones_do_not_run_in_exact_mode() -> None:
    with pytest.raises(AssertionError, match="not allowed"):
        run_pass(built(BOUNDED_FORMS["x^2"][0]), BOUNDED, precision="exact")
    assert run_pass(built(EXACT_FORMS["x / 8"][0]), EXACT, precision="exact").changes


NEAR: dict[str, tuple[str, Form, str | None]] = {
    "x / 3": (EXACT, lambda g, x: g.add("Div", [x, k(g, 3.0)]), None),
    "x / 0": (BOUNDED, lambda g, x: g.add("Div", [x, k(g, 0.0)]), "not a normal number"),
    "x / denormal": (BOUNDED, lambda g, x: g.add("Div", [x, k(g, 1e-40)]), "not a normal number"),
    "x / huge": (EXACT, lambda g, x: g.add("Div", [x, k(g, 2.0**127)]), "not a normal number"),
    "x / inf": (BOUNDED, lambda g, x: g.add("Div", [x, k(g, np.inf)]), "not a normal number"),
    "c / x": (BOUNDED, lambda g, x: g.add("Div", [k(g, 3.0), x]), None),
    "1 / x that broadcasts": (EXACT, lambda g, x: g.add("Div", [k(g, np.ones((2, 3, 5))), x]), None),
    "c - x": (EXACT, lambda g, x: g.add("Sub", [k(g, 3.0), x]), None),
    "x^2.5": (BOUNDED, lambda g, x: g.add("Pow", [x, k(g, 2.5)]), None),
    "x^[2, 3]": (BOUNDED, lambda g, x: g.add("Pow", [x, k(g, [2, 3, 2, 2, 2])]), None),
    "2^x": (BOUNDED, lambda g, x: g.add("Pow", [k(g, 2.0), x]), None),
    "x^2 that broadcasts": (BOUNDED, lambda g, x: g.add("Pow", [x, k(g, np.full((2, 1, 1), 2.0))]), None),
    "Sum of three": (EXACT, lambda g, x: g.add("Sum", [x, x, x]), None),
    "MatMul + rows": (EXACT, lambda g, x: matmul_add(g, x, (3, 1)), "not one number a column"),
    "MatMul + matrix": (EXACT, lambda g, x: matmul_add(g, x, (3, 4)), "not one number a column"),
    "MatMul + scalar": (EXACT, lambda g, x: matmul_add(g, x, (1,)), "not one number a column"),
    "narrower Clip": (EXACT, lambda g, x: clips(g, x, -0.5, 0.5, -1.0, 1.0), None),
    "Clips that cross": (EXACT, lambda g, x: clips(g, x, -1.0, 0.0, -0.5, 0.5), None),
    "Clip to 6": (BOUNDED, lambda g, x: g.add("Clip", [x, k(g, 0.0), k(g, 6.0)]), None),
    "Clip from 1": (BOUNDED, lambda g, x: g.add("Clip", [x, k(g, 1.0), None]), None),
    "Max of three": (BOUNDED, lambda g, x: g.add("Max", [x, k(g, 0.0), x]), None),
    "x + 1e-40": (BOUNDED, lambda g, x: g.add("Add", [x, k(g, 1e-40)]), None),
}


@pytest.mark.parametrize("name", NEAR)
def test_near_misses(name: str) -> None:
    rewrite, form, reason = NEAR[name]
    refuses(lambda: built(form), rewrite, reason)


def test_integers_are_left_alone() -> None:
    def i(value: int) -> Form:
        return lambda g, x: g.add("Div", [x, k(g, value, np.int64)])

    refuses(lambda: built(i(8), "int64"), EXACT, None)
    refuses(lambda: built(lambda g, x: g.add("Pow", [x, k(g, 2, np.int64)]), "int64"), BOUNDED, None)
    refuses(lambda: built(lambda g, x: g.add("Clip", [x, k(g, 0, np.int64), None]), "int64"), BOUNDED, None)


def test_a_matmul_that_is_read_elsewhere_or_has_higher_rank() -> None:
    def read() -> Graph:
        g = built(matmul_add)
        g.output(g.node("matmul").output)
        return g

    refuses(read, EXACT, "another reader")
    refuses(lambda: built(matmul_add, shape=(2, 3, 5)), EXACT, None)
