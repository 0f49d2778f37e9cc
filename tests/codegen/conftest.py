"""Fixtures of the codegen tests."""

from __future__ import annotations

import pytest

from jitopt.codegen.cache import Cache
from jitopt.codegen.host import choose_target


@pytest.fixture
def target():
    """The best target of this machine."""
    return choose_target()


@pytest.fixture
def cache(tmp_path):
    """An empty cache in a folder of the test's own."""
    return Cache(tmp_path / "cache")
