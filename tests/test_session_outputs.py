"""What a session gives back: names and order, arrays of the caller's, and memory that nothing else shares."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest

import jitopt
from jitopt import FeedError, Graph, ShapeError
from jitopt.ir.types import SequenceType, tensor
from tests.networks import N, floats, pair, reference

X, Y = floats(3, 4), floats(3, 4, seed=1)
FEEDS = {"x": X, "y": Y}


@pytest.fixture(scope="module")
def session() -> Any:
    return jitopt.compile(pair())


def entangled() -> Graph:
    """Outputs that are an input, a constant, views of an input, of a constant and of another output, a table of
    extents, a view of it, and an optional result of a host step."""
    graph = Graph("entangled")
    x, y = graph.input("x", "float32", (N, 4)), graph.input("y", "float32", (N, 4))
    weight = graph.constant(floats(2, 3), "weight")
    flat = graph.constant(np.array([-1], np.int64), "flat")
    graph.output(x)
    graph.output(weight)
    total = graph.output(graph.add("Add", [x, y], name="sum"))
    graph.output(graph.add("Reshape", [total, flat], name="view of sum"))
    graph.output(graph.add("Reshape", [x, flat], name="view of x"))
    graph.output(graph.add("Reshape", [weight, flat], name="view of weight"))
    extents = graph.output(graph.add("Shape", [total], name="extents"))
    graph.output(graph.add("Unsqueeze", [extents, graph.constant(np.array([0]), "axis")], name="view of extents"))
    graph.output(graph.add("CumSum", [total, graph.constant(np.array(1), "one")], name="running"))
    graph.output(graph.add("Relu", [total], name="out"))
    graph.output(graph.add("SequenceConstruct", [x, total], name="both"))
    return graph


@pytest.fixture(scope="module")
def tangle() -> Any:
    return jitopt.compile(entangled())


def memory_of(value: Any) -> list[Any]:
    return [v for element in value for v in memory_of(element)] if isinstance(value, list) else [value]


# names ----------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("names", [None, [], (), ["sum", "out"]])
def test_all_outputs_in_the_models_order(session: Any, names: Any) -> None:
    total, out = session.run(names, FEEDS)
    np.testing.assert_array_equal(total, X + Y)
    np.testing.assert_array_equal(out, np.maximum(X + Y, 0))


def test_outputs_in_the_order_asked_for(session: Any) -> None:
    out, total, again = session.run(["out", "sum", "out"], FEEDS)
    np.testing.assert_array_equal(total, X + Y)
    np.testing.assert_array_equal(out, np.maximum(X + Y, 0))
    np.testing.assert_array_equal(out, again)
    assert not np.may_share_memory(out, again)


def test_an_unknown_output_is_an_error_that_names_the_others(session: Any) -> None:
    with pytest.raises(FeedError, match="no output is named 'x'") as caught:
        session.run(["out", "x"], FEEDS)
    assert caught.value.remedy == "outputs are 'sum', 'out'" and caught.value.model == "pair"


def test_calls_that_are_no_calls_raise_type_errors(session: Any) -> None:
    with pytest.raises(TypeError):
        session.run(None, FEEDS, output=[X])
    with pytest.raises(TypeError, match=r"must be jitopt\.RunOptions, not dict"):
        session.run(None, FEEDS, {})
    with pytest.raises(TypeError):
        session.run(None)


# memory ---------------------------------------------------------------------------------------------------------------
def test_results_are_right_and_share_no_memory(tangle: Any) -> None:
    graph = entangled()
    expected = reference(graph, FEEDS)
    kept = [(name, array.copy()) for name, array in FEEDS.items()]
    first, second = tangle.run(None, FEEDS), tangle.run(None, FEEDS)
    for (name, value), found in zip(expected.items(), first, strict=True):
        for a, b in zip(memory_of(value), memory_of(found), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6, err_msg=name)
            assert a.dtype == b.dtype
    constants = [b.array for b in tangle._program.constants]
    arrays = [a for r in (*first, *second) for a in memory_of(r)]
    others = [*FEEDS.values(), *constants, *(v.constant for v in tangle._source.constants)]
    for a, b in [*combinations(arrays, 2), *((a, b) for a in arrays for b in others)]:
        assert not np.may_share_memory(a, b)
    for array in arrays:
        array[...] = 77
    for (_, value), found in zip(expected.items(), tangle.run(None, FEEDS), strict=True):
        for a, b in zip(memory_of(value), memory_of(found), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6)
    for name, array in kept:
        np.testing.assert_array_equal(FEEDS[name], array)


def test_each_output_can_be_asked_for_alone_and_twice(tangle: Any) -> None:
    expected = reference(entangled(), FEEDS)
    for name, value in expected.items():
        one, two = tangle.run([name, name], FEEDS)
        for a, b, c in zip(memory_of(value), memory_of(one), memory_of(two), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6, err_msg=name)
            np.testing.assert_array_equal(b, c)
            assert not np.may_share_memory(b, c)


# out= -----------------------------------------------------------------------------------------------------------------
def test_results_are_written_into_out(session: Any) -> None:
    targets = [np.full((3, 4), np.nan, np.float32) for _ in range(2)]
    found = session.run(None, FEEDS, out=targets)
    assert all(a is b for a, b in zip(found, targets, strict=True))
    np.testing.assert_array_equal(targets[0], X + Y)
    np.testing.assert_array_equal(targets[1], np.maximum(X + Y, 0))
    by_name = {"out": np.empty((3, 4), np.float32)}
    (found,) = session.run(["out"], FEEDS, out=by_name)
    assert found is by_name["out"]
    np.testing.assert_array_equal(found, np.maximum(X + Y, 0))


def test_out_takes_every_kind_of_result(tangle: Any) -> None:
    """Also an output and a view of it, in either order, and one output twice."""
    expected = {k: v for k, v in reference(entangled(), FEEDS).items() if k != "both"}
    for names in (list(expected), list(expected)[::-1], ["view of sum"], ["sum", "sum", "view of sum"]):
        targets = [np.zeros_like(expected[name]) for name in names]
        found = tangle.run(names, FEEDS, out=targets)
        for name, a, b in zip(names, found, targets, strict=True):
            assert a is b
            np.testing.assert_allclose(a, expected[name], rtol=1e-6, err_msg=name)


def test_out_may_be_a_feed_or_part_of_one(session: Any) -> None:
    x = X.copy()
    (found,) = session.run(["sum"], {"x": x, "y": Y}, out=[x])
    assert found is x
    np.testing.assert_array_equal(x, X + Y)
    both = np.concatenate([X, Y])
    session.run(["sum"], {"x": both[:3], "y": both[3:]}, out=[both[2:5]])
    np.testing.assert_array_equal(both[2:5], X + Y)


def new(*shape: int, dtype: Any = np.float32) -> Any:
    return np.zeros(shape, dtype)


SHARED = new(6, 4)
BAD_OUT = {
    "too few": ([new(3, 4)], FeedError, "1 arrays for 2 outputs"),
    "too many": ([new(3, 4)] * 3, FeedError, "3 arrays for 2 outputs"),
    "name missing": ({"sum": new(3, 4)}, FeedError, "'out' is missing"),
    "name unknown": ({"sum": new(3, 4), "out": new(3, 4), "o": new(1)}, FeedError, "'o' is not among the outputs"),
    "dtype": ([new(3, 4), new(3, 4, dtype=np.float64)], FeedError, r"'out' must be a contiguous writable array"),
    "byte order": ([new(3, 4), new(3, 4, dtype=">f4")], FeedError, "'out' must be a contiguous"),
    "strided": ([new(3, 8)[:, ::2], new(3, 4)], FeedError, "'sum' must be a contiguous"),
    "fortran": ([np.asfortranarray(new(3, 4)), new(3, 4)], FeedError, "'sum' must be a contiguous"),
    "read-only": ([np.broadcast_to(np.float32(0), (3, 4)), new(3, 4)], FeedError, "'sum' must be a contiguous"),
    "list": ([[0.0] * 4, new(3, 4)], FeedError, "'sum' must be a contiguous"),
    "rank": ([new(12), new(3, 4)], ShapeError, r"'sum' has shape \(12,\)"),
    "extent": ([new(3, 4), new(2, 4)], ShapeError, r"'out' has the shape \(2, 4\), the result has \(3, 4\)"),
    "larger": ([new(3, 4), new(4, 4)], ShapeError, r"the result has \(3, 4\)"),
    "shared": ([SHARED[:3], SHARED[2:5]], FeedError, "'out' shares memory"),
}


@pytest.mark.parametrize("case", BAD_OUT)
def test_wrong_arrays_for_results_are_refused_before_anything_is_written(session: Any, case: str) -> None:
    out, kind, message = BAD_OUT[case]
    with pytest.raises(kind, match=message) as caught:
        session.run(None, FEEDS, out=out)
    assert caught.value.model == "pair"
    for array in out.values() if isinstance(out, dict) else out:
        assert not np.any(array)


def test_out_of_a_shape_that_only_the_run_tells() -> None:
    """NonZero's result, doubled by a kernel: its array is checked once the host step has run."""
    graph = Graph("found")
    places = graph.add("NonZero", [graph.input("x", "float32", (N,))], name="places")
    graph.output(graph.add("Add", [places, places], name="twice"))
    session = jitopt.compile(graph)
    feeds = {"x": np.array([0, 1, 1, 0, 1], np.float32)}
    target = np.zeros((1, 3), np.int64)
    assert session.run(None, feeds, out=[target])[0] is target
    assert target.tolist() == [[2, 4, 8]]
    with pytest.raises(ShapeError, match=r"the result has \(1, 3\)"):
        session.run(None, feeds, out=[np.zeros((1, 2), np.int64)])
    assert session.run(None, {"x": [0.0, 0.0]})[0].shape == (1, 0)


def test_out_that_lies_in_a_sequence_feed_is_written_apart() -> None:
    graph = Graph("sequence")
    q = graph.value("q", SequenceType(tensor("float32", (1,))))
    graph.inputs.append(q)
    x = graph.input("x", "float32", (1,))
    y = graph.output(graph.add("Relu", [x]), "y")
    first = graph.add("SequenceAt", [q, graph.constant(np.array(0))])
    graph.output(graph.add("Add", [first, y]), "z")
    a, other = np.ones(1, np.float32), np.empty(1, np.float32)
    session = jitopt.compile(graph, disable=("fusion",))
    results = session.run(None, {"q": [a], "x": np.full(1, 5, np.float32)}, out=[a, other])
    assert [float(r[0]) for r in results] == [5, 6]
