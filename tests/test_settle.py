"""The check behind default precision: it fires where answers are off, and says what it did."""

from __future__ import annotations

import dataclasses
import logging
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import pytest

import jitopt
from jitopt import Graph, evidence
from jitopt import settle as settle_module
from jitopt.api import load_graph
from jitopt.codegen.cache import Cache
from jitopt.model import compile_model
from jitopt.passes.pipelines import PASSES
from jitopt.runtime.executor import Executor
from jitopt.settle import STAGES, Maker, Stage, settle
from jitopt.verdict import KIND, MEANINGS, OFF, RIGHT, UNCHECKED, UNNEEDED, UNPROVEN, WRONG
from tests.networks import convolutional, floats, pair, reference
from tests.settling import OPTIONS, block, cancelling, counting, looked_up, maker, settled, whole_feeds


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "verdicts")


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """One entry a check: the caller's feeds, or None for generated ones."""
    return counting(monkeypatch)


# what is checked --------------------------------------------------------------------------------------------------
def test_every_bounded_pass_can_be_given_up() -> None:
    """Constant folding apart: it computes what the interpreter would."""
    given_up = {name for stage in STAGES for name in stage.disable}
    bounded = {name for name, rewrite in PASSES.items() if rewrite.exactness == "bounded"}
    assert bounded - given_up == {"fold-constants"}


def test_nothing_is_checked_where_no_rewrite_moves_a_result(checks: list[Any], cache: Cache) -> None:
    for options in (OPTIONS, dataclasses.replace(OPTIONS, optimize=False)):
        assert settled(pair(), cache, options).verdict.status == UNNEEDED
    for options in ({"precision": "exact"}, {"optimize": False}):
        model = settled(convolutional(), cache, dataclasses.replace(OPTIONS, **options))
        assert model.verdict.status == UNNEEDED
    assert not checks and not list(cache.folder.glob(f"{KIND}/*"))


@pytest.mark.parametrize("build", [convolutional, looked_up])
def test_sound_models_stay_as_asked(build: Any, checks: list[Any]) -> None:
    """Symbolic batch, look-ups by an integer input and several outputs: feeds are generated for all of it."""
    model = settled(build())
    assert model.verdict.status == RIGHT and model.options == OPTIONS and checks == [None]
    assert len(model.verdict.attempts) == 1 and model.verdict.attempts[0].tolerances < 1


def test_host_steps_and_kernels_are_checked_together() -> None:
    graph = convolutional()
    (logits,) = graph.outputs
    graph.output(graph.add("NonZero", [logits], name="places"))
    model = settled(graph)
    assert model.program.host_steps and model.verdict.status == RIGHT


# the guard fires --------------------------------------------------------------------------------------------------
def test_folding_that_loses_accuracy_is_given_up(caplog: pytest.LogCaptureFixture) -> None:
    feeds, graph = whole_feeds(), cancelling(uuid4().hex)  # no verdict is known of a model of this name
    expected = reference(graph, feeds)["y"]
    with caplog.at_level(logging.WARNING, "jitopt"):
        session = jitopt.compile(graph, feeds=feeds)
    verdict = session.explain().as_dict()["verdict"]
    first, last = verdict["attempts"]
    assert verdict["status"] == RIGHT and verdict["evidence"] == "the caller's feeds"
    assert not first["ok"] and first["tolerances"] > 3 and first["without"] == ()
    assert last["ok"] and last["without"] == ("folding",)
    np.testing.assert_array_equal(session.run(None, feeds)[0], expected)
    assert "without folding: largest error 0 tolerances" in str(session.explain())
    assert "as asked: 'y': error" in caplog.text


def test_without_the_check_folding_stays_and_is_off() -> None:
    feeds, graph = whole_feeds(), cancelling()
    session = jitopt.compile(graph, feeds=feeds, verify=False)
    off = np.max(np.abs(session.run(None, feeds)[0] - reference(graph, feeds)["y"]))
    assert off > 1e-2
    assert session.explain().as_dict()["verdict"]["status"] == OFF
    assert "answers: not checked" in str(session.explain())


