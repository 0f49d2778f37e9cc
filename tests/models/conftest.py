"""What the tests on real models share: a model or input that is not on this machine is a skip that says why."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from bench.models import NotFetched


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Turn NotFetched, wherever a test meets it, into a skip with its message as the reason."""
    try:
        return (yield)
    except NotFetched as reason:
        pytest.skip(str(reason))
