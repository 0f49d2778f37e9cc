"""The CPU allowance read from made-up /proc and /sys trees, and the choice of a target."""

from __future__ import annotations

import os

import pytest

from jitopt.codegen import host
from jitopt.errors import CompileError


@pytest.fixture(autouse=True)
def sixteen_cpus(monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 16)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)


def tree(root, cgroup, files):
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(cgroup)
    for name, text in files.items():
        path = root / "sys/fs/cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_affinity_alone(tmp_path):
    allowance = host.cpu_allowance(tmp_path)
    assert (allowance.count, allowance.reason) == (8, "affinity mask allows 8 of 16 CPUs")


def test_quota_of_a_parent_group_v2(tmp_path):
    files = {"a/cpu.max": "250000 100000\n", "a/b/cpu.max": "max 100000\n"}
    allowance = host.cpu_allowance(tree(tmp_path, "0::/a/b\n", files))
    assert (allowance.count, allowance.reason) == (2, "cgroup quota of 2.5 CPUs")


def test_quota_in_a_container_that_sees_its_group_as_root_v1(tmp_path):
    files = {"cpu,cpuacct/cpu.cfs_quota_us": "50000", "cpu,cpuacct/cpu.cfs_period_us": "100000"}
    root = tree(tmp_path, "4:cpu,cpuacct:/docker/0123\n2:memory:/x\n", files)
    assert host.cpu_allowance(root) == host.Allowance(1, "cgroup quota of 0.5 CPUs")


def test_no_quota_or_a_wide_one(tmp_path):
    assert host.cgroup_quota(tree(tmp_path, "0::/a\n", {"a/cpu.max": "max 100000"})) is None
    wide = {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000", "cpu.max": "1000000 100000"}
    assert host.cpu_allowance(tree(tmp_path / "w", "1:cpu:/\n0::/\n", wide)).count == 8


def test_a_target_that_cannot_run_here_is_an_error():
    with pytest.raises(CompileError, match="unknown target 'sse9'"):
        host.choose_target("sse9")
    with pytest.raises(CompileError, match="neon"):
        host.choose_target("neon")
    assert host.runs_here(host.choose_target("x86-64-v2"))
