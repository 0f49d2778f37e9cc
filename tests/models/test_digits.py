"""The bundled digits network: its size, its form and how well it reads; and the gradients it was trained with."""

from __future__ import annotations

import collections
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

import numpy as np
import onnx
import pytest

from tools import layers

from .reference import reference

DATA = Path(str(files("jitopt"))) / "data"


def test_the_bundle_is_small_and_states_its_licence() -> None:
    sizes = {path.name: path.stat().st_size for path in DATA.iterdir() if path.is_file()}
    assert {"digits.onnx", "digits.npz", "LICENSE.txt"} <= sizes.keys()
    assert sum(sizes.values()) < 300_000
    assert "CC BY 4.0" in (DATA / "LICENSE.txt").read_text("utf-8")


def test_the_network_has_what_the_demo_shows() -> None:
    model = onnx.load(DATA / "digits.onnx")
    onnx.checker.check_model(model, full_check=True)
    counts = collections.Counter(node.op_type for node in model.graph.node)
    assert counts["Conv"] == counts["BatchNormalization"] == 4
    assert {"Relu", "Add", "Erf", "Gemm", "MaxPool", "Softmax"} <= counts.keys()
    assert model.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch"


def test_it_reads_the_held_out_digits() -> None:
    with np.load(DATA / "digits.npz") as bundle:
        images, labels = bundle["images"], bundle["labels"]
    assert images.shape == (60, 8, 8) and images.dtype == np.uint8 and images.max() <= 16
    assert set(labels.tolist()) == set(range(10))
    feeds = {"image": (images[:, None] / 16).astype(np.float32)}
    probabilities = reference(DATA / "digits.onnx", feeds)[0]
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-5)
    assert (probabilities.argmax(axis=1) == labels).mean() >= 0.97
    one = reference(DATA / "digits.onnx", {"image": feeds["image"][:1]})[0]
    np.testing.assert_allclose(one, probabilities[:1], atol=1e-6)


RNG = np.random.default_rng(3)
LAYERS: dict[str, tuple[Callable[[], layers.Layer], tuple[int, ...]]] = {
    "conv": (lambda: layers.Conv(RNG, 3, 4), (2, 3, 6, 6)),
    "batch norm": (lambda: layers.BatchNorm(3), (4, 3, 5, 5)),
    "relu": (layers.Relu, (2, 3, 4, 4)),
    "gelu": (layers.Gelu, (4, 7)),
    "max pool": (layers.MaxPool, (2, 3, 4, 4)),
    "flatten": (layers.Flatten, (2, 3, 4, 4)),
    "gemm": (lambda: layers.Gemm(RNG, 5, 4), (3, 5)),
    "residual": (lambda: layers.Residual(layers.Conv(RNG, 3, 3), layers.Relu()), (2, 3, 4, 4)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_gradients_are_the_slopes_of_the_forward_pass(name: str) -> None:
    make, shape = LAYERS[name]
    layer = make()
    x = RNG.standard_normal(shape)
    weight = RNG.standard_normal(layer.forward(x, True).shape)
    back = layer.backward(weight)
    step = 1e-3

    def loss() -> float:
        return float((layer.forward(x, True) * weight).sum())

    places = [(x, back)] + [(layer.parameters[key], value) for key, value in layer.gradients.items()]
    for array, gradient in places:
        direction = RNG.standard_normal(array.shape) * step
        original = array.copy()
        array += direction
        after = loss()
        array[...] = original - direction
        slope = (after - loss()) / 2
        array[...] = original
        assert slope == pytest.approx(float((gradient * direction).sum()), rel=2e-2, abs=step * 0.02)
