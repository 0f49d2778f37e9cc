"""Tiles, whole convolutions and matrix products as a share of the machine's measured FMA peak, on one thread."""

from __future__ import annotations

import pytest

from bench.conftest import Time
from bench.kernels import Asked, blocks, minilm, resnet50
from jitopt.codegen.host import choose_target

CASES = [*blocks(choose_target()), *resnet50(), *minilm()]


@pytest.mark.parametrize("asked", CASES, ids=lambda asked: asked.case.name)
def test_share_of_peak(timed: Time, asked: Asked) -> None:
    found = timed(asked.case, asked.group, asked.share)
    assert found["kernels"] == 1
