"""Feeds with exact answers: what they prove, and how answers are held against them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitopt import Graph
from jitopt.evidence import Evidence, NoEvidence, exact_graph, gather, interpret
from jitopt.ir.dims import symbol
from tests.networks import floats


def unlimited(_: Any) -> None:
    """Any amount of memory."""


def evidence_of(graph: Graph, feeds: dict[str, Any] | None = None) -> Evidence:
    return gather(exact_graph(graph, precision="default", gelu="exact", disable=()), feeds, None, unlimited)


def ending(*ops: str, width: int = 6) -> Graph:
    """x [3, 6] through a product and these operators to y."""
    graph = Graph("ending")
    y = graph.add("MatMul", [graph.input("x", "float32", (3, 6)), graph.constant(3 * floats(6, width))])
    for op in ops:
        y = graph.add(op, [y], **({"to": 1} if op == "Cast" else {}))
    graph.output(y, "y")
    return graph


def answering(graph: Graph, change: Callable[[Any], Any] = lambda answer: answer) -> Callable[[Any], list[Any]]:
    """Exact answers, each changed."""
    return lambda feeds: [change(answer) for answer in interpret(graph, feeds)]


def test_generated_feeds_are_two_with_the_interpreters_answers() -> None:
    graph = ending("Relu")
    evidence = evidence_of(graph)
    assert evidence.origin == "generated feeds" and evidence.proves and not evidence.idle
    (one, answers), (two, _) = evidence.cases
    assert not np.array_equal(one["x"], two["x"])
    np.testing.assert_array_equal(answers[0], interpret(graph, one)[0])


def test_right_answers_hold_and_wrong_ones_do_not() -> None:
    graph = ending("Relu")
    evidence = evidence_of(graph)
    assert evidence.hold(answering(graph), ()).tolerances == 0
    near = evidence.hold(answering(graph, lambda y: y + np.float32(5e-5)), ("folding",))
    assert near.ok and 0 < near.tolerances < 1 and near.without == ("folding",)
    wrong = evidence.hold(answering(graph, lambda y: y + np.float32(1)), ())
    assert not wrong.ok and wrong.tolerances > 10 and wrong.reason.startswith("'y': error 1")
    lost = evidence.hold(answering(graph, lambda y: y[:1]), ())
    assert not lost.ok and lost.tolerances is None and "shape" in lost.reason


def test_the_worst_output_decides() -> None:
    graph = ending("Relu")
    graph.output(graph.add("Neg", [graph.outputs[0]]), "z")
    evidence = evidence_of(graph)

    def answers(feeds: Any) -> list[Any]:
        y, z = interpret(graph, feeds)
        return [y + np.float32(0.5), z + np.float32(50)]

    found = evidence.hold(answers, ())
    assert not found.ok and found.reason.startswith("'z': error 50")


@pytest.mark.parametrize("ops", [("Softmax",), ("Softmax", "Flatten"), ("Sigmoid", "Transpose", "Identity")])
def test_what_ends_in_softmax_or_sigmoid_is_compared_before_it(ops: tuple[str, ...]) -> None:
    """A probability of 1e-6 that should be 3e-6 is within tolerance as it stands, but not as a logit."""
    graph = ending(*ops)
    evidence = evidence_of(graph)
    assert evidence.hold(answering(graph), ()).ok

    def less(y: Any) -> Any:
        y = y.copy()
        y.flat[y.argmin()] /= 3
        return y

    assert min(y.min() for _, (y,) in evidence.cases) < 3e-5
    found = evidence.hold(answering(graph, less), ())
    assert not found.ok and 1 < found.tolerances < 1e4


def test_probabilities_of_zero_and_one_compare() -> None:
    graph = ending("Sigmoid")
    evidence = evidence_of(graph, {"x": 1000 * floats(3, 6)})
    assert set(evidence.cases[0][1][0].flat) <= {0.0, 1.0}
    assert evidence.hold(answering(graph), ()).ok


def test_small_probabilities_prove_something_before_the_softmax() -> None:
    """Each of 400 probabilities stays below 1e-2; their logits vary."""
    graph = Graph("many classes")
    x = graph.input("x", "float32", (1, 6))
    graph.output(graph.add("Softmax", [graph.add("MatMul", [x, graph.constant(0.1 * floats(6, 400))])]), "y")
    evidence = evidence_of(graph)
    assert max(y.max() for _, (y,) in evidence.cases) < 1e-2 and evidence.proves


def test_integers_and_shapes_that_differ_prove_something() -> None:
    graph = ending("ArgMax")
    graph.output(graph.add("NonZero", [graph.add("Relu", [graph.add("Neg", [graph.outputs[0]])])]), "none")
    evidence = evidence_of(graph)
    assert evidence.idle == ("none",) and evidence.proves


def test_the_callers_feeds_are_proven_by_their_elements_in_another_order() -> None:
    graph = ending("Relu")
    feeds = {"x": floats(3, 6)}
    evidence = evidence_of(graph, feeds)
    assert evidence.origin == "the caller's feeds" and evidence.proves and len(evidence.cases) == 1
    np.testing.assert_array_equal(evidence.cases[0][0]["x"], feeds["x"])
    assert not evidence_of(graph, {"x": np.zeros((3, 6), np.float32)}).proves


def test_feeds_are_tried_until_the_model_takes_them() -> None:
    """A kernel of 100 does not fit into the first extents tried."""
    graph = Graph("sound")
    x = graph.input("x", "float32", (1, 2, symbol("samples")))
    graph.output(graph.add("Conv", [x, graph.constant(floats(3, 2, 100))]), "y")
    assert evidence_of(graph).cases[0][0]["x"].shape == (1, 2, 256)


def test_the_first_refusal_is_the_reason() -> None:
    graph = Graph("picky")
    x, y = graph.input("x", "float32", (symbol("n"), 3)), graph.input("y", "float32", (symbol("m"), symbol("m")))
    graph.output(graph.add("Concat", [graph.add("Reshape", [x, graph.constant(np.array([7, -1]))]), y], axis=0), "z")
    with pytest.raises(NoEvidence, match=r"no feed could be made: .*picky"):
        evidence_of(graph)


def test_approximations_that_were_asked_for_are_in_the_exact_answers() -> None:
    graph = ending("Gelu")
    for options in ({"precision": "fast", "gelu": "exact"}, {"precision": "default", "gelu": "tanh"}):
        asked = exact_graph(graph, disable=(), **options)
        assert [n.attrs.get("approximate") for n in asked if n.op == "Gelu"] == ["tanh"]
    plain = exact_graph(graph, precision="default", gelu="exact", disable=())
    assert [n.op for n in plain] == [n.op for n in graph]
    kept = exact_graph(graph, precision="fast", gelu="exact", disable=("approximate-gelu",))
    assert not any(n.attrs.get("approximate") for n in kept)


@pytest.mark.parametrize("op", ["Softmax", "Sigmoid"])
@pytest.mark.parametrize("factor", [1e-2, 1.0, 4.0])
def test_a_halfs_own_rounding_is_no_error(op: str, factor: float) -> None:
    """Every probability a unit in the last place away, some of them denormal or zero; three times one is an error."""
    graph = Graph("half")
    logits = graph.add("MatMul", [graph.input("x", "float32", (3, 6)), graph.constant(factor * floats(6, 40))])
    graph.output(graph.add(op, [graph.add("Cast", [logits], to=10)]), "y")
    evidence = evidence_of(graph)
    assert evidence.hold(answering(graph, lambda y: np.nextafter(y, np.float16(2))), ()).ok
    assert evidence.hold(answering(graph, lambda y: np.nextafter(y, np.float16(-2))), ()).ok

    def more(y: Any) -> Any:
        y = y.copy()
        place = np.argmin(np.where(y > 1e-3, y, 1))
        y.flat[place] *= 3
        return y

    assert not evidence.hold(answering(graph, more), ()).ok


@pytest.mark.parametrize("feed", [np.nan, np.inf, 3e38])
def test_feeds_and_answers_that_are_not_finite_are_no_evidence(feed: float) -> None:
    x = floats(3, 6)
    x[1, 2] = feed
    with pytest.raises(NoEvidence, match="feeds are not finite" if feed != 3e38 else "answers to these feeds are not"):
        evidence_of(ending("Relu"), {"x": x})


def test_generated_feeds_with_answers_that_are_not_finite_are_no_evidence() -> None:
    with pytest.raises(NoEvidence, match="exact answers to these feeds are not finite"), np.errstate(all="ignore"):
        evidence_of(ending("Log"))


def test_answers_in_float64_are_nearer() -> None:
    """A sum that cancels: float32 loses what float64 keeps, and both come back as float32."""
    graph = Graph("cancelling")
    x = graph.input("x", "float32", (1, 512))
    w = 1e4 * floats(512, 8)
    graph.output(
        graph.add("MatMul", [graph.add("Concat", [x, x], axis=1), graph.constant(np.concatenate([w, -0.999 * w]))])
    )
    evidence = evidence_of(graph)
    sharp = evidence.in_float64()
    assert sharp is not None
    for (feeds, narrow), (_, wide) in zip(evidence.cases, sharp.cases, strict=True):
        exact = feeds["x"].astype(np.float64) @ (
            w.astype(np.float64) - (0.999 * w).astype(np.float32).astype(np.float64)
        )
        assert wide[0].dtype == np.float32
        assert np.abs(wide[0] - exact).max() < np.abs(narrow[0] - exact).max()
