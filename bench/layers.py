"""Single convolutions, all that the models have: kernels as a share of peak, runs beside other libraries'.

    python -m bench.layers                                  convolutions of the usual models, one thread
    python -m bench.layers --models resnet50 vgg19 --threads 1,2 --json out.json --markdown out.md
    python -m bench.layers --peers onnxruntime openvino

Warm: the same layer again and again. Cold: copies of the layer with weights of their own in turn, so many that weights
and outputs together exceed the last cache: what a layer meets inside a network. The input is the same in both, so it
stays in a cache. A layer so small that it would take more than `MOST` copies has no cold figures.

`kernel` is the kernel on the driver's clock, without reorders at the borders and the call from Python. `run` is a whole
call, as others can be timed, with conversion to and from a layout of one's own where a library has one.
"""

from __future__ import annotations

import argparse
import itertools
import math
import os
import statistics
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jitopt
from bench import layer_tables
from bench.adapters import CONTESTANTS, OURS, environment, installed
from bench.child import REASON, ChildFailed, in_child
from bench.contest import ratio
from bench.inputs import Feeds
from bench.layer_shapes import Layer, layers_of
from bench.models import NotFetched, manifest
from bench.outputs import add_outputs, write_outputs
from bench.peers import preamble, thread_counts
from bench.quiet import alone
from jitopt.cli.cases import Array, kernel_seconds
from jitopt.errors import JitoptError
from jitopt.peer import model_bytes, reference_answers
from jitopt.turns import samples, settle
from jitopt.verify import compare_all

NAMES = ("resnet50", "vgg19", "efficientnet-lite0", "densenet121", "ocr-det", "ocr-rec", "ocr-cls")
CACHES = 1.5  # sizes of the last cache that the copies fill
MOST = 128
"""Copies at most: making more takes longer than timing them."""
KERNEL_RUNS, RUNS = 20, 30
Run = Callable[[], Sequence[Array]]


def measure(models: Sequence[str], threads: Sequence[int], chosen: Sequence[str], seconds: float) -> dict[str, Any]:
    """A row a distinct layer and number of threads, `models` says how often it is where."""
    where: dict[Layer, dict[str, int]] = {}
    missing: dict[str, str] = {}
    for model in models:
        try:
            for layer, count in layers_of(model).items():
                where.setdefault(layer, {})[model] = count
        except NotFetched as reason:
            missing[model] = str(reason)
    names = [OURS, *(name for name in installed(list(chosen)) if name != OURS)]
    rows: list[dict[str, Any]] = []
    for count in threads:
        cpus = sorted(os.sched_getaffinity(0))[:count]
        for layer, found_in in where.items():
            about = {"layer": layer.name, "models": found_in, "threads": count, "flops": layer.flops}
            work = partial(in_child, one_layer, layer, count, names, seconds, cpus=cpus, environment=environment(count))
            try:
                found = alone(work, 1, children=True)
            except ChildFailed as error:
                found = {"remark": str(error)}
            rows.append({**about, **found})
            print(layer_tables.line(rows[-1]), file=sys.stderr, flush=True)
    return {**preamble(names), "missing": missing, "rows": rows}


def one_layer(layer: Layer, threads: int, chosen: Sequence[str], seconds: float) -> dict[str, Any]:
    """Everything about one layer: median seconds of kernel and runs, warm and, where copies suffice, cold.

    Answers are checked first. `absent` says who of the others does not load the layer or answers wrong; if we do, that
    is the `remark`, and nobody is timed.
    """
    copies, feeds = copies_needed(layer.bytes_touched, last_cache()), layer.feeds()
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / f"{number}.onnx" for number in range(max(copies, 1))]
        for number, file in enumerate(files):
            file.write_bytes(model_bytes(layer.graph(number)))
        _, expected = reference_answers(files[0], feeds)
        # The first answer is checked below; the check of every compile would run NumPy once a copy.
        sessions = [jitopt.compile(file, num_threads=threads, feeds=feeds, verify=False) for file in files]
        comparison = compare_all(sessions[0].run(None, feeds), expected)
        if not comparison:
            return {"remark": f"differs: {comparison.reason}"}
        runs: dict[str, list[Run]] = {OURS: [partial(session.run, None, feeds) for session in sessions]}
        absent: dict[str, str] = {}
        for name in chosen:
            if name != OURS:
                try:
                    runs[name] = checked(name, files, feeds, threads, expected)
                except Exception as error:  # whatever a library raises
                    absent[name] = textwrap.shorten(f"{type(error).__name__}: {error}", REASON)
        return {"remark": "", "absent": absent, "copies": copies, **times(runs, sessions, feeds, seconds)}