def test_stages_that_took_no_part_are_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    stages = (Stage("nothing", ("recognise-gelu",)), *STAGES)
    monkeypatch.setattr(settle_module, "STAGES", stages)
    model = settled(cancelling(), feeds=whole_feeds())
    assert [attempt.without for attempt in model.verdict.attempts] == [(), ("folding",)]


def test_a_template_can_be_given_up_like_a_pass() -> None:
    model = compile_model(convolutional(), OPTIONS, cache=Cache.default())
    templates = {spec.template for spec in model.program.specs}
    assert all(Stage("it", (name,)).took_part(model) for name in templates)
    assert not Stage("it", ("a template of this name is nowhere",)).took_part(model)


def crooked(*arguments: Any) -> Any:
    """Evidence whose answers are off by 1, unless they are computed in float64."""
    honest = evidence.gather(*arguments)
    cases = tuple((feeds, [answer + 1 for answer in answers]) for feeds, answers in honest.cases)
    return dataclasses.replace(honest, cases=cases)


def test_what_float64_calls_right_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settle_module, "gather", crooked)
    model = settled(convolutional())
    assert model.verdict.status == RIGHT
    assert [attempt.without for attempt in model.verdict.attempts] == [()]


def test_answers_that_stay_wrong_are_called_so(monkeypatch: pytest.MonkeyPatch, cache: Cache) -> None:
    monkeypatch.setattr(settle_module, "gather", crooked)
    monkeypatch.setattr(evidence.Evidence, "in_float64", lambda _: None)
    graph = convolutional()
    model = settled(graph, cache)
    assert model.verdict.status == WRONG and not any(attempt.ok for attempt in model.verdict.attempts)
    assert [attempt.without for attempt in model.verdict.attempts] == [(), ("folding",)]
    assert model.verdict.without == () and model.options == OPTIONS, "folding is not to blame: it stays"
    assert "NOT within tolerance" in model.verdict.lines()[0]
    assert settled(graph, cache, feeds={"x": floats(1, 3, 8, 8)}).verdict == model.verdict


def test_what_is_nearer_to_right_stays_where_nothing_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    def crooked(*arguments: Any) -> Any:
        honest = evidence.gather(*arguments)
        cases = tuple((feeds, [answer + np.float32(5e-3) for answer in answers]) for feeds, answers in honest.cases)
        return dataclasses.replace(honest, cases=cases)

    monkeypatch.setattr(settle_module, "gather", crooked)
    model = settled(cancelling(), feeds=whole_feeds())
    first, last = model.verdict.attempts
    assert model.verdict.status == WRONG and first.error > 2 * last.error > 2
    assert model.verdict.without == ("folding",) and "fold-batchnorm" in model.options.disable


# feeds that prove nothing -----------------------------------------------------------------------------------------
def test_answers_too_small_to_tell_are_no_check() -> None:
    verdict = settled(block(0, gamma=1e-5)).verdict
    assert verdict.status == UNPROVEN and verdict.idle == ("y",) and not verdict.attempts
    assert verdict.lines() == [f"answers: {MEANINGS[UNPROVEN]} (generated feeds)"]


def test_feeds_whose_order_does_not_matter_are_no_check() -> None:
    graph = cancelling()
    verdict = settled(graph, feeds={"x": np.zeros((1, 8, 4, 4), np.float32)}).verdict
    assert verdict.status == UNPROVEN and verdict.evidence == "the caller's feeds"


def test_an_output_that_does_not_vary_is_named() -> None:
    graph = block(0)
    still = graph.add("Mul", [graph.outputs[0], graph.constant(np.float32(1e-9))])
    graph.output(still, "still")
    verdict = settled(graph).verdict
    assert verdict.status == RIGHT and verdict.idle == ("still",)
    assert any("prove nothing about still" in line for line in verdict.lines())


