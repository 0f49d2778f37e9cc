"""Tiles, whole convolutions and matrix products as a share of the machine's measured FMA peak, on one thread."""

from __future__ import annotations

from typing import Any

import pytest
from jitopt_kernels.targets import Target

from bench.conftest import Time
from bench.kernels import Asked, minilm, resnet50, small
from bench.tiles import BLOCKS, Block, Tile
from jitopt.codegen.cache import Cache
from jitopt.codegen.host import choose_target
from jitopt.runtime.measure import MachinePeak

CASES = [*small(choose_target()), *resnet50(), *minilm()]


@pytest.mark.parametrize("asked", CASES, ids=lambda asked: f"{asked.group}: {asked.case.name}")
def test_share_of_peak(timed: Time, asked: Asked) -> None:
    found = timed(asked.case, asked.group, asked.share, disable=asked.disable)
    assert found["kernels"] == 1


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.name)
def test_tile(benchmark: Any, target: Target, peak: MachinePeak, block: Block) -> None:
    tile = Tile(block, target, Cache.default())
    gflops = max(tile.gflops() for _ in range(5))
    benchmark.group = "register tiles"
    benchmark.extra_info.update(
        case=block.name, gflops=gflops, peak_gflops=peak.gflops, peak_share=gflops / peak.gflops, asked=block.share
    )
    benchmark.pedantic(tile.gflops, rounds=1)
    tile.close()
    assert 0 < gflops < 1.1 * peak.gflops
