"""Resizing or padding from an axis without elements is refused before any kernel runs; nothing from nothing is fine."""

from __future__ import annotations

import numpy as np
import pytest

import jitopt
from tests.lower.test_rows import check, floats


def resized(rows: int) -> jitopt.Graph:
    graph = jitopt.Graph("resize")
    x = graph.input("x", "float32", (1, 1, jitopt.symbol("h"), 4))
    y = graph.add("Resize", [x, None, None, graph.constant(np.array([1, 1, rows, 4]))], mode="linear")
    graph.output(y, "y")
    return graph


def padded(mode: str) -> jitopt.Graph:
    graph = jitopt.Graph("pad")
    x = graph.input("x", "float32", (jitopt.symbol("h"), 4))
    graph.output(graph.add("Pad", [x, graph.constant(np.array([1, 0, 1, 0]))], mode=mode), "y")
    return graph


@pytest.mark.parametrize("graph", [resized(3), padded("edge"), padded("reflect"), padded("wrap")], ids=str)
def test_an_axis_without_elements_is_refused(graph: jitopt.Graph) -> None:
    session = jitopt.compile(graph, num_threads=1)
    shape = [d if isinstance(d, int) else 0 for d in session.get_inputs()[0].shape]
    with pytest.raises(jitopt.ShapeError, match="extent"):
        session.run(None, {"x": np.zeros(shape, np.float32)})
    (found,) = session.run(None, {"x": floats(*(d or 3 for d in shape))})
    assert np.isfinite(found).all()


def test_constant_padding_and_empty_results_need_no_source() -> None:
    check(padded("constant"), {"x": floats(0, 4)})
    check(resized(0), {"x": floats(1, 1, 0, 4)})


@pytest.mark.parametrize("row", [[-np.inf] * 3, [np.inf, 0, 1], [1, 2, 3], [np.nan, 0, 1]], ids=str)
def test_log_sum_exp_of_infinities(row: list[float]) -> None:
    graph = jitopt.Graph("logsumexp")
    x = graph.input("x", "float32", (1, 3))
    graph.output(graph.add("ReduceLogSumExp", [x, graph.constant(np.array([1]))]), "y")
    check(graph, {"x": np.array([row], np.float32)})
