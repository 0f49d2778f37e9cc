"""What the check behind default precision remembers, and for which compiles a verdict stands."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jitopt import Graph, evidence
from jitopt.codegen.cache import Cache
from jitopt.ir.dims import symbol
from jitopt.verdict import KIND, RIGHT, UNCHECKED, UNPROVEN, WRONG, Verdict, verdict_key
from tests.networks import convolutional, floats
from tests.settling import OPTIONS, block, cancelling, counting, settled, whole_feeds

ZEROS = {"x": np.zeros((1, 8, 4, 4), np.float32)}


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "verdicts")


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """One entry a check: the caller's feeds, or None for generated ones."""
    return counting(monkeypatch)


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


# for which compiles a verdict stands ------------------------------------------------------------------------------
def test_feeds_that_prove_nothing_do_not_spare_a_later_check(cache: Cache, checks: list[Any]) -> None:
    graph = block(0)
    assert settled(graph, cache, feeds=ZEROS).verdict.status == UNPROVEN
    assert settled(graph, cache, feeds=ZEROS).verdict.status == UNPROVEN
    assert len(checks) == 1, "these feeds prove nothing a second time"
    assert settled(graph, cache).verdict.status == RIGHT
    assert settled(graph, cache).verdict.status == settled(graph, cache, feeds=ZEROS).verdict.status == RIGHT
    assert len(checks) == 2


def test_generated_feeds_that_prove_nothing_are_tried_once(cache: Cache, checks: list[Any]) -> None:
    graph = block(0, gamma=1e-5)
    for _ in range(2):
        assert settled(graph, cache).verdict.status == UNPROVEN
    settled(graph, cache, feeds=ZEROS)
    assert settled(graph, cache).verdict.status == UNPROVEN
    assert len(checks) == 2


def test_what_cannot_be_fed_is_checked_once_its_shapes_are_known(cache: Cache, checks: list[Any]) -> None:
    """No extents tried fit rows of 7 into [rows, 91]."""
    graph = Graph("picky")
    x = graph.input("x", "float32", (symbol("n"), 7))
    product = graph.add("MatMul", [x, graph.constant(floats(7, 7))])
    scaled = graph.add("Mul", [product, graph.constant(floats(7, seed=1))])
    graph.output(graph.add("Reshape", [scaled, graph.constant(np.array([-1, 91]))]), "y")
    for _ in range(2):
        assert settled(graph, cache).verdict.status == UNCHECKED
        assert settled(graph, cache, shapes={"x": (14, 7)}).verdict.status == UNCHECKED
    assert len(checks) == 2
    assert settled(graph, cache, shapes={"x": (26, 7)}).verdict.status == RIGHT
    assert settled(graph, cache).verdict.status == settled(graph, cache, shapes={"x": (14, 7)}).verdict.status == RIGHT
    assert len(checks) == 3


@pytest.mark.parametrize("special", [np.nan, np.inf, 1e38])
def test_what_is_not_finite_costs_a_model_nothing(special: float, cache: Cache) -> None:
    graph = cancelling()
    odd = {"x": floats(1, 8, 4, 4)}
    odd["x"][0, 0, 1, 2] = special
    model = settled(graph, cache, feeds=odd)
    assert model.options == OPTIONS and model.verdict.status == UNCHECKED and "not finite" in model.verdict.reason
    assert settled(graph, cache).verdict.status == RIGHT
    found = settled(graph, cache, feeds=whole_feeds())
    assert found.verdict.without == ("folding",)
    assert settled(graph, cache, feeds=odd).options == found.options


ATTEMPT = {"without": [], "ok": True, "tolerances": 0.5, "reason": ""}
WRONG_TYPES: list[dict[str, Any]] = [
    {"attempts": []}, {"attempts": None}, {"attempts": [7]}, {"attempts": {"ok": True}},
    {"attempts": [{**ATTEMPT, "tolerances": None}]}, {"attempts": [{**ATTEMPT, "tolerances": "x"}]},
    {"attempts": [{**ATTEMPT, "tolerances": float("nan")}]}, {"attempts": [{**ATTEMPT, "ok": "yes"}]},
    {"attempts": [{**ATTEMPT, "ok": False}]}, {"attempts": [{**ATTEMPT, "without": "Winograd"}]},
    {"attempts": [{**ATTEMPT, "reason": 3}]}, {"without": ["a stage of this name is nowhere"]},
    {"without": "folding"}, {"feeds": None}, {"feeds": [1]}, {"idle": [["y"]]}, {"evidence": 7}, {"reason": None},
    {"status": ["right"]}, {"status": UNCHECKED}, {"more": 1},
]  # fmt: skip


@pytest.mark.parametrize("change", WRONG_TYPES, ids=str)
def test_entries_of_wrong_types_are_made_again(change: dict[str, Any], cache: Cache, checks: list[Any]) -> None:
    graph = block(0)
    sound = Verdict(RIGHT, feeds=(evidence.GENERATED,)).as_dict() | {"attempts": [ATTEMPT]}
    cache.store(KIND, verdict_key(graph, OPTIONS), sound, {})
    assert settled(graph, cache).verdict.attempts[0].tolerances == 0.5 and not checks
    cache.store(KIND, verdict_key(graph, OPTIONS), {**sound, **change}, {})
    assert settled(graph, cache).verdict.status == RIGHT
    assert len(checks) == 1


def test_a_verdict_survives_its_way_through_json() -> None:
    off = {**ATTEMPT, "ok": False, "tolerances": None, "reason": "'y': shape"}
    data = Verdict(WRONG, "no room", ("a",), "feeds", (), ("folding",), ("z",)).as_dict() | {"attempts": [off]}
    found = Verdict.of(data)
    assert found.attempts[0].error == float("inf") and found.without == ("folding",)
    assert Verdict.of(found.as_dict()) == found
