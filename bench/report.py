"""Measure, or read what was measured, and write the README's tables and picture.

    python -m bench.report                measure everything, keep it in bench/results.json, write README and picture
    python -m bench.report --only models  measure this part again and keep the others
    python -m bench.report --read         measure nothing, write from bench/results.json

Ten minutes on two cores, and as much again where no kernel is compiled yet. Run it on a machine that does nothing else:
the numbers are only as quiet as it is.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jitopt
from bench import picture, tables
from bench.contest import Limits
from bench.peers import NAMES, default_threads, measure
from bench.quiet import alone
from jitopt.demo.digits import bundle
from jitopt.demo.resnet import resnet50

ROOT = Path(__file__).resolve().parents[1]
RESULTS, README, PICTURE = ROOT / "bench" / "results.json", ROOT / "README.md", ROOT / "docs" / "resnet50.svg"
PACKAGES = ("jitopt", "numba", "llvmlite", "numpy", "onnx", "onnxruntime", "openvino", "scipy")
PEERS = ("onnxruntime", "openvino", "openvino-default")
GROUPS_SHOWN = 6


def kernels(limits: Limits) -> dict[str, Any]:
    """The kernel cases, as `pytest bench` records them."""

    def measure() -> dict[str, Any]:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "benchmarks.json"
            _run("pytest", "bench", "-q", f"--benchmark-json={file}")
            found = json.loads(file.read_text("utf-8"))["benchmarks"]
        return {"kernels": [{"group": each["group"], **each["extra_info"]} for each in found]}

    return alone(measure, limits.tries, children=True)


def models(limits: Limits) -> dict[str, Any]:
    """Whole models against ONNX Runtime and OpenVINO, with one thread and with all: `bench.peers`."""
    found = measure(NAMES, default_threads(), PEERS, limits)
    return {"models": found, "others": max(row.get("others", 0.0) for row in found["rows"])}


def demo(limits: Limits) -> dict[str, Any]:
    """What `jitopt demo --json` prints."""
    return alone(lambda: {"demo": json.loads(_run("jitopt", "demo", "--json"))}, limits.tries, children=True)


def texts(limits: Limits) -> dict[str, Any]:
    """Excerpts of the fusion report on ResNet-50 and of what `explain` says of the digits network."""
    network = resnet50()
    session = jitopt.compile(network.graph)
    session.fusion_report(network.feeds, 1)  # compiles what it compares

    def measure() -> dict[str, Any]:
        report = session.fusion_report(network.feeds)
        head, _, rest = str(report).partition("\n")
        groups, _, totals = rest.partition("\n\n")
        shown = groups.splitlines()[:GROUPS_SHOWN]
        more = f"... {len(report.groups) - len(shown)} more"
        return {"fusion_text": "\n".join([head, *shown, more, "", totals])}

    explained = str(jitopt.compile(bundle() / "digits.onnx").explain()).partition("\n\nslowest")[0]
    return {"explain_text": explained, **alone(measure, limits.tries)}


def versions() -> dict[str, str]:
    """Of the packages whose versions matter, those installed."""
    present = {each.metadata["Name"] for each in importlib.metadata.distributions()}
    return {package: importlib.metadata.version(package) for package in PACKAGES if package in present}


def _run(module: str, *words: str) -> str:
    """Standard output of `python -m module words`, run in the repository; raises CalledProcessError."""
    command = [sys.executable, "-m", module, *words]
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


PARTS: dict[str, Callable[[Limits], dict[str, Any]]] = {
    "demo": demo, "texts": texts, "kernels": kernels, "models": models,
}  # fmt: skip


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.report", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--read", action="store_true", help="measure nothing, write from bench/results.json")
    parser.add_argument("--only", choices=tuple(PARTS), action="append", help="measure this part (repeatable)")
    parser.add_argument("--tries", type=int, default=1, help="of each time, until other processes leave the CPUs alone")
    parser.add_argument("--seconds", type=float, default=4.0, help="to time a model with one number of threads")
    options = parser.parse_args()
    limits = Limits(options.seconds, tries=options.tries)
    results: dict[str, Any] = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {}
    for name in () if options.read else options.only or tuple(PARTS):
        found = PARTS[name](limits)
        results.setdefault("others", {})[name] = found.pop("others")
        results.update(found)
        results["date"] = datetime.datetime.now(datetime.UTC).date().isoformat()
        results["versions"] = versions()
        RESULTS.write_text(json.dumps(results, indent=1) + "\n", "utf-8")
    missing = {"demo", "fusion_text", "kernels", "models"} - results.keys()
    if missing:
        parser.error(f"not measured yet: {', '.join(sorted(missing))}")
    README.write_text(tables.rewrite(README.read_text("utf-8"), results), "utf-8")
    PICTURE.write_text(picture.waterfall(results), "utf-8")


if __name__ == "__main__":
    main()
