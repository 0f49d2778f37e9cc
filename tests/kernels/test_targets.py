"""The target table: what it says, what it picks, and that reading it loads no compiler."""

from __future__ import annotations

import subprocess
import sys

import pytest
from jitopt_kernels.targets import TARGETS, select_target

FEATURES = {name: target.required for name, target in TARGETS.items()}


def test_lanes_follow_from_the_vector_width() -> None:
    assert {name: target.lanes for name, target in TARGETS.items()} == {
        "avx512": 16,
        "avx2": 8,
        "x86-64-v2": 4,
        "neon": 4,
    }


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_tiles_fit_the_registers(target: object) -> None:
    for heights, panel in ((target.gemm_heights, target.gemm_panel), (target.conv_heights, target.conv_panel)):
        assert heights[-1] == 1 and list(heights) == sorted(heights, reverse=True) and len(heights) <= 5
        assert heights[0] * panel + panel + 1 <= target.registers


@pytest.mark.parametrize("name", TARGETS)
def test_the_best_covered_target_is_chosen(name: str) -> None:
    assert select_target(None, "some cpu", FEATURES[name]).name == name


def test_a_feature_map_counts_enabled_features_only() -> None:
    features = dict.fromkeys(FEATURES["avx512"], False) | dict.fromkeys(FEATURES["avx2"], True)
    assert select_target(None, "some cpu", features).name == "avx2"


def test_a_forced_target_switches_wider_vectors_off() -> None:
    forced = select_target("avx2", "znver4", FEATURES["avx512"])
    assert "-avx512f" in forced.features.split(",") and forced.cpu == "x86-64-v3"
    assert not any(part.startswith("+avx512") for part in forced.features.split(","))


def test_what_the_host_cannot_run_is_refused() -> None:
    with pytest.raises(ValueError, match=r"'old'.*'avx512'.*lacks avx512bw"):
        select_target("avx512", "old", FEATURES["avx2"])
    with pytest.raises(ValueError, match=r"unknown target 'sse9'.*avx512, avx2"):
        select_target("sse9", "old", FEATURES["avx2"])
    with pytest.raises(ValueError, match="runs none of the targets"):
        select_target(None, "i386", ["sse"])


def test_reading_the_table_imports_no_compiler() -> None:
    code = "import sys, jitopt_kernels.targets; sys.exit(bool({'numba', 'llvmlite', 'numpy'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
