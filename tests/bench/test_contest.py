"""A contest on the bundled digits network: everybody installed answers right, who does not is told and not timed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bench import contest
from bench.adapters import CONTESTANTS, OURS, Contestant, environment, installed
from bench.child import in_child
from bench.inputs import Feeds
from jitopt.demo import digits

MODEL = Path(str(digits.bundle() / "digits.onnx"))
LIMITS = contest.Limits(seconds=0.0, runs=4)


@pytest.fixture(scope="module")
def feeds() -> Feeds:
    _, images, _ = digits.load()
    return {"image": (images[:1, None] / 16).astype(np.float32)}


@pytest.mark.parametrize("name", CONTESTANTS)
def test_everybody_installed_answers_right(name: str, feeds: Feeds) -> None:
    missing = CONTESTANTS[name].missing
    if missing:
        assert CONTESTANTS[name].version is None
        pytest.skip(f"not installed: {missing}")
    _, expected = contest.reference_answers(MODEL, feeds)
    found = in_child(contest.probe, name, MODEL, feeds, 1, expected, environment=environment(1))
    assert found["remark"] == "" and found["max_error"] <= 1e-4 and found["load_seconds"] > 0
    assert CONTESTANTS[name].version


def test_a_wrong_answer_is_told(feeds: Feeds) -> None:
    _, expected = contest.reference_answers(MODEL, feeds)
    found = contest.probe(OURS, MODEL, feeds, 1, [array + 1 for array in expected])
    assert found["remark"].startswith("differs: output 0") and found["max_error"] == pytest.approx(1)
    assert found["about"]["operators"] == 24 and found["about"]["kernels"] > 0


def test_who_is_absent_or_fails_does_not_stop_the_others(feeds: Feeds, monkeypatch: pytest.MonkeyPatch) -> None:
    nobody = Contestant("nobody", "nobody", ("no_such_module",), CONTESTANTS[OURS].load)
    monkeypatch.setitem(CONTESTANTS, "nobody", nobody)
    names = ["nobody", *installed([OURS, "onnxruntime"])]
    found = contest.contest(MODEL, feeds, 1, names, LIMITS)
    assert found["results"]["nobody"] == {"remark": "not installed: no_such_module"}
    for name in names[1:]:
        result = found["results"][name]
        assert result["remark"] == "" and 3 <= result["runs"] <= 4 and 0 < result["p50"] <= result["p99"]
    ours, theirs = (found["results"].get(name, {}).get("p50") for name in (OURS, "onnxruntime"))
    if theirs is not None:
        assert found["best"] == "onnxruntime" and found["ratio"] == pytest.approx(theirs / ours)


def test_the_ratio_is_of_the_fastest_that_counts() -> None:
    results = {
        OURS: {"p50": 2.0}, "onnxruntime": {"p50": 3.0}, "openvino": {"p50": 2.5}, "openvino-default": {"p50": 1.0},
        "ncnn": {"remark": "differs"},
    }  # fmt: skip
    assert contest.ratio(results) == {"best": "openvino", "ratio": 1.25}
    assert contest.ratio({"openvino": {"p50": 1.0}}) == {"best": "openvino", "ratio": None}
    assert contest.ratio({OURS: {"p50": 1.0}}) == {"best": None, "ratio": None}


def test_statistics() -> None:
    assert contest.summary([3.0, 1.0, 2.0]) == {"p50": 2.0, "p99": 3.0, "runs": 3}
    assert contest.summary([float(i) for i in range(1, 201)])["p99"] == 199.0
    assert contest.geometric_mean([0.5, 2.0, 8.0]) == pytest.approx(2.0)
    assert contest.geometric_mean([]) is None


def test_digests_tell_inputs_apart(feeds: Feeds) -> None:
    first = contest.digest(feeds)
    assert first == contest.digest({name: array.copy() for name, array in feeds.items()})
    (array,) = feeds.values()
    others = [{"other": array}, {"image": array + 1}, {"image": array.reshape(-1)}, {"image": array.view(np.int32)}]
    assert len({first, *map(contest.digest, others)}) == 5


def test_memory_of_a_process_is_counted() -> None:
    before = contest.resident()
    block = np.ones(64 << 20, np.uint8)
    assert contest.resident() - before > 48 << 20 and block.size
