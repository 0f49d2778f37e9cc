"""Runs side by side, runs that fail and runs that are ended: each leaves the session as it was."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import jitopt
from jitopt import ExecutionError, Graph, RunCancelled, RunOptions
from jitopt.verify import compare
from tests.networks import N, check, convolutional, floats, pair, reference


@pytest.fixture(scope="module")
def network() -> Any:
    return jitopt.compile(convolutional())


def looped() -> Graph:
    """A Loop in the middle of kernels: x + k, `trips` times, where k is captured; then doubled."""
    graph = Graph("looped")
    x, k = graph.input("x", "float32", (N, 4)), graph.input("k", "float32", ())
    trips = graph.input("trips", "int64", ())
    body = Graph("body")
    body.captures.append(body.value("k", k.type))
    _, condition, carried = (body.input(*i) for i in (("i", "int64", ()), ("on", "bool", ()), ("v", "float32", (N, 4))))
    body.output(body.add("Identity", [condition], name="still"))
    body.output(body.add("Add", [carried, body.captures[0]], name="next"))
    total = graph.add("Loop", [trips, None, graph.add("Relu", [x], name="first")], captures=[k], name="loop", body=body)
    graph.output(graph.add("Add", [total, total], name="y"))
    return graph


def gathering() -> Graph:
    """Rows of a table by index, doubled."""
    graph = Graph("gathering")
    table = graph.constant(floats(5, 4), "table")
    rows = graph.add("Gather", [table, graph.input("indices", "int64", (N,))], name="look up")
    graph.output(graph.add("Add", [rows, rows], name="y"))
    return graph


# side by side -------------------------------------------------------------------------------------------------------
def in_threads(count: int, work: Callable[[int], None]) -> None:
    """`work(i)` in `count` threads that start together; the first exception is raised here."""
    gate = threading.Barrier(count)

    def begin(index: int) -> None:
        gate.wait()
        work(index)

    with ThreadPoolExecutor(count) as pool:
        for done in [pool.submit(begin, index) for index in range(count)]:
            done.result()


def test_eight_threads_run_one_session(network: Any) -> None:
    """Shapes of some threads are equal, of some not; each thread gets its own answers."""
    feeds = [{"x": floats(1 + index % 3, 3, 8, 8, seed=index)} for index in range(8)]
    alone = [network.run(None, each)[0] for each in feeds]

    def work(index: int) -> None:
        for _ in range(20):
            np.testing.assert_array_equal(network.run(None, feeds[index])[0], alone[index])

    in_threads(8, work)
    assert network._executor._busy_bytes == 0


def test_two_sessions_run_in_turn_and_at_once(network: Any) -> None:
    other = jitopt.compile(convolutional(), num_threads=2)
    feeds = {"x": floats(2, 3, 8, 8)}
    expected = network.run(None, feeds)[0]
    in_threads(4, lambda i: [np.testing.assert_array_equal((network, other)[i % 2].run(None, feeds)[0], expected)
                             for _ in range(20)])  # fmt: skip


def test_control_flow_runs_side_by_side() -> None:
    session = jitopt.compile(looped())
    assert [h["operator"] for h in session.explain().as_dict()["host_steps"]] == ["Loop"]

    def work(index: int) -> None:
        feeds = {"x": floats(3, 4, seed=index), "k": np.float32(index), "trips": index}
        expected = (np.maximum(feeds["x"], 0) + np.float32(index) * index) * 2
        for _ in range(20):
            np.testing.assert_allclose(session.run(None, feeds)[0], expected, rtol=1e-6)

    in_threads(8, work)


@pytest.mark.parametrize("images", [1, 5])
def test_any_number_of_threads_gives_the_same_bits(images: int) -> None:
    feeds = {"x": floats(images, 3, 8, 8)}
    one, *others = (jitopt.compile(convolutional(), num_threads=n).run(None, feeds)[0] for n in (1, 2, 3, 8))
    assert compare(one, reference(convolutional(), feeds)["y"])
    for other in others:
        np.testing.assert_array_equal(one, other)


def test_a_session_outlives_other_sessions_of_the_same_kernels() -> None:
    first = jitopt.compile(pair())
    del first
    check(jitopt.compile(pair()), pair(), {"x": floats(2, 4), "y": floats(2, 4)})


# errors -------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(("indices", "wrong"), [([0, 5, 1], 5), ([-6], -6), ([0, 1] * 5000 + [2**40], 2**40)])
def test_an_index_out_of_range_names_node_and_value(threads: int, indices: list[int], wrong: int) -> None:
    session = jitopt.compile(gathering(), num_threads=threads)
    good = {"indices": [4, -5, 0]}
    before = session.run(None, good)[0]
    for _ in range(3):
        with pytest.raises(ExecutionError, match=f"index {wrong} is out of range") as caught:
            session.run(None, {"indices": indices})
        assert (caught.value.model, caught.value.node) == ("gathering", "look up")
        np.testing.assert_array_equal(session.run(None, good)[0], before)
    np.testing.assert_array_equal(before, floats(5, 4)[[4, 0, 0]] * 2)


def test_failing_runs_do_not_disturb_others() -> None:
    session = jitopt.compile(gathering())
    expected = floats(5, 4)[[1, 2]] * 2

    def work(index: int) -> None:
        for _ in range(20):
            if index % 2:
                with pytest.raises(ExecutionError, match=f"index {10 + index} is out"):
                    session.run(None, {"indices": [1, 10 + index]})
            else:
                np.testing.assert_array_equal(session.run(None, {"indices": [1, 2]})[0], expected)

    in_threads(6, work)


def test_a_host_step_that_fails_names_its_node() -> None:
    graph = Graph("outside")
    x, at = graph.input("x", "float64", (N,)), graph.input("at", "int64", (1,))
    graph.output(graph.add("GatherElements", [x, at], name="pick"))
    session = jitopt.compile(graph)
    with pytest.raises(ExecutionError, match="index 7 lies outside") as caught:
        session.run(None, {"x": [1.0, 2.0], "at": [7]})
    assert (caught.value.model, caught.value.node) == ("outside", "pick")
    assert session.run(None, {"x": [1.0, 2.0], "at": [1]})[0].tolist() == [2.0]


# ended runs ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("build", [convolutional, looped])
def test_options_end_a_run(build: Callable[[], Graph]) -> None:
    session, options = jitopt.compile(build()), RunOptions()
    feeds = {"x": floats(2, 3, 8, 8)} if build is convolutional else {"x": floats(2, 4), "k": 1.0, "trips": 3}
    expected = session.run(None, feeds, options)[0]
    options.terminate = True
    with pytest.raises(RunCancelled) as caught:
        session.run(None, feeds, options)
    assert caught.value.model == session.get_modelmeta().graph_name
    options.terminate = False
    np.testing.assert_array_equal(session.run(None, feeds, options)[0], expected)


def test_another_thread_ends_a_run() -> None:
    """Hundreds of products, seconds on one thread; the option is looked at before each."""
    graph = Graph("long")
    value = graph.input("x", "float32", (N, 256))
    weight = graph.constant(np.eye(256, dtype=np.float32), "w")
    for index in range(400):
        value = graph.add("MatMul", [value, weight], name=f"m{index}")
    graph.output(value)
    session, options = jitopt.compile(graph, optimize=False, num_threads=1), RunOptions()
    feeds = {"x": floats(8192, 256)}
    threading.Timer(0.2, lambda: setattr(options, "terminate", True)).start()
    with pytest.raises(RunCancelled):
        session.run(None, feeds, options)
    assert session.run(None, {"x": feeds["x"][:1]})[0].shape == (1, 256)


def test_a_loop_without_end_is_ended() -> None:
    graph = Graph("endless")
    x = graph.input("x", "float64", ())
    body = Graph("body")
    _, on, carried = (body.input(*i) for i in (("turn", "int64", ()), ("on", "bool", ()), ("v", "float64", ())))
    body.output(body.add("Identity", [on], name="still"))
    body.output(body.add("Neg", [carried], name="next"))
    graph.output(graph.add("Loop", [None, None, x], name="loop", body=body))
    session, options = jitopt.compile(graph), RunOptions()
    threading.Timer(0.1, lambda: setattr(options, "terminate", True)).start()
    with pytest.raises(RunCancelled) as caught:
        session.run(None, {"x": 1.0}, options)
    assert caught.value.model == "endless"


def test_sessions_are_compiled_side_by_side() -> None:
    def work(index: int) -> None:
        build, feeds = [
            (convolutional, {"x": floats(2, 3, 8, 8)}), (pair, {"x": floats(3, 4), "y": floats(3, 4)}),
            (looped, {"x": floats(3, 4), "k": np.float32(2), "trips": 3}),
        ][index % 3]  # fmt: skip
        check(jitopt.compile(build()), build(), feeds)

    in_threads(6, work)
