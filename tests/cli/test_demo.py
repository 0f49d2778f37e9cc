"""The demo's digits half and GELU: the numbers, the JSON, the pictures, and that a wrong answer is told."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from jitopt.cli import demo as demo_command
from jitopt.cli.pictures import bar, draw_digits
from jitopt.demo import digits as digits_part
from jitopt.demo import resnet
from jitopt.demo import waterfall as waterfall_part
from jitopt.evidence import interpret

from .conftest import Command


def test_digits_as_json(command: Command) -> None:
    outcome = command("demo", "--only", "digits", "--json")
    found = outcome.json
    assert outcome.status == 0 and found["ok"] and {"machine", "digits", "seconds", "next"} <= found.keys()
    assert found["machine"]["peaks"][0]["fma_gflops"] > 1 and found["machine"]["target"]
    part = found["digits"]
    assert part["images"] == 60 and part["right"] == 59 and part["accuracy"] == pytest.approx(59 / 60)
    assert part["max_error"] <= part["tolerance"]
    assert part["operators"]["before"]["BatchNormalization"] == 4
    assert sum(part["operators"]["before"].values()) == part["operators"]["count_before"] == 24
    assert sum(part["operators"]["after"].values()) == part["operators"]["count_after"] < 12
    memory = part["memory"]
    assert 0 < memory["lower_bound_bytes"] <= memory["pool_bytes"] < memory["unshared_bytes"]


def test_five_digits_and_three_groups(command: Command) -> None:
    part = command("demo", "--only", "digits", "--json").json["digits"]
    assert len(part["shown"]) == 5 and len({digit["label"] for digit in part["shown"]}) == 5
    assert [d["label"] == d["read"] for d in part["shown"]] == [True] * 4 + [False]
    assert all(np.shape(d["pixels"]) == (8, 8) and 0 < d["probability"] <= 1 for d in part["shown"])
    assert len(part["groups"]) == 3
    for group in part["groups"]:
        assert len(group["operators"]) == len(group["members"]) > 1
        assert "def kernel(args, tid, nthreads):" in Path(group["source"]).read_text("utf-8")


def test_digits_and_gelu_as_text(command: Command) -> None:
    outcome = command("demo", "--only", "digits", "--only", "gelu")
    assert outcome.status == 0 and not outcome.err
    for words in ("59 of 60", "GFLOP/s", "Conv + Add + Relu", "without sharing", "sigmoid", "All answers are right"):
        assert words in outcome.out
    assert outcome.out.strip().splitlines()[-1].strip().startswith("jitopt ")


def test_a_wrong_answer_ends_with_status_one(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = digits_part.interpret
    monkeypatch.setattr(digits_part, "interpret", lambda *args: [a + 1 for a in honest(*args)])
    outcome = command("demo", "--only", "digits")
    assert outcome.status == 1 and "WRONG" in outcome.out and "All answers are right" not in outcome.out
    as_json = command("demo", "--only", "digits", "--json")
    assert as_json.status == 1 and not as_json.json["ok"]


def test_every_part_counts() -> None:
    right = {"digits": {"ok": True}, "resnet50": {"ok": True}, "gelu": [{"ok": True}]}
    assert demo_command.all_right(right) and demo_command.all_right({})
    for part in ("digits", "resnet50"):
        assert not demo_command.all_right({**right, part: {"ok": False}})
    assert not demo_command.all_right({**right, "gelu": [{"ok": True}, {"ok": False}]})


def test_the_network_of_the_waterfall() -> None:
    network = resnet.resnet50()
    ops = [node.op for node in network.graph]
    assert ops.count("BatchNormalization") == ops.count("Conv") == 53 and "ConstantOfShape" not in ops
    scores, probabilities = network.answer.values()
    assert scores.shape == (1, 1000) and 0.5 < scores.std() < 5
    assert probabilities.sum() == pytest.approx(1, abs=1e-4)
    (picture,) = network.feeds.values()
    assert abs(picture.mean()) < 1e-5 and picture.std() == pytest.approx(1, abs=1e-4)


@pytest.fixture
def small_waterfall(monkeypatch: pytest.MonkeyPatch) -> resnet.Network:
    """The waterfall's network is the digits network, and one timed run will do."""
    graph, images, _ = digits_part.load()
    feeds = {"image": (images[:2, None] / 16).astype(np.float32)}
    names = [value.name for value in graph.outputs]
    network = resnet.Network(graph, feeds, dict(zip(names, interpret(graph, feeds), strict=True)))
    monkeypatch.setattr(waterfall_part, "resnet50", lambda: network)
    monkeypatch.setattr(waterfall_part, "RUNS", 1)
    return network


def test_the_waterfall(command: Command, small_waterfall: resnet.Network) -> None:
    found = command("demo", "--only", "resnet50", "--json").json["resnet50"]
    rows = found["waterfall"]
    assert [row["name"] for row in rows] == [name for name, _ in waterfall_part.STAGES]
    assert rows[0]["kernels_run"] > rows[1]["kernels_run"] > rows[2]["kernels_run"] >= rows[3]["kernels_run"]
    assert all(row["ok"] and row["ms"] > 0 for row in rows)
    assert found["convolutions"] == found["batch_normalizations"] == 4
    assert found["saved_ms"] == pytest.approx(rows[0]["ms"] - rows[-1]["ms"])
    assert (found["break_even_runs"] is None) == (found["saved_ms"] <= 0)
    text = command("demo", "--only", "resnet50").out
    assert "one operator at a time" in text and "the same kernels" in text and "agrees with NumPy" in text


def test_a_wrong_waterfall_is_told(
    command: Command, small_waterfall: resnet.Network, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    monkeypatch.setattr(waterfall_part, "runtime_installed", lambda: False)
    for answer in small_waterfall.answer.values():
        answer += 1
    outcome = command("demo", "--only", "resnet50")
    assert outcome.status == 1 and "WRONG" in outcome.out and "not installed" in outcome.out


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_pictures_of_characters(encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jitopt.cli.pictures.unicode_output", lambda: encoding == "utf-8")
    assert [len(bar(share)) for share in (0, 1e-9, 0.3, 0.5, 1)] == [24] * 5
    assert bar(0).strip() == "" and bar(1) != bar(0.5)
    digit = {"pixels": [[0, 16], [8, 0]], "label": 3, "read": 3, "probability": 0.875}
    lines = draw_digits([digit, {**digit, "label": 1}])
    assert len(lines) == 4 and "3" in lines[2] and "it is a 1" in lines[3]
    assert all(line.isascii() for line in lines) == (encoding == "ascii")
