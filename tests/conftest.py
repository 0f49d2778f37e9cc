"""What the whole suite shares: its options, and that a model or input not on this machine is a skip that says why."""

from __future__ import annotations

import os
from collections.abc import Generator

import pytest

from bench.models import NotFetched
from jitopt.runtime import launch


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="write the texts kept in tests/golden anew; read the diff then"
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--update-golden"):
        os.environ["JITOPT_UPDATE_GOLDEN"] = "1"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Turn NotFetched, wherever a test meets it, into a skip with its message as the reason."""
    try:
        return (yield)
    except NotFetched as reason:
        pytest.skip(str(reason))


@pytest.fixture(autouse=True)
def always_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who asks for a team gets it, also where its workers are late; tests/runtime/test_launch.py is about that."""
    monkeypatch.setattr(launch, "ALONE", 0.0)
