"""Tables of peers: losses stay, absent and wrong answers are told, means are geometric."""

from __future__ import annotations

import argparse
import copy
from typing import Any

import pytest

from bench import peer_tables
from bench.peers import default_threads, thread_counts


def _result(p50: float, **more: Any) -> dict[str, Any]:
    return {
        "remark": "", "load_seconds": 1.5, "memory_bytes": 3 << 20, "max_error": 2e-6, "about": {}, "p50": p50,
        "p99": 2 * p50, "runs": 9, **more,
    }  # fmt: skip


ABOUT = {"operators": 10, "kernels": 4, "reorders": 1}
ROW = {
    "model": "one", "input": "cat.png", "threads": 1, "remark": "", "others": 0.0, "best": "onnxruntime", "ratio": 2.0,
    "results": {
        "jitopt": _result(0.001, about=ABOUT), "onnxruntime": _result(0.002), "openvino-default": _result(0.0005),
        "ncnn": {"remark": "differs: output 0"}, "tvm": {"remark": "not installed: tvm"},
    },
}  # fmt: skip
LOSS = {**copy.deepcopy(ROW), "model": "two", "ratio": 0.5, "cold_seconds": 40.0}
GONE = {"model": "three", "threads": 1, "remark": "three is not fetched"}
FOUND = {
    "date": "2026-01-02",
    "machine": {
        "cpu": "a CPU", "threads_reason": "2 CPUs", "target": "avx2", "python": "3.11.1",
        "peaks": [{"threads": 1, "fma_gflops": 100.0, "copy_gbs": 20.0}],
    },
    "contestants": {"jitopt": {"version": "0.1"}, "onnxruntime": {"version": "1.2"}, "tvm": {"version": None}},
    "rows": [ROW, LOSS, GONE],
}  # fmt: skip


def test_times() -> None:
    lines = peer_tables.times(FOUND, 1).splitlines()
    assert lines[0] == (
        "| model | input | operators: kernels + reorders | jitopt ms | ONNX Runtime ms | OpenVINO default ms | "
        "best other / jitopt |"
    )
    assert lines[2] == "| one | cat.png | 10: 4 + 1 | 1.00 | 2.00 | 0.50 | 2.00 |"
    assert lines[3].endswith("| **0.50** |")
    assert lines[4] == "| geometric mean |  |  |  |  |  | **1.00** |"


def test_whoever_ran_somewhere_has_a_column() -> None:
    other = {**copy.deepcopy(ROW), "model": "other"}
    other["results"]["ncnn"] = _result(0.004)
    lines = peer_tables.times({**FOUND, "rows": [ROW, other]}, 1).splitlines()
    assert "ncnn ms" in lines[0] and "| differs |" in lines[2] and "| 4.00 |" in lines[3] and "TVM" not in lines[0]


def test_costs() -> None:
    lines = peer_tables.costs(FOUND, 1).splitlines()
    assert len(lines) == 2 + 6
    assert lines[2] == "| one | jitopt | 1.00 | 2.00 | 9 | 1.50 |  | 3 | 2.0e-06 |"
    assert "| 1.50 | 40.0 | 3 |" in lines[5] and "40.0" not in lines[6]


def test_remarks() -> None:
    assert peer_tables.remarks(FOUND).splitlines() == [
        "- ncnn, one (1), two (1): differs: output 0",
        "- TVM: not installed: tvm",
        "- three, 1: three is not fetched",
    ]


def test_the_report_says_where_and_how_disturbed() -> None:
    text = peer_tables.report(FOUND)
    for words in (
        "a CPU",
        "2 CPUs",
        "100 GFLOP/s",
        "onnxruntime 1.2",
        "No other process",
        "## 1 thread",
        "three is not",
    ):
        assert words in text
    assert "apache-tvm" not in text
    disturbed = {**FOUND, "rows": [{**ROW, "others": 0.7}]}
    assert "up to 0.7 CPUs" in peer_tables.heading(disturbed)


def test_lines_for_who_waits() -> None:
    assert peer_tables.line(ROW).startswith("one, 1 thread: jitopt 1.00, onnxruntime 2.00")
    assert peer_tables.line(GONE).endswith("three is not fetched")


def test_thread_counts() -> None:
    assert thread_counts("1") == [1] and default_threads()[0] == 1
    for wrong in ("", "a", "0", "1,100000"):
        with pytest.raises(argparse.ArgumentTypeError):
            thread_counts(wrong)
