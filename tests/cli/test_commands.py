"""Every command on the bundled model: what it prints, as text and as JSON."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import jitopt
from jitopt import peer
from jitopt.cli import bench, verify
from jitopt.ir.text import blobs
from jitopt.ir.text_parser import parse_graph

from .conftest import Command


def test_run_reads_and_writes_arrays(command: Command, tmp_path: Path, digits: Path) -> None:
    image = np.random.default_rng(0).random((3, 1, 8, 8), np.float32)
    np.save(tmp_path / "image.npy", image)
    words = ("run", digits, "--input", f"image={tmp_path}/image.npy", "--output-dir", tmp_path / "out", "--json")
    outcome = command(*words)
    assert outcome.status == 0 and not outcome.err
    (output,) = outcome.json["outputs"]
    assert output["name"] == "probability" and output["shape"] == [3, 10] and output["dtype"] == "float32"
    written = np.load(tmp_path / "out" / "probability.npy")
    np.testing.assert_array_equal(written, jitopt.compile(digits).run(None, {"image": image})[0])
    assert output["max"] == pytest.approx(written.max())


def test_run_makes_up_what_is_not_given(command: Command, digits: Path) -> None:
    outcome = command("run", digits, "--shape", "image=5,1,8,8", "--no-optimize", "--threads", 1)
    assert outcome.status == 0 and "image" in outcome.err
    assert "probability" in outcome.out and "5x10" in outcome.out
    again = command("run", digits, "--shape", "image=5,1,8,8", "--seed", 1, "--json")
    assert again.json["made_up_inputs"] == ["image"]


def test_verify_knows_right_from_wrong(
    command: Command, digits: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    right = command("verify", digits, "--sets", 2, "--json")
    assert right.status == 0 and right.json["ok"] and [o["set"] for o in right.json["outputs"]] == [1, 2]
    honest = verify.reference_answers

    def crooked(model: str, feeds: dict[str, np.ndarray]) -> tuple[str, list[np.ndarray]]:
        who, answers = honest(model, feeds)
        return who, [answers[0] + 1e-3]

    monkeypatch.setattr(verify, "reference_answers", crooked)
    wrong = command("verify", digits, "--sets", 1)
    assert wrong.status == 1 and "WRONG" in wrong.out
    monkeypatch.setattr(verify, "reference_answers", lambda *_: ("nobody", [np.full((1, 10), np.nan, np.float32)]))
    lost = command("verify", digits, "--sets", 1, "--json")
    assert lost.status == 1 and not lost.json["ok"] and lost.json["outputs"][0]["max_error"] is None


def test_verify_without_onnxruntime(command: Command, digits: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer, "runtime_installed", lambda: False)
    found = command("verify", digits, "--sets", 1, "--json")
    assert found.status == 0 and found.json["reference"] == "NumPy interpreter"
    monkeypatch.setattr(bench, "runtime_installed", lambda: False)
    alone = command("bench", digits, "--runs", 1)
    assert alone.status == 0 and "not installed" in alone.out


def test_optimize_writes_a_model_that_runs(command: Command, tmp_path: Path, digits: Path) -> None:
    target = tmp_path / "optimized.onnx"
    outcome = command("optimize", digits, target, "--json", "--trace")
    assert outcome.status == 0
    counts = outcome.json["operators"]
    assert counts["before"]["BatchNormalization"] == 4 and "BatchNormalization" not in counts["after"]
    assert outcome.json["passes"]["fold-batchnorm"] == 4
    assert command("verify", target, "--sets", 1).status == 0
    assert "24 operators became 16" in command("optimize", digits, target).out


def test_inspect_prints_every_level(command: Command, digits: Path) -> None:
    for level in ("graph", "groups", "program", "plan"):
        outcome = command("inspect", digits, "--level", level)
        assert outcome.status == 0 and "node_conv_3" in outcome.out, level
    assert "BatchNormalization" not in command("inspect", digits).out
    before = command("inspect", digits, "--after", "read").out
    assert before.count("BatchNormalization") == 4
    assert len(parse_graph(before, blobs(jitopt.load_graph(digits)))) == 24
    after = command("inspect", digits, "--after", "recognise-gelu").out
    assert "Gelu" in after and after.count("BatchNormalization") == 4
    command("inspect", digits, "--after", "inline-if").failed_plainly(2, "changes nothing")
    command("inspect", digits, "--after", "nonsense").failed_plainly(2, "nonsense")
    command("inspect", digits, "--after", "read", "--level", "plan").failed_plainly(2, "--after")


def test_bench_compares_and_accounts_for_fusion(command: Command, digits: Path) -> None:
    outcome = command("bench", digits, "--fusion", "--runs", 2, "--json")
    found = outcome.json
    assert outcome.status == 0 and found["seconds"]["jitopt"] > 0
    members = [name for group in found["fusion"]["groups"] for name in group["members"]]
    assert len(members) == len(set(members)) and {"node_conv_0", "node_relu_0"} <= set(members)
    text = command("bench", digits, "--fusion", "--runs", 2, "--no-peer", "--threads", 1).out
    assert "Conv + Relu" in text and "without epilogues" in text and "compiling cost" in text
    assert "ONNX Runtime" not in text


def test_profile_lists_the_steps(command: Command, digits: Path) -> None:
    found = command("profile", digits, "--runs", 2, "--json").json
    assert {"Conv+Relu", "Softmax"} <= {step["label"] for step in found["steps"]}
    text = command("profile", digits, "--runs", 2, "--top", 1).out
    assert "ms a run" in text and text.count("conv") <= 2


@pytest.mark.parametrize(
    ("words", "flops"),
    [
        (("conv", "--shape", "1,8,6,6", "--filters", 16, "--op", "Relu"), 2 * 8 * 9 * 16 * 36),
        (("gemm", "--shape", "6x16x24"), 2 * 6 * 16 * 24),
        (("pointwise", "--shape", "1000", "--op", "Relu", "--op", "Mul"), 2000),
        (("reduce", "--shape", "4,100", "--op", "ReduceMean"), 400),
    ],
)
def test_bench_kernel(command: Command, words: tuple[object, ...], flops: int) -> None:
    found = command("bench-kernel", *words, "--runs", 2, "--json").json
    assert found["kernels"] == 1 and found["threads"] == 1
    assert found["gflops"] == pytest.approx(flops / found["seconds"] / 1e9)
    assert found["peak_share"] == pytest.approx(found["gflops"] / found["peak_gflops"])
    assert found["copy_share"] > 0


def test_info_says_what_a_report_needs(command: Command) -> None:
    found = command("info", "--json").json
    keys = {"jitopt", "python", "numba", "llvmlite", "numpy", "onnx", "cpu", "features", "target", "threads", "cache"}
    assert keys <= found.keys()
    text = command("info").out
    assert jitopt.__version__ in text and found["threads"] in text


def test_cache_is_shown_and_emptied(
    command: Command, digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    monkeypatch.setenv("JITOPT_CACHE_DIR", str(tmp_path))
    assert "empty" in command("cache", "info").out
    assert command("bench-kernel", "pointwise", "--shape", "8", "--op", "Relu", "--runs", 1).status == 0
    found = command("cache", "info", "--json").json
    assert found["entries"]["kernels"] >= 3 and found["bytes"] > 0 and str(tmp_path) in found["folder"]
    assert command("cache", "clear", "--json").json["removed_bytes"] == found["bytes"]
    assert command("cache", "info", "--json").json["entries"] == {}
