"""Softmax written as its parts, and Softmax between reshapes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jitopt.ir.graph import Graph
from tests.passes.helpers import fires, refuses


def softmax(axis: int = -1, axis2: int | None = None, keepdims: int = 1, other: bool = False) -> Graph:
    g = Graph("g")
    x = g.input("x", "float32", (4, 4, 4))
    axes = [g.constant(np.array([a]), "axes") for a in (axis, axis if axis2 is None else axis2)]
    top = g.add("ReduceMax", [x, axes[0]], keepdims=keepdims)
    e = g.add("Exp", [g.add("Sub", [x, top])], name="e")
    total = g.add("ReduceSum", [g.add("Exp", [x]) if other else e, axes[1]], keepdims=keepdims)
    g.output(g.add("Div", [e, total]), "y")
    return g


@pytest.mark.parametrize("axis", [-1, 0, 1, 2])
def test_fires(axis: int) -> None:
    fires(lambda: softmax(axis), "recognise-softmax", 1, ["Softmax"])


def test_near_misses() -> None:
    refuses(lambda: softmax(axis=-1, axis2=1), "recognise-softmax", "same one axis")
    refuses(lambda: softmax(keepdims=0), "recognise-softmax", "same one axis")
    refuses(lambda: softmax(other=True), "recognise-softmax", None)

    def read() -> Graph:
        g = softmax()
        g.output(g.node("e").output)
        return g

    refuses(read, "recognise-softmax", "another reader")


def wrapped(shape: Any, axis: int = 1, back: Any = (2, 3, 4), op: str = "Softmax") -> Graph:
    g = Graph("g")
    x = g.input("x", "float32", (2, 3, 4))
    y = g.add("Reshape", [x, g.constant(np.array(shape))])
    y = g.add(op, [y], axis=axis, name="softmax")
    g.output(g.add("Reshape", [y, g.constant(np.array(back))]), "y")
    return g


@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax"])
def test_unwraps(op: str) -> None:
    fires(lambda: wrapped((6, 4), op=op), "unwrap-softmax", 1, [op], exact=True)


def test_does_not_unwrap() -> None:
    refuses(lambda: wrapped((2, 12)), "unwrap-softmax", "last axis")
    refuses(lambda: wrapped((6, 4), axis=0), "unwrap-softmax", "last axis")
    refuses(lambda: wrapped((6, 4), back=(2, 12)), "unwrap-softmax", None)

    def read() -> Graph:
        g = wrapped((6, 4))
        g.output(g.node("softmax").output)
        return g

    refuses(read, "unwrap-softmax", "another reader")
