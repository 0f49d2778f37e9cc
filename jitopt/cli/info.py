"""`jitopt info`: everything a bug report should say about this machine and installation."""

from __future__ import annotations

import argparse
import importlib.metadata
import platform
from typing import Any

import jitopt
from jitopt.cli.common import add_json_option, print_json, stdout
from jitopt.codegen.cache import Cache
from jitopt.codegen.host import choose_target, cpu_allowance, host_cpu, host_features, memory_limit
from jitopt.demo.machine import cpu_model
from jitopt.runtime.platform import this_platform

PACKAGES = ("numba", "llvmlite", "numpy", "onnx", "onnxruntime")


def configure(parser: argparse.ArgumentParser) -> None:
    add_json_option(parser)


def run(options: argparse.Namespace) -> int:
    found = collect()
    if options.json:
        print_json(found)
        return 0
    out = stdout()
    width = max(map(len, found))
    for key, value in found.items():
        out.print(f"{key.replace('_', ' '):{width}}  {_text(value)}", soft_wrap=True)
    return 0


def collect() -> dict[str, Any]:
    """Versions, CPU, target, threads and what limits them, memory, cache."""
    target, allowance, cache = choose_target(), cpu_allowance(), Cache.default()
    limit = memory_limit()
    return {
        "jitopt": jitopt.__version__,
        "python": platform.python_version(),
        **{name: _version(name) for name in PACKAGES},
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cpu": f"{cpu_model()} ({host_cpu()})",
        "features": sorted(host_features()),
        "target": f"{target.name}: {target.lanes} float32 lanes, {target.registers} registers",
        "threads": f"{allowance.count} ({allowance.reason})",
        "sleeping_threads": "yes" if this_platform().can_sleep else "no: runs use one thread",
        "memory": "unknown" if limit is None else f"{limit / 2**30:.1f} GiB may be used",
        "cache": f"{cache.folder} ({cache.size_bytes() / 1e6:.1f} MB{'' if cache.writable else ', not writable'})",
    }


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _text(value: object) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)
