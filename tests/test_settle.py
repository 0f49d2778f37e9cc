"""The check behind default precision: it fires where answers are off, says what it did, and remembers it."""

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
from jitopt.codegen.host import choose_target
from jitopt.ir.clone import clone
from jitopt.model import CompiledModel, ModelOptions, compile_model
from jitopt.passes.pipelines import PASSES
from jitopt.runtime.executor import Executor
from jitopt.settle import STAGES, Maker, Stage, settle
from jitopt.verdict import KIND, MEANINGS, OFF, RIGHT, UNCHECKED, UNNEEDED, UNPROVEN, WRONG, verdict_key
from tests.networks import N, convolutional, floats, pair, reference

OPTIONS = ModelOptions(choose_target(None))


def block(mean: float, gamma: float = 1.0, name: str = "block") -> Graph:
    """A 1x1 convolution of [1, 8, 4, 4] with whole weights, the first channel's 1000, and its BatchNormalization."""
    graph = Graph(name)
    x = graph.input("x", "float32", (1, 8, 4, 4))
    weight = np.random.default_rng(1).integers(-4, 5, (8, 8, 1, 1)).astype(np.float32)
    weight[:, 0] = 1000
    vectors = (np.full(8, v, np.float32) for v in (gamma, 0, mean, 9))
    y = graph.add("Conv", [x, graph.constant(weight, "weight")], name="conv")
    graph.output(graph.add("BatchNormalization", [y, *(graph.constant(v) for v in vectors)], name="norm"), "y")
    return graph


def cancelling(name: str = "cancelling") -> Graph:
    """Folding loses what matters: sums of a million, exact in float32, are reduced by their mean before they scale."""
    return block(1e6, name=name)


def looked_up() -> Graph:
    """Rows of a table of 5, scaled behind a product; the number of rows is free, the rows are an input."""
    graph = Graph("looked up")
    rows = graph.input("rows", "int64", (N,))
    chosen = graph.add("Gather", [graph.constant(floats(5, 8)), rows])
    product = graph.add("MatMul", [chosen, graph.constant(floats(8, 8))])
    graph.output(graph.add("Mul", [product, graph.constant(floats(8, seed=1))]), "y")
    graph.output(chosen, "chosen")
    return graph


def whole_feeds(seed: int = 0) -> dict[str, Any]:
    """Feeds with which every sum of `cancelling` is a whole number near a million."""
    x = np.random.default_rng(seed).integers(-8, 9, (1, 8, 4, 4)).astype(np.float32)
    x[:, 0] = 1000
    return {"x": x}


def settled(graph: Graph, cache: Cache | None = None, options: ModelOptions = OPTIONS, **more: Any) -> CompiledModel:
    """What `settle` makes of a graph; kernels come from the default cache, verdicts from `cache`."""

    def model(options: ModelOptions) -> CompiledModel:
        return compile_model(clone(graph), options, cache=Cache.default())

    def executor(compiled: CompiledModel) -> Executor:
        return Executor(compiled.program, compiled.addresses(), 1, max_memory=compiled.options.max_memory)

    return settle(model(options), graph, Maker(model, executor), cache=cache, **more)


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "verdicts")


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """One entry a check: the caller's feeds, or None for generated ones."""
    made: list[Any] = []

    def counting(graph: Graph, feeds: Any, *rest: Any) -> Any:
        made.append(feeds)
        return evidence.gather(graph, feeds, *rest)

    monkeypatch.setattr(settle_module, "gather", counting)
    return made


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


def test_answers_that_stay_wrong_are_called_so(monkeypatch: pytest.MonkeyPatch, cache: Cache) -> None:
    def crooked(*arguments: Any) -> Any:
        honest = evidence.gather(*arguments)
        cases = tuple((feeds, [answer + 1 for answer in answers]) for feeds, answers in honest.cases)
        return dataclasses.replace(honest, cases=cases)

    monkeypatch.setattr(settle_module, "gather", crooked)
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


