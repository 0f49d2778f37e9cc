"""Feeds made up from what a graph says of its inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jitopt import FeedError, Graph, symbol
from jitopt.ir.dtypes import dtype_of
from jitopt.ir.types import OptionalType, SequenceType, tensor
from jitopt.passes.infer import infer
from jitopt.samples import attempts, index_bounds, made_up, shuffled


def generator() -> np.random.Generator:
    return np.random.default_rng(3)


@pytest.mark.parametrize(
    "name", ["float16", "float32", "float64", "complex64", "int8", "uint8", "int32", "int64", "bool"]
)
def test_values_have_the_dtype_and_vary_where_they_may(name: str) -> None:
    array = made_up(dtype_of(name), (5, 7), generator())
    assert array.dtype == np.dtype(name) and array.shape == (5, 7)
    assert (len(np.unique(array)) == 1) == (name in ("int32", "int64", "bool"))


@pytest.mark.parametrize("name", ["string", "bfloat16", "int4"])
def test_types_without_values_are_refused(name: str) -> None:
    with pytest.raises(FeedError, match=f"values of type {name} cannot be made up"):
        made_up(dtype_of(name), (2,), generator())


def test_indices_stay_below_their_bound() -> None:
    array = made_up(dtype_of("int64"), (500,), generator(), below=7)
    assert set(array.tolist()) == set(range(7))
    assert not made_up(dtype_of("int64"), (5,), generator(), below=0).any()


def looking_up() -> Graph:
    """ids, as they are and through Unsqueeze and Cast, are indices into tables of 11 and 30 rows; mask is none."""
    graph = Graph("looking up")
    n = symbol("n")
    ids, mask = graph.input("ids", "int32", (n,)), graph.input("mask", "int64", (n, 3))
    small = graph.add("Gather", [graph.constant(np.ones((11, 3), np.float32)), ids])
    wide = graph.add("Cast", [graph.add("Unsqueeze", [ids, graph.constant(np.array([1]))])], to=7)
    large = graph.add("Gather", [graph.constant(np.ones((4, 30), np.float32)), wide], axis=1)
    graph.output(graph.add("Mul", [small, graph.add("Cast", [mask], to=1)]))
    graph.output(large)
    infer(graph)
    return graph


def test_bounds_come_from_what_an_index_looks_up() -> None:
    assert index_bounds(looking_up()) == {"ids": 11}


def test_attempts_differ_in_extents_and_indices_and_repeat_exactly() -> None:
    tried = list(attempts(looking_up(), None))
    assert [extents["mask"] for extents, _ in tried] == [(1, 3), (2, 3), (1, 3)]
    assert all(feeds(0)["ids"].max() < 11 for _, feeds in tried) and not tried[-1][1](0)["ids"].any()
    extents, feeds = next(attempts(looking_up(), {"ids": [40], "mask": [40, 3]}))
    assert extents == {"ids": (40,), "mask": (40, 3)} and feeds(0)["mask"].shape == (40, 3)
    assert not np.array_equal(feeds(0)["ids"], feeds(1)["ids"])
    np.testing.assert_array_equal(feeds(1)["ids"], feeds(1)["ids"])


def test_static_inputs_are_tried_once() -> None:
    graph = Graph("static")
    graph.output(graph.add("Relu", [graph.input("x", "float32", (2, 3))]))
    infer(graph)
    ((extents, feeds),) = attempts(graph, None)
    assert extents == {"x": (2, 3)} and feeds(0)["x"].shape == (2, 3)


def test_extents_of_symbols_agree_among_inputs() -> None:
    graph = Graph("agreeing")
    h, w = symbol("h"), symbol("w")
    for name, shape in (("x", (symbol("n"), 3, h, w)), ("y", (h, 2 * w))):
        graph.output(graph.add("Relu", [graph.input(name, "float32", shape)]))
    infer(graph)
    extents, _ = next(attempts(graph, None))
    assert extents == {"x": (1, 3, 64, 64), "y": (64, 128)}


def test_extents_that_become_negative_are_refused() -> None:
    graph = Graph("negative")
    graph.input("x", "float32", (symbol("n") - 5, 3))
    with pytest.raises(FeedError, match=r"'x'.*would get the shape"):
        next(attempts(graph, None))


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (SequenceType(tensor("float32", (2,))), "seq"),
        (tensor("float32", None), "float32"),
        (tensor("string", (2,)), "string"),
    ],
)
def test_inputs_nothing_can_be_made_up_for_are_named(kind: Any, expected: str) -> None:
    graph = Graph("odd")
    graph.inputs.append(graph.value("odd one", kind))
    with pytest.raises(FeedError, match=f"'odd one'.*{expected}"):
        next(attempts(graph, None))[1](0)


def test_an_optional_input_is_absent() -> None:
    graph = Graph("optional")
    graph.inputs.append(graph.value("maybe", OptionalType(tensor("float32", (2,)))))
    assert next(attempts(graph, None))[1](0) == {"maybe": None}


def test_shuffling_keeps_values_legal_and_shapes() -> None:
    ids, x = np.arange(60).reshape(3, 20), np.linspace(1, 2, 40, dtype=np.float32)
    moved, reals = shuffled(ids, generator()), shuffled(x, generator())
    assert moved.shape == ids.shape and sorted(moved.flat) == list(range(60)) and not np.array_equal(moved, ids)
    assert reals.dtype == x.dtype and np.allclose(np.sort(reals), 0.75 * x)
    assert shuffled(None, generator()) is None
    first, second = shuffled([ids, x], generator())
    assert first.shape == ids.shape and second.shape == x.shape
