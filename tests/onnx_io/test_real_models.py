"""Real models, where they are on this machine: read, interpreted, printed, optimised, written.

The interpreter's answers are compared with ONNX Runtime's without optimisation, which tests reader, upgrades and
references together; the larger networks stand in tests/models.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bench import inputs, models
from jitopt.ir.graph import Graph
from jitopt.ir.interpreter import Interpreter
from jitopt.ir.text import blobs, print_graph
from jitopt.ir.text_parser import parse_graph
from jitopt.ir.verifier import verify
from jitopt.onnx_io import read_model, write_model
from jitopt.ops import find
from jitopt.passes.optimize import optimize
from jitopt.verify import compare

onnxruntime = pytest.importorskip("onnxruntime")

NAMES = (
    "ocr-cls", "efficientnet-lite0-export", "open-nsfw", "minilm-l3", "minilm-l6-int8", "silero-vad",
    "silero-vad-sequence", "deepfilternet-enc", "deepfilternet-erb-dec", "deepfilternet-df-dec",
)  # fmt: skip


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    try:
        models.load(request.param)
    except models.NotFetched as reason:
        pytest.skip(str(reason))
    return str(request.param)


def theirs(model: Path | bytes, feeds: dict[str, Any]) -> dict[str, Any]:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        model if isinstance(model, bytes) else str(model), options, providers=["CPUExecutionProvider"]
    )
    return dict(zip([o.name for o in session.get_outputs()], session.run(None, feeds), strict=True))


def same(actual: dict[str, Any], expected: dict[str, Any]) -> None:
    assert list(actual) == list(expected)
    for key, array in expected.items():
        result = compare(actual[key], array)
        assert result, f"{key}: {result.reason}"


def reads_back(graph: Graph) -> None:
    text = print_graph(graph)
    again = parse_graph(text, blobs(graph))
    verify(again, find)
    assert print_graph(again) == text


def test_the_interpreter_answers_like_onnxruntime(name: str) -> None:
    path, feeds = models.load(name), dict(inputs.samples(name)[0].feeds)
    same(Interpreter(read_model(path), find).run(feeds), theirs(path, feeds))


def test_every_stage_prints_and_can_be_written(name: str) -> None:
    path, feeds = models.load(name), dict(inputs.samples(name)[0].feeds)
    graph, expected = read_model(path), theirs(path, feeds)
    reads_back(graph)
    same(theirs(write_model(graph).SerializeToString(), feeds), expected)
    optimize(graph)
    reads_back(graph)
    same(theirs(write_model(graph).SerializeToString(), feeds), expected)
