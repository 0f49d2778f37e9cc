"""When a launch does without the team: after a run that was spent waiting for it, for a while, and then tries again."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from jitopt.runtime import launch
from jitopt.runtime.driver_ir import TOOK, WAITED
from jitopt.runtime.launch import LATE, Launch
from jitopt.runtime.steps import BARRIER


def late(run: Launch) -> None:
    """As many runs in a row as it takes were spent waiting."""
    for _ in range(LATE):
        run._judge(waited=60, took=100)


@pytest.fixture
def counted(kernels: Any, table: Any, monkeypatch: pytest.MonkeyPatch) -> tuple[Launch, Any]:
    """A launch of two threads over a step that counts its shares, and the counts."""
    monkeypatch.setattr(launch, "ALONE", 10.0)
    shares = np.zeros((8, 2), np.int64)
    table.add(kernels["count_shares"], shares, flags=BARRIER)
    return Launch(table.words(), 2), shares


def test_it_waits_less_than_it_takes(counted: tuple[Launch, Any]) -> None:
    run, _ = counted
    run()
    waited, took = (int(run.block[word]) for word in (WAITED, TOOK))
    assert 0 <= waited <= took
    assert took > 0


def test_who_only_waits_runs_alone(counted: tuple[Launch, Any]) -> None:
    run, shares = counted
    late(run)
    run()
    assert shares[:2].tolist() == [[1, 1], [0, 0]]


def test_one_late_run_changes_nothing(counted: tuple[Launch, Any]) -> None:
    run, _ = counted
    for _ in range(3):
        for _ in range(LATE - 1):
            run._judge(waited=60, took=100)
        run._judge(waited=10, took=100)
    assert run._alone == 0


def test_who_runs_alone_tries_again(counted: tuple[Launch, Any]) -> None:
    run, shares = counted
    late(run)
    run._again = time.perf_counter()
    run()
    assert shares[:2].tolist() == [[1, 2], [1, 2]]


def test_the_while_doubles_until_the_team_is_worth_it(counted: tuple[Launch, Any], monkeypatch: Any) -> None:
    run, _ = counted
    monkeypatch.setattr(launch, "ALONE", 0.02)
    pauses = []
    for _ in range(9):
        late(run)
        pauses.append(run._alone)
    assert pauses[:3] == [0.02, 0.04, 0.08]
    assert pauses[-1] == launch.ALONE_AT_MOST
    run._judge(waited=50, took=100)
    assert run._alone == 0
