"""Pointwise chains, fused and one operator at a time, as a share of the bandwidth of copying as many bytes."""

from __future__ import annotations

from typing import Any

import pytest
from jitopt_kernels.targets import Target

import jitopt
from bench.conftest import Time
from jitopt.cli.cases import chain, measure, pointwise
from jitopt.codegen.cache import Cache
from jitopt.runtime.measure import measure_peak

MEMORY_BOUND = 16 << 20  # elements from which on operands are larger than any cache
ASKED = 0.90


@pytest.mark.parametrize("elements", [16 << 10, 1 << 20, 16 << 20])
@pytest.mark.parametrize("length", [3, 6, 12])
def test_chain(timed: Time, benchmark: Any, target: Target, length: int, elements: int) -> None:
    case = pointwise((elements,), chain(length))
    mib = elements * 4 >> 20
    copies = [_copy(target, mib)]
    found = timed(case, "pointwise chains", ASKED if elements >= MEMORY_BOUND else None)
    copies.append(_copy(target, mib))
    copy = max(copies)
    unfused_session = jitopt.compile(case.graph, num_threads=1, disable=("fusion",))
    unfused = measure(unfused_session, case)
    assert found["kernels"] == 1 and unfused.kernels == length
    benchmark.extra_info.update(
        length=length, elements=elements, unfused_seconds=unfused.seconds,
        times_faster=unfused.seconds / found["seconds"], copy_gbs=copy or None,
        copy_share=found["gbs"] / copy if copy else None,
    )  # fmt: skip


def _copy(target: Target, mib: int) -> float:
    """GB/s of copying arrays of that size; 0 for those too small to be measured so."""
    return measure_peak(target, 1, Cache.default(), mib).copy_gbs if mib else 0.0
