"""The bundled network on handwritten digits: how well it reads, whether it computes right, what became of it."""

from __future__ import annotations

import importlib.resources
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import jitopt
from jitopt.api import load_graph
from jitopt.evidence import interpret
from jitopt.ir.graph import Graph
from jitopt.verify import compare_all

SHOWN, GROUPS = 5, 3
Progress = Callable[[int, int, str, float], None]
Pixels = npt.NDArray[np.uint8]


def bundle() -> Path:
    """The folder of the network and its images."""
    return Path(str(importlib.resources.files("jitopt"))) / "data"


def load() -> tuple[Graph, Pixels, Pixels]:
    """The network with its scores as first and its probabilities as second output, held-out images, their labels."""
    graph = load_graph(bundle() / "digits.onnx")
    softmax = next(node for node in graph if node.op == "Softmax")
    graph.outputs = [softmax.arg(0), softmax.output]
    with np.load(bundle() / "digits.npz", allow_pickle=False) as arrays:
        return graph, arrays["images"], arrays["labels"]


def digits(progress: Progress | None = None) -> dict[str, Any]:
    """Accuracy and agreement on the held-out images, five of them, operators, groups and memory."""
    graph, images, labels = load()
    feeds = {graph.inputs[0].name: (images[:, None] / 16).astype(np.float32)}
    session = jitopt.compile(graph, progress=progress)
    answers = session.run(None, feeds)
    comparison = compare_all(answers, interpret(graph, feeds))
    probabilities = answers[1]
    read = probabilities.argmax(axis=1)
    explanation = session.explain().as_dict()
    memory = session.memory(feeds)
    return {
        "ok": bool(comparison),
        "images": len(images),
        "right": int((read == labels).sum()),
        "accuracy": float((read == labels).mean()),
        "max_error": comparison.max_error,
        "tolerance": comparison.tolerance,
        "reason": comparison.reason,
        "shown": [
            {
                "label": int(labels[i]), "read": int(read[i]), "probability": float(probabilities[i, read[i]]),
                "pixels": images[i].tolist(),
            }
            for i in choose(labels, read, probabilities.max(axis=1))
        ],
        "operators": {
            "before": explanation["original_types"], "after": explanation["optimized_types"],
            "count_before": explanation["original_ops"], "count_after": explanation["optimized_ops"],
        },
        "groups": largest_groups(session, explanation),
        "kernels": {"compiled": explanation["kernels_compiled"], "run": explanation["kernels_run"]},
        "memory": {
            "pool_bytes": memory.pool_bytes, "unshared_bytes": memory.unshared_bytes,
            "lower_bound_bytes": memory.lower_bound_bytes, "weight_bytes": memory.weight_bytes,
        },
    }  # fmt: skip


def choose(labels: Pixels, read: npt.NDArray[np.int64], sure: npt.NDArray[np.float32]) -> list[int]:
    """Five images: the first four of different digits, and the first that is misread, or else the least sure."""
    wrong = np.flatnonzero(read != labels)
    last = int(wrong[0]) if len(wrong) else int(sure.argmin())
    first_of = {int(label): i for i, label in reversed(list(enumerate(labels)))}
    others = [i for i in sorted(first_of.values()) if i != last and labels[i] != labels[last]]
    return [*others[: SHOWN - 1], last]


def largest_groups(session: jitopt.Session, explanation: dict[str, Any]) -> list[dict[str, Any]]:
    """Three groups with different kernels, those of most operators, with the file of the kernel's source."""
    sources = {kernel.key: kernel.path for kernel in session.kernels}
    by_kernel = {group["kernel"]: group for group in reversed(explanation["groups"])}
    chosen = sorted(by_kernel.values(), key=lambda group: -len(group["operators"]))[:GROUPS]
    return [
        {
            "operators": group["operators"], "members": group["members"], "template": group["template"],
            "kernel": group["kernel"], "source": None if (path := sources[group["kernel"]]) is None else str(path),
        }
        for group in chosen
    ]  # fmt: skip