# what cannot be checked -------------------------------------------------------------------------------------------
def test_reasons_why_there_is_no_check(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = block(0)
    graph.output(graph.add("RandomNormalLike", [graph.outputs[0]]), "noise")
    assert "results are random" in settled(graph).verdict.reason
    words = Graph("words")
    x, text = words.input("x", "float32", (4, 8)), words.input("text", "string", (2,))
    product = words.add("MatMul", [x, words.constant(floats(8, 8))])
    words.output(words.add("Mul", [product, words.constant(floats(8))]), "y")
    words.output(words.add("Identity", [text]), "same")
    verdict = settled(words).verdict
    assert verdict.status == UNCHECKED and "'text': values of type string cannot be made up" in verdict.reason
    small = settled(block(0), options=dataclasses.replace(OPTIONS, max_memory=1500))
    assert small.verdict.status == UNCHECKED and "more than the limit of 1,500" in small.verdict.reason
    monkeypatch.setattr(evidence, "SECONDS", 0.0)
    assert "take more than 0 s" in settled(block(0)).verdict.reason


def test_a_model_that_does_not_run_where_numpy_does_is_not_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> None:
        raise jitopt.ExecutionError("index 7 is out of range")

    monkeypatch.setattr(Executor, "run", fails)
    verdict = settled(block(0)).verdict
    assert verdict.status == UNCHECKED and "index 7 is out of range" in verdict.reason


@pytest.mark.parametrize("limit", ["compile", "run", "memory"])
def test_an_attempt_that_cannot_be_made_takes_nothing_from_those_before(limit: str, cache: Cache) -> None:
    """The model without folding does not fit: the one that compiled is kept, and called wrong."""
    graph = cancelling()
    make = maker(graph)
    asked = make.model(OPTIONS)

    def model(options: Any) -> Any:
        if limit == "compile":
            raise jitopt.MemoryLimitError("its constants take too much")
        if limit == "memory":
            raise MemoryError
        return make.model(options)

    def executor(compiled: Any) -> Any:
        made = make.executor(compiled)
        if compiled is not asked:
            made.run = lambda *_: _raise(jitopt.MemoryLimitError("its buffers take too much"))
        return made

    kept = settle(asked, graph, Maker(model, executor), feeds=whole_feeds(), cache=cache)
    assert kept is asked and kept.verdict.status == WRONG and not kept.verdict.without
    assert len(kept.verdict.attempts) == 1 and kept.verdict.reason.startswith("without folding: ")
    assert ("memory" if limit == "memory" else "take too much") in kept.verdict.lines()[0]
    assert bool(list(cache.folder.glob(f"{KIND}/*"))) is (limit != "memory"), "a lack of memory passes"


def _raise(error: Exception) -> Any:
    raise error


def test_a_lack_of_memory_in_the_check_is_no_failure(monkeypatch: pytest.MonkeyPatch, cache: Cache) -> None:
    monkeypatch.setattr(Executor, "run", lambda *_: _raise(MemoryError()))
    verdict = settled(block(0), cache).verdict
    assert verdict.status == UNCHECKED and "not enough memory to run it" in verdict.reason
    assert not list(cache.folder.glob(f"{KIND}/*"))


def test_random_operators_in_a_branch_are_found() -> None:
    graph = block(0)
    flag, branches = graph.input("flag", "bool", ()), {}
    for name in ("then_branch", "else_branch"):
        branches[name] = Graph(name)
        branches[name].output(branches[name].add("RandomNormal", [], shape=[1, 8, 4, 4]))
    graph.output(graph.add("Add", [graph.outputs[0], graph.add("If", [flag], **branches)]), "noisy")
    verdict = settled(graph).verdict
    assert verdict.status == UNCHECKED and "results are random" in verdict.reason


def test_coarse_outputs_are_right() -> None:
    """A float16's own rounding is no error."""
    graph = block(0)
    graph.output(graph.add("Cast", [graph.outputs[0]], to=10), "half")
    verdict = settled(graph).verdict
    assert verdict.status == RIGHT and not verdict.without and not verdict.idle


def test_the_digits_are_right_as_asked() -> None:
    path = Path(jitopt.__file__).parent / "data" / "digits.onnx"
    model = settled(load_graph(path))
    assert model.verdict.status == RIGHT and not model.verdict.without and not model.verdict.idle
