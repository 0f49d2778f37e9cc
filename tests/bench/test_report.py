"""The report's helpers: tables from results, and which of several tries counts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from bench import layers, markdown, models, peers, quiet, report, tables
from bench.adapters import CONTESTANTS


def test_the_first_undisturbed_try_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quiet, "PAUSE", 0.0)
    # Others use 1.5, 0.5, 0.05 CPUs in tries of one second each; wall, busy and own time before and after.
    readings = [(0, 0, 0), (1, 2, 0.5), (1, 2, 0), (2, 3, 0.5), (2, 3, 0), (3, 3.55, 0.5)]
    queue: Iterator[Any] = iter(readings)
    monkeypatch.setattr(quiet, "_seconds", lambda _children: next(queue))
    numbers = iter(range(10))
    found = quiet.alone(lambda: {"number": next(numbers)}, 5)
    assert found["number"] == 2 and found["others"] == pytest.approx(0.05)
    queue = iter(readings[:4])
    assert quiet.alone(lambda: {"number": next(numbers)}, 2)["number"] == 4


def test_the_clock_of_others_runs() -> None:
    wall, busy, own = quiet._seconds(True)
    again = quiet._seconds(True)
    assert again[0] > wall and again[1] >= busy and again[2] >= own


def test_tables_are_markdown() -> None:
    text = markdown.table(("a", "b"), [("x", 1), ("y", 22)])
    assert text.splitlines() == ["| a | b |", "| --- | ---: |", "| x | 1 |", "| y | 22 |"]


def test_rewriting_keeps_what_stands_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(tables.TABLES, "one", lambda results: str(results["value"]))
    text = "before <!-- bench:one -->\nold\n<!-- end --> after"
    new = tables.rewrite(text, {"value": 7})
    assert new == "before <!-- bench:one -->\n7\n<!-- end --> after"
    assert tables.rewrite(new, {"value": 7}) == new
    for broken in ("<!-- bench:one -->", "<!-- bench:two -->\n<!-- end -->", "<!-- bench:one"):
        with pytest.raises(ValueError, match="marker"):
            tables.rewrite(broken, {"value": 7})


def test_versions_are_of_what_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "PACKAGES", ("numpy", "no-such-package"))
    assert report.versions() == {"numpy": np.__version__}


def test_the_models_of_the_table_are_in_the_manifest() -> None:
    for name in (*peers.NAMES, *layers.NAMES):
        assert models.entry(name).role == "model"
    assert all(name in CONTESTANTS for name in report.PEERS)