def checked(name: str, files: Sequence[Path], feeds: Feeds, threads: int, expected: Sequence[Array]) -> list[Run]:
    """A contestant's runs of the files. Raises JitoptError where the first answers wrong, and what loading raises."""
    runs: list[Run] = []
    for file in files:
        folder = file.with_name(f"{file.stem}-{name}")
        folder.mkdir()
        runs.append(CONTESTANTS[name].load(file, feeds, threads, folder).run)
    comparison = compare_all(runs[0](), expected)
    if not comparison:
        raise JitoptError(f"differs: {comparison.reason}")
    return runs


def times(
    runs: dict[str, list[Run]], sessions: Sequence[jitopt.Session], feeds: Feeds, seconds: float
) -> dict[str, Any]:  # fmt: skip
    """ "warm": the first run of each again and again; "cold": all of them in turn, where there are several."""
    calls: dict[str, Callable[[], object]] = {f"{name}/warm": each[0] for name, each in runs.items()}
    if len(sessions) > 1:
        calls |= {f"{name}/cold": in_turn(each) for name, each in runs.items()}
    timed = samples(calls, runs=RUNS, seconds=seconds)
    found = {}
    for state, among in (("warm", sessions[:1]), ("cold", sessions)):
        if f"{OURS}/{state}" in timed:
            medians = {name: statistics.median(timed[f"{name}/{state}"]) for name in runs}
            rated = ratio({name: {"p50": median} for name, median in medians.items()})
            found[state] = {"kernel": kernel_median(among, feeds), "runs": medians, **rated}
    return found


def kernel_median(sessions: Sequence[jitopt.Session], feeds: Feeds) -> float:
    """Median seconds of the layer's kernel, over runs of the sessions in turn after a round that does not count."""
    settle()
    out: list[Array] = sessions[0].run(None, feeds)
    for session in sessions:
        session.run(None, feeds, out=out)
    count = max(KERNEL_RUNS, len(sessions))
    return statistics.median(
        sum(kernel_seconds(session, feeds, out)) for session in itertools.islice(itertools.cycle(sessions), count)
    )


def in_turn(runs: Iterable[Callable[[], object]]) -> Callable[[], object]:
    """A call that runs the next of several each time; each was run once before."""
    listed = list(runs)
    for run in listed:
        run()
    following = itertools.cycle(listed)
    return lambda: next(following)()


def copies_needed(touched: int, cache: int) -> int:
    """Copies of a layer that touches so many bytes for all together to exceed the cache; 0 where it is over `MOST`."""
    count = max(2, math.ceil(CACHES * cache / touched))
    return count if count <= MOST else 0


def last_cache(root: Path = Path("/sys/devices/system/cpu/cpu0/cache")) -> int:
    """Bytes of the largest cache the first CPU sees; 32 MiB where the system does not tell."""
    sizes = [file.read_text().strip() for file in root.glob("index*/size")]
    return max((int(size[:-1]) << {"K": 10, "M": 20}[size[-1]] for size in sizes), default=32 << 20)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.layers", description=(__doc__ or "").partition("\n")[0])
    runnable = [name for name, entry in manifest().items() if entry.role == "model"]
    parser.add_argument("--models", nargs="+", choices=runnable, default=list(NAMES), metavar="MODEL")
    parser.add_argument("--threads", type=thread_counts, default=[1], help="for example 1,2")
    parser.add_argument("--peers", nargs="+", choices=list(CONTESTANTS), default=["onnxruntime"], metavar="PEER")
    parser.add_argument("--seconds", type=float, default=1.0, help="to time the runs of a layer")
    add_outputs(parser)
    options = parser.parse_args()
    found = measure(options.models, options.threads, options.peers, options.seconds)
    write_outputs(options, found, layer_tables.report(found))


if __name__ == "__main__":
    main()
