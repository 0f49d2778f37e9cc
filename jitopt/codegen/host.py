"""What this machine is and how much of it the process may use: CPU name, features, target, number of CPUs."""

from __future__ import annotations

import functools
import os
import platform
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import llvmlite.binding as llvm
from jitopt_kernels.targets import Target, select_target

from jitopt.errors import CompileError


@functools.cache
def host_cpu() -> str:
    """LLVM's name of the CPU, such as "znver3"."""
    name: str = llvm.get_host_cpu_name()
    return name


@functools.cache
def host_features() -> frozenset[str]:
    """Names of the features this CPU has and the operating system lets programs use."""
    return frozenset(name for name, enabled in llvm.get_host_cpu_features().items() if enabled)


@functools.cache
def choose_target(name: str | None = None) -> Target:
    """The target called `name`, or the best this CPU runs; raises CompileError for one it does not have."""
    try:
        target = select_target(name, host_cpu(), host_features())
    except ValueError as error:
        raise CompileError(str(error), remedy="leave target=None for the best this CPU runs") from error
    if not runs_here(target):
        raise CompileError(f"target {target.name!r} is for {target.arch}, this is {host_arch()}")
    return target


def runs_here(target: Target) -> bool:
    """Whether this machine can execute the target's code."""
    return bool(target.arch == host_arch() and target.runs_on(host_features()))


def host_arch() -> str:
    """The architecture as the target table names it: "x86_64" or "aarch64"."""
    machine = platform.machine().lower()
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(machine, machine)


@dataclass(frozen=True)
class Allowance:
    """How many CPUs the process may use, and what limits them, as text for `jitopt info`."""

    count: int
    reason: str


def cpu_allowance(root: Path = Path("/")) -> Allowance:
    """CPUs of the affinity mask, cut down to the whole CPUs of the tightest cgroup quota (v1 or v2), at least 1.

    A fraction is dropped: a thread over the quota would stall every barrier for the rest of a period. `root` is
    where /proc and /sys are found (another folder in tests).
    """
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    total = os.cpu_count() or count
    reason = f"{total} CPUs" if count == total else f"affinity mask allows {count} of {total} CPUs"
    quota = cgroup_quota(root)
    if quota is not None and quota < count:
        count, reason = max(1, int(quota)), f"cgroup quota of {quota:g} CPUs"
    return Allowance(count, reason)


def cgroup_quota(root: Path = Path("/")) -> float | None:
    """The smallest CPU quota of this process's control groups, in CPUs; None without one."""
    quotas: list[float] = []
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if not controllers:
            quotas += _walk(root / "sys/fs/cgroup", path, _quota_v2)
        elif "cpu" in controllers.split(","):
            for mount in ("cpu", "cpu,cpuacct", "cpuacct,cpu"):
                quotas += _walk(root / "sys/fs/cgroup" / mount, path, _quota_v1)
    return min(quotas, default=None)


def memory_limit(root: Path = Path("/")) -> int | None:
    """Bytes the process may use: the smaller of physical memory and its control groups' limits; None if unknown."""
    sizes: list[float] = []
    for line in _text(root / "proc/meminfo").splitlines():
        if line.startswith("MemTotal:"):
            sizes.append(int(line.split()[1]) * 1024)
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if not controllers:
            sizes += _walk(root / "sys/fs/cgroup", path, lambda group: _bytes(group / "memory.max"))
        elif "memory" in controllers.split(","):
            sizes += _walk(root / "sys/fs/cgroup/memory", path, lambda group: _bytes(group / "memory.limit_in_bytes"))
    return int(min(sizes)) if sizes else None


def _bytes(path: Path) -> float | None:
    text = _text(path).strip()
    return float(text) if text.isdigit() else None


def _walk(mount: Path, path: str, read: Callable[[Path], float | None]) -> list[float]:
    """Quotas of a group and its parents; a container often sees its own group as the mount's root."""
    group = Path(path.lstrip("/"))
    found = (read(mount / part) for part in (group, *group.parents))
    return [quota for quota in found if quota is not None]


def _quota_v2(group: Path) -> float | None:
    fields = _text(group / "cpu.max").split()
    return int(fields[0]) / int(fields[1]) if len(fields) == 2 and fields[0] != "max" else None


def _quota_v1(group: Path) -> float | None:
    quota, period = _text(group / "cpu.cfs_quota_us").strip(), _text(group / "cpu.cfs_period_us").strip()
    return int(quota) / int(period) if quota and period and int(quota) > 0 else None


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
