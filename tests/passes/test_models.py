"""The pipeline on the real models: nodes left, numbers kept on a real input, a second run that does nothing."""

from __future__ import annotations

from typing import Any

import pytest

from bench.inputs import inputs
from bench.models import NotFetched, load
from jitopt.ir.graph import Graph
from jitopt.onnx_io import read_model
from jitopt.passes import infer, optimize
from jitopt.passes.base import PassContext
from jitopt.passes.pipelines import PASSES
from tests.passes.helpers import evaluate, same_numbers

# Nodes at most left after the default pipeline, subgraphs included.
NODES = {
    "ocr-det": 177, "ocr-rec": 179, "ocr-cls": 125, "efficientnet-lite0": 94, "efficientnet-lite0-export": 94,
    "open-nsfw": 124, "u2netp": 371, "minilm-l3": 119, "minilm-l6-int8": 214, "silero-vad": 154,
    "silero-vad-sequence": 27, "deepfilternet-enc": 40, "deepfilternet-erb-dec": 37, "deepfilternet-df-dec": 26,
    "alexnet": 22, "densenet121": 429, "inception-v1": 142, "inception-v2": 164, "resnet50": 123, "shufflenet": 154,
    "squeezenet": 67, "vgg19": 44, "zfnet512": 22,
}  # fmt: skip
SLOW = {"u2netp", "vgg19", "densenet121", "inception-v2"}  # seconds a run in the interpreter
GONE = {
    "ocr-cls": {"BatchNormalization", "Clip", "Div", "Shape"},
    "ocr-det": {"BatchNormalization", "Clip", "Div"},
    "ocr-rec": {"BatchNormalization", "Clip", "Div", "Shape", "ReduceMean", "Flatten", "Cast", "Sqrt"},
    "minilm-l3": {"Erf", "Where", "ConstantOfShape"},
    "minilm-l6-int8": {"Erf", "Div"},
    "efficientnet-lite0-export": {"Pad", "ConstantOfShape", "Shape"},
    "resnet50": {"BatchNormalization", "Sum", "Shape"},
    "densenet121": {"BatchNormalization"},
}


def read(name: str) -> tuple[Graph, dict[str, Any]]:
    try:
        return read_model(load(name)), inputs(name)[0]
    except NotFetched as reason:
        pytest.skip(str(reason))


@pytest.mark.parametrize("name", NODES)
def test_optimised(name: str) -> None:
    graph, feeds = read(name)
    names = [v.name for v in graph.outputs]
    before = evaluate(graph, feeds)
    report = optimize(graph)
    assert not report.firing
    assert report.nodes_after <= NODES[name]
    assert not GONE.get(name, set()) & set(report.ops_after)
    assert [v.name for v in graph.outputs] == names
    same_numbers(list(evaluate(graph, feeds).values()), list(before.values()), exact=False)
    assert not optimize(graph).changes()


@pytest.mark.parametrize("name", [name for name in NODES if name not in SLOW])
def test_cleaning_keeps_every_bit(name: str) -> None:
    graph, feeds = read(name)
    infer(graph)
    before = evaluate(graph, feeds)
    for rewrite in ("dead-code", "common-subexpressions", "remove-identities", "merge-constants"):
        PASSES[rewrite].run(graph, PassContext())
    same_numbers(list(evaluate(graph, feeds).values()), list(before.values()), exact=True)
