"""The watchdog notices signals, hangs, failures and exits, names the case, and goes on behind it."""

from __future__ import annotations

from tests.children import failures_of


def test_every_kind_of_failure_is_noticed() -> None:
    found = [text.splitlines()[0] for text in failures_of("tests.mutations.faulty", range(7), seconds=3.0)]
    assert found == [
        "tests.mutations.faulty 1: signal SIGSEGV",
        "tests.mutations.faulty 2: took more than 3 s",
        "tests.mutations.faulty 3 it is wrong",
        "tests.mutations.faulty 5: exit status 3",
    ]


def test_no_failure_is_no_text() -> None:
    assert failures_of("tests.mutations.faulty", range(6, 9), seconds=3.0) == []
