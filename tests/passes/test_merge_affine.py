"""Chains of multiplications and additions of constants."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jitopt.ir.graph import Graph
from tests.passes.helpers import fires, floats, refuses

Step = tuple[str, Any]


def chain(*steps: Step, first: tuple[int, ...] = (), dtype: str = "float32") -> Graph:
    """x through the steps; those whose index is in `first` have the constant on the left."""
    g = Graph("g")
    y = g.input("x", dtype, (2, 3, 4, 5))
    for i, (op, constant) in enumerate(steps):
        c = g.constant(np.asarray(constant, dtype), "c")
        y = g.add(op, [c, y] if i in first else [y, c], name=f"step{i}")
    g.output(y, "y")
    return g


C1, C2, C3 = (floats(3, 1, 1, seed=s, low=0.5) for s in range(3))


@pytest.mark.parametrize(
    ("steps", "first", "left"),
    [
        ((("Mul", C1), ("Mul", C2)), (), ["Mul"]),
        ((("Add", C1), ("Sub", C2)), (), ["Add"]),
        ((("Mul", C1), ("Add", C2), ("Mul", C3), ("Add", 0.5)), (), ["Mul", "Add"]),
        ((("Sub", C1), ("Div", C2), ("Add", C3)), (), ["Mul", "Add"]),
        ((("Sub", C1), ("Mul", -1.0), ("Add", C3)), (0,), ["Add"]),
        ((("Div", 255.0), ("Sub", C1), ("Div", C2)), (), ["Mul", "Add"]),
        ((("Mul", 2.0), ("Mul", 0.5)), (), []),
        ((("Mul", C1), ("Mul", [2.0]), ("Mul", 0.25)), (0, 1, 2), ["Mul"]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_merged(steps: tuple[Step, ...], first: tuple[int, ...], left: list[str], dtype: str) -> None:
    fires(lambda: chain(*steps, first=first, dtype=dtype), "merge-affine", 1, left or ["Identity"])


@pytest.mark.parametrize(
    ("steps", "first", "reason"),
    [
        ((("Mul", C1),), (), None),
        ((("Mul", C1), ("Add", C2)), (), None),
        ((("Add", C1), ("Mul", C2)), (), None),
        ((("Div", C1), ("Mul", C2)), (0,), None),
        ((("Mul", C1), ("Mul", floats(5))), (), "larger than each"),
        ((("Mul", 3e38), ("Mul", 3e38)), (), "overflow"),
        ((("Mul", 1e-30), ("Mul", 1e-30)), (), "overflow"),
        ((("Mul", np.inf), ("Mul", C1)), (), None),
        ((("Mul", 1e25), ("Mul", 1e-25)), (), "overflow"),
        ((("Mul", 1e-25), ("Mul", 1e25)), (), "overflow"),
        ((("Mul", 1e18), ("Mul", 1e18), ("Mul", 1e18)), (), "overflow"),
        ((("Sub", 1000.0), ("Mul", 3.0), ("Add", 1.0)), (), "cancel"),
    ],
)
def test_near_misses(steps: tuple[Step, ...], first: tuple[int, ...], reason: str | None) -> None:
    refuses(lambda: chain(*steps, first=first), "merge-affine", reason)


def test_an_inner_value_is_read_elsewhere() -> None:
    def build() -> Graph:
        g = chain(("Mul", C1), ("Mul", C2))
        g.output(g.node("step0").output)
        return g

    refuses(build, "merge-affine", None)


def test_a_constant_that_broadcasts_ends_the_chain() -> None:
    refuses(lambda: chain(("Mul", C1), ("Mul", floats(2, 1, 1, 1, 1))), "merge-affine", None)
