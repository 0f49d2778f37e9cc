"""Whole models: median time of a run, jitopt and ONNX Runtime turn about on the same real input and threads."""

from __future__ import annotations

from typing import Any

import jitopt
from bench.inputs import samples
from bench.models import NotFetched, load
from bench.quiet import alone
from jitopt.codegen.host import cpu_allowance
from jitopt.errors import JitoptError
from jitopt.peer import runtime_session
from jitopt.turns import interleaved
from jitopt.verify import compare_all

NAMES = (
    "resnet50", "squeezenet", "efficientnet-lite0", "open-nsfw", "inception-v1", "inception-v2", "densenet121",
    "shufflenet", "u2netp", "ocr-det", "ocr-cls", "ocr-rec", "minilm-l3", "silero-vad",
)  # fmt: skip
SECONDS, RUNS = 10.0, 50


def model_times(name: str, tries: int = 1) -> dict[str, Any]:
    """A row of the table of models; `remark` says why there are no times.

    The answers of both are compared, so that no time is reported for a wrong answer. `tries`: see `quiet.alone`.
    """
    try:
        path, sample = load(name), samples(name)[0]
        session = jitopt.compile(path)
        peer = runtime_session(path, cpu_allowance().count)
        ours, theirs = session.run(None, sample.feeds), peer.run(None, sample.feeds)
    except (NotFetched, JitoptError) as error:
        return {"name": name, "remark": str(error).splitlines()[0]}
    comparison = compare_all(ours, theirs)
    if not comparison:
        return {"name": name, "remark": f"differs from ONNX Runtime: {comparison.reason}"}
    calls = {"jitopt": lambda: session.run(None, sample.feeds), "peer": lambda: peer.run(None, sample.feeds)}
    times = alone(lambda: dict(interleaved(calls, runs=RUNS, seconds=SECONDS)), tries)
    explained = session.explain().as_dict()
    return {
        "name": name, "input": sample.label.partition(":")[0], "remark": "", "ms": times["jitopt"] * 1e3,
        "onnxruntime_ms": times["peer"] * 1e3, "operators": explained["original_ops"],
        "kernels": explained["kernels_run"], "reorders": explained["reorders_run"],
        "host_steps": len(explained["host_steps"]), "pool_bytes": session.memory(sample.feeds).pool_bytes,
        "max_error": comparison.max_error, "others": times["others"],
    }  # fmt: skip
