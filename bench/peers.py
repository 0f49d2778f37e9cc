"""Whole models: jitopt and whoever else is installed, on the same models, real inputs and threads in one run.

    python -m bench.peers                              the models of the README, with one thread and with all
    python -m bench.peers --models resnet50 vgg19 --threads 1,2 --json out.json --markdown out.md
    python -m bench.peers --peers onnxruntime openvino --seconds 20

Every answer is checked before anything is timed; everybody has the same turns (`jitopt.turns`), threads and CPUs. Who
is not installed, refuses a model or answers wrong is listed with the reason. "load" is with our kernels in the cache;
`--cold` also compiles with an empty one, which takes up to a minute a model.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import hashlib
import os
import platform
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench import peer_tables
from bench.adapters import CONTESTANTS, OURS, environment
from bench.child import ChildFailed, in_child
from bench.contest import Limits, contest, digest
from bench.inputs import Feeds, samples
from bench.models import NotFetched, load, manifest
from bench.outputs import add_outputs, write_outputs
from jitopt.codegen.host import cpu_allowance
from jitopt.demo.machine import machine

NAMES = (
    "resnet50", "vgg19", "alexnet", "squeezenet", "efficientnet-lite0", "open-nsfw", "inception-v1", "inception-v2",
    "densenet121", "shufflenet", "u2netp", "ocr-det", "ocr-cls", "ocr-rec", "minilm-l3", "silero-vad",
)  # fmt: skip


def measure(
    models: Sequence[str], threads: Sequence[int], chosen: Sequence[str] = tuple(CONTESTANTS),
    limits: Limits | None = None, *, cold: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """A row a model and number of threads, with what is needed to read it: machine, versions, hashes."""
    names = [OURS, *(name for name in chosen if name != OURS)]
    rows: list[dict[str, Any]] = []
    for model in models:
        rows += rows_of(model, threads, names, limits or Limits(), cold)
    return {**preamble(names), "rows": rows}


def preamble(names: Sequence[str]) -> dict[str, Any]:
    """What a reader of figures needs to know: date, machine with its measured peaks, versions of the contestants."""
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "machine": {**machine(), "python": platform.python_version(), "system": platform.platform()},
        "contestants": {name: {"version": CONTESTANTS[name].version} for name in names},
    }


def rows_of(
    model: str, threads: Sequence[int], chosen: Sequence[str], limits: Limits, cold: bool
) -> list[dict[str, Any]]:
    """The rows of one model; one with a remark where it or its input is not here."""
    try:
        path, sample = load(model), samples(model)[0]
    except NotFetched as reason:
        return [{"model": model, "threads": count, "remark": str(reason)} for count in threads]
    about = {
        "model": model, "sha256": _sha256(path), "input": sample.label.partition(":")[0],
        "input_sha256": digest(sample.feeds),
    }  # fmt: skip
    with contextlib.suppress(ChildFailed):  # the contest says why
        in_child(compile_seconds, path, sample.feeds, 1)  # fills the cache
    rows = []
    for count in threads:
        try:
            row = {**about, "threads": count, "remark": "", **contest(path, sample.feeds, count, chosen, limits)}
        except ChildFailed as error:
            row = {**about, "threads": count, "remark": f"no reference: {error}"}
        print(peer_tables.line(row), file=sys.stderr, flush=True)
        rows.append(row)
    if cold:
        rows[-1]["cold_seconds"] = cold_seconds(path, sample.feeds, threads[-1])
    return rows


def cold_seconds(model: Path, feeds: Feeds, threads: int) -> float | None:
    """Seconds that compiling takes us with no kernel in the cache; None where it fails."""
    with tempfile.TemporaryDirectory() as folder:
        variables = {**environment(threads), "JITOPT_CACHE_DIR": folder}
        try:
            return float(in_child(compile_seconds, model, feeds, threads, environment=variables))
        except ChildFailed:
            return None


def compile_seconds(model: Path, feeds: Feeds, threads: int) -> float:
    """Seconds of making a session of ours for the feeds."""
    start = time.perf_counter()
    CONTESTANTS[OURS].load(model, feeds, threads, model.parent)
    return time.perf_counter() - start


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def thread_counts(text: str) -> list[int]:
    """ "1,2" as numbers; ArgumentTypeError for what is no count or more than this process may use."""
    try:
        counts = [int(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of numbers") from None
    most = len(os.sched_getaffinity(0))
    if min(counts) < 1 or max(counts) > most:
        raise argparse.ArgumentTypeError(f"threads must be 1 to {most}")
    return counts


def default_threads() -> list[int]:
    """One, and all that the process may use."""
    return sorted({1, cpu_allowance().count})


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=(__doc__ or "").partition("\n")[0])
    runnable = [name for name, entry in manifest().items() if entry.role == "model"]
    parser.add_argument("--models", nargs="+", choices=runnable, default=list(NAMES), metavar="MODEL")
    parser.add_argument("--threads", type=thread_counts, default=default_threads(), help="for example 1,2")
    parser.add_argument("--peers", nargs="+", choices=list(CONTESTANTS), default=list(CONTESTANTS), metavar="PEER")
    parser.add_argument("--seconds", type=float, default=5.0, help="to time a model with one number of threads")
    parser.add_argument("--runs", type=int, default=300, help="timed runs of each contestant at most")
    parser.add_argument("--tries", type=int, default=1, help="of each race, until other processes leave the CPUs alone")
    parser.add_argument("--cold", action="store_true", help="also compile with an empty cache")
    add_outputs(parser)
    options = parser.parse_args()
    limits = Limits(options.seconds, options.runs, options.tries)
    found = measure(options.models, options.threads, options.peers, limits, cold=options.cold)
    write_outputs(options, found, peer_tables.report(found))


if __name__ == "__main__":
    main()
