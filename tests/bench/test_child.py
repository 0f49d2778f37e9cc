"""Work in processes of their own: answers, errors, crashes, time limits, CPUs and environment."""

from __future__ import annotations

import os
import time

import pytest

from bench.child import ChildFailed, in_child


def _here(name: str) -> tuple[int, set[int], str | None]:
    print("this is not for the parent's standard output")
    return os.getpid(), os.sched_getaffinity(0), os.environ.get(name)


def _raise(text: str) -> None:
    raise ValueError(text)


def test_an_answer_with_cpus_and_environment(capfd: pytest.CaptureFixture[str]) -> None:
    allowed, variables = os.sched_getaffinity(0), dict(os.environ)
    one = {min(allowed)}
    pid, cpus, value = in_child(_here, "JITOPT_TEST", cpus=one, environment={"JITOPT_TEST": "yes"})
    assert pid != os.getpid() and cpus == one and value == "yes"
    assert os.sched_getaffinity(0) == allowed and dict(os.environ) == variables
    assert capfd.readouterr().out == ""


def test_errors_are_one_line() -> None:
    with pytest.raises(ChildFailed, match=r"^ValueError: first second$"):
        in_child(_raise, "first\nsecond")
    with pytest.raises(ChildFailed) as caught:
        in_child(_raise, "word " * 1000)
    assert len(str(caught.value)) <= 200


def test_crashes_and_late_children_fail_alone() -> None:
    with pytest.raises(ChildFailed, match="status 7"):
        in_child(os._exit, 7)
    with pytest.raises(ChildFailed, match=r"longer than 0.1 s"):
        in_child(time.sleep, 60.0, seconds=0.1)
