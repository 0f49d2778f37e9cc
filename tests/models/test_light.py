"""The light networks keep their structure and get weights under which every layer's output matters."""

from __future__ import annotations

import collections
import functools

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from bench import light, models

from .reference import Reference

SMALL = ("squeezenet", "shufflenet", "resnet50", "inception-v1", "inception-v2")


@functools.lru_cache(maxsize=1)
def built(name: str) -> tuple[onnx.ModelProto, onnx.ModelProto]:
    """The structure as the package has it, and the network with weights."""
    path = models.source(models.entry(name))
    return onnx.load(path), light.build(path)


@pytest.mark.parametrize("name", SMALL)
def test_only_the_constant_nodes_are_replaced(name: str) -> None:
    structure, model = built(name)
    kept = [node for node in structure.graph.node if node.op_type != "ConstantOfShape"]
    assert len(kept) < len(structure.graph.node)
    assert list(model.graph.node) == kept
    assert list(model.graph.output) == list(structure.graph.output)
    ours = {each.name: each for each in model.graph.initializer}
    for each in structure.graph.initializer:
        assert ours.get(each.name, each) == each
    onnx.checker.check_model(model)


def test_resnet50_keeps_its_53_batch_normalizations() -> None:
    _, model = built("resnet50")
    assert collections.Counter(node.op_type for node in model.graph.node)["BatchNormalization"] == 53


def test_the_same_seed_gives_the_same_network_and_another_seed_another() -> None:
    structure, model = built("squeezenet")
    assert light.with_weights(structure).SerializeToString(True) == model.SerializeToString(True)
    assert light.with_weights(structure, seed=1).SerializeToString(True) != model.SerializeToString(True)


@pytest.mark.parametrize("name", SMALL)
def test_convolutions_put_out_deviation_1(name: str) -> None:
    structure, model = built(name)
    given = {each.name for each in structure.graph.initializer}
    feed = next(each.name for each in structure.graph.input if each.name not in given)
    normalised = {n.input[0]: n for n in model.graph.node if n.op_type == "BatchNormalization"}
    layers = [
        node
        for node in model.graph.node
        if node.op_type in ("Conv", "Gemm")
        and not any(operand in given for operand in node.input[1:])  # trained biases add to it
        and normalised.get(node.output[0], node).input[-1] not in given  # trained statistics ask for another
    ]
    assert len(layers) > 12
    values = Reference(model, [node.output[0] for node in layers]).run({feed: light.picture()})
    deviations = [float(value.std()) for value in values]
    assert min(deviations) > 0.95 and max(deviations) < 1.05


@pytest.mark.parametrize("name", ["resnet50", "shufflenet"])
def test_batch_normalizations_have_the_statistics_they_see(name: str) -> None:
    structure, model = built(name)
    given = {each.name for each in structure.graph.initializer}
    feed = next(each.name for each in structure.graph.input if each.name not in given)
    norms = [n for n in model.graph.node if n.op_type == "BatchNormalization" and n.input[4] not in given]
    constants = {each.name: each for each in model.graph.initializer}
    values = Reference(model, [node.input[0] for node in norms]).run({feed: light.picture()})
    for node, value in zip(norms, values, strict=True):
        mean, variance = (numpy_helper.to_array(constants[each]) for each in node.input[3:5])
        spread = np.sqrt(variance)
        assert np.abs(mean - value.mean((0, 2, 3))).max() < 0.02 * spread.max()
        close = np.abs(value.var((0, 2, 3)) / variance - 1) < 0.02
        assert close.mean() > 0.9 and (variance > 0).all()


def test_the_picture_is_normalised_and_smooth() -> None:
    picture = light.picture()
    assert picture.shape == (1, 3, 224, 224) and picture.dtype == np.float32
    assert abs(picture.mean()) < 1e-3 and abs(picture.std() - 1) < 1e-3
    assert np.abs(np.diff(picture)).mean() < 0.3
