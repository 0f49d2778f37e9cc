"""Graphs built in Python: what is refused at once, and what a shape may be written as."""

from __future__ import annotations

import numpy as np
import pytest

from jitopt.errors import ModelError
from jitopt.ir.dims import symbol
from jitopt.ir.graph import Graph


@pytest.mark.parametrize(
    ("inputs", "op"),
    [("value", "Relu"), ([np.ones(3)], "Relu"), ([[1, -1]], "Reshape")],
    ids=["value", "array", "list"],
)
def test_inputs_that_are_no_values_are_refused(inputs, op):
    graph = Graph("g")
    x = graph.input("x", "float32", (2, 3))
    given = x if inputs == "value" else [x, *inputs]
    with pytest.raises(ModelError, match="are not a list of values"):
        graph.add(op, given)


def test_shape_entries_may_be_names():
    x = Graph("g").input("x", "float32", ("n", 3))
    assert x.shape == (symbol("n"), 3)


@pytest.mark.parametrize("dim", [None, -1, 2.0])
def test_other_shape_entries_are_refused(dim):
    with pytest.raises(ModelError, match="axis 1 of input 'x'"):
        Graph("g").input("x", "float32", (2, dim))