# what is remembered -----------------------------------------------------------------------------------------------
def test_a_second_compile_checks_nothing(cache: Cache, checks: list[Any]) -> None:
    graph, feeds = cancelling(), whole_feeds()
    first = settled(graph, cache, feeds=feeds)
    again = settled(graph, cache, feeds=whole_feeds())
    without_feeds = settled(graph, cache)
    assert len(checks) == 1
    assert again.verdict == without_feeds.verdict == first.verdict
    assert again.options == without_feeds.options == first.options != OPTIONS


def test_feeds_of_the_caller_are_checked_each_once(cache: Cache, checks: list[Any]) -> None:
    graph = cancelling()
    assert not settled(graph, cache).verdict.without
    model = settled(graph, cache, feeds=whole_feeds())
    assert model.verdict.without == ("folding",)
    assert settled(graph, cache).verdict == model.verdict
    assert len(checks) == 2
    later = settled(graph, cache, feeds=whole_feeds(1)).verdict
    assert len(checks) == 3 and later.without == ("folding",) and len(later.feeds) == 3
    nothing = settled(graph, cache, feeds={"x": np.zeros((1, 8, 4, 4), np.float32)})
    assert nothing.verdict.status == RIGHT and nothing.verdict.without == ("folding",)
    assert "fold-batchnorm" in nothing.options.disable and len(nothing.verdict.feeds) == 4


def test_other_weights_options_or_names_are_other_models(cache: Cache) -> None:
    keys = [verdict_key(graph, OPTIONS) for graph in (block(0), block(1), block(0, name="other"), convolutional())]
    keys += [verdict_key(block(0), dataclasses.replace(OPTIONS, gelu="tanh"))]
    assert len(set(keys)) == len(keys)
    assert keys[0] == verdict_key(block(0), OPTIONS)


@pytest.mark.parametrize(
    "damage", [lambda data: data[:-7], lambda data: b"", lambda data: data[:20] + b"?" + data[21:]]
)
def test_a_damaged_verdict_is_made_again(damage: Any, cache: Cache, checks: list[Any]) -> None:
    graph = block(0)
    first = settled(graph, cache)
    (entry,) = cache.folder.glob(f"{KIND}/*.bin")
    entry.write_bytes(damage(entry.read_bytes()))
    assert settled(graph, cache).verdict == first.verdict
    assert len(checks) == 2
    settled(graph, cache)
    assert len(checks) == 2


def test_an_entry_that_says_something_else_is_made_again(cache: Cache, checks: list[Any]) -> None:
    graph = block(0)
    key = verdict_key(graph, OPTIONS)
    for header in ({}, {"status": "splendid"}, {**settled(graph).verdict.as_dict(), "status": "splendid"}):
        cache.store(KIND, key, header, {})
        made = len(checks)
        assert settled(graph, cache).verdict.status == RIGHT
        assert len(checks) == made + 1


def test_no_evidence_is_remembered_too(cache: Cache, monkeypatch: pytest.MonkeyPatch, checks: list[Any]) -> None:
    monkeypatch.setattr(evidence, "SECONDS", 0.0)
    graph = block(0)
    assert settled(graph, cache).verdict == settled(graph, cache).verdict
    assert len(checks) == 1


def test_a_lack_of_memory_is_not_remembered(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    def lack(*_: Any) -> Any:
        raise MemoryError

    graph = block(0)
    with monkeypatch.context() as patch:
        patch.setattr(evidence, "_generated", lack)
        assert settled(graph, cache).verdict.status == UNCHECKED
    assert settled(graph, cache).verdict.status == RIGHT


def test_the_digits_are_right_as_asked() -> None:
    path = Path(jitopt.__file__).parent / "data" / "digits.onnx"
    model = settled(load_graph(path))
    assert model.verdict.status == RIGHT and not model.verdict.without and not model.verdict.idle
