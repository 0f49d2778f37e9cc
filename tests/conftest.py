"""What the whole suite shares: its options, and that a model or input not on this machine is a skip that says why."""

from __future__ import annotations

import os
from collections.abc import Generator

import pytest

from bench.models import NotFetched


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
