"""ResNet-50 (He et al., Deep Residual Learning, CVPR 2016) with random weights, and the answer NumPy gives.

The structure is the file `light_resnet50.onnx` of the installed onnx package, whose weights are ConstantOfShape nodes.
Those are replaced by constants and nothing else changes: all 53 BatchNormalizations stay. Weights are random after He
et al. (deviation sqrt(2 / fan in)), each BatchNormalization gets the mean and variance it sees on the picture. That
takes one run of the reference interpreter, whose last values are the reference's answer.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from jitopt.api import load_graph
from jitopt.errors import ModelError
from jitopt.ir.graph import Graph, Node, Value
from jitopt.ir.interpreter import Interpreter
from jitopt.ops import find
from jitopt.passes.infer import infer

SEED = 50
Array = npt.NDArray[np.float32]
# What a replaced constant is for, by the reader's operator and input.
ROLES = {
    "BatchNormalization": ("", "scale", "shift", "mean", "variance"),
    "Conv": ("", "weight", "shift"),
    "Gemm": ("", "weight", "shift"),
}


@dataclass(frozen=True)
class Network:
    """A graph, feeds for it and the reference's answer; outputs are the scores before the softmax, then those after."""

    graph: Graph
    feeds: dict[str, Array]
    answer: dict[str, Array]


def structure() -> Path:
    """The file of the installed onnx package. Raises ModelError where it is missing."""
    spec = importlib.util.find_spec("onnx")
    if spec is None or spec.origin is None:
        raise ModelError("ResNet-50's structure comes with the onnx package, which is not installed")
    path = Path(spec.origin).parent / "backend" / "test" / "data" / "light" / "light_resnet50.onnx"
    if not path.is_file():
        raise ModelError(f"the installed onnx package has no {path}")
    return path


def resnet50(seed: int = SEED) -> Network:
    """The network with its weights and the reference's answer; one seed, one network."""
    graph = load_graph(structure())
    rng = np.random.default_rng(seed)
    for node in graph:
        if node.op == "ConstantOfShape":
            _become_constant(graph, node, rng)
    infer(graph)
    softmax = next(node for node in graph if node.op == "Softmax")
    graph.outputs = [softmax.arg(0), softmax.output]
    (feed,) = graph.inputs
    feeds = {feed.name: picture(rng, int(str(feed.shape[-1])))}
    values = _calibrate(graph, {feed: feeds[feed.name]})
    return Network(graph, feeds, {value.name: values[value] for value in graph.outputs})


def picture(rng: np.random.Generator, size: int) -> Array:
    """A synthetic picture [1, 3, size, size] of mean 0 and deviation 1: noise at every scale, as photographs have."""
    image: Array = np.zeros((3, size, size), np.float32)
    cells = 7
    while cells <= size and size % cells == 0:
        coarse = rng.standard_normal((3, cells, cells), np.float32)
        image += coarse.repeat(size // cells, axis=1).repeat(size // cells, axis=2)
        cells *= 2
    normal: Array = (image - image.mean()) / image.std()
    return normal[None]


def _become_constant(graph: Graph, node: Node, rng: np.random.Generator) -> None:
    """Put a constant with random elements in the place of a ConstantOfShape node."""
    extents = node.arg(0).constant
    assert extents is not None
    value = graph.constant(_random(rng, tuple(int(n) for n in extents), _role(node.output)), name=node.output.name)
    graph.replace(node.output, value)
    graph.remove(node)


def _role(value: Value) -> str:
    reader, index = value.uses[0]
    return "weight" if reader.op == "Reshape" else ROLES[reader.op][index]


def _random(rng: np.random.Generator, shape: tuple[int, ...], role: str) -> Array:
    normal = rng.standard_normal(shape, np.float32)
    if role == "weight":
        return normal * np.float32(np.sqrt(2 / np.prod(shape[1:])))
    if role in ("scale", "variance"):
        return np.float32(1) + np.float32(0.25) * np.clip(normal, -3, 3)
    return normal * np.float32(0.25)


def _calibrate(graph: Graph, state: dict[Value, Any]) -> dict[Value, Any]:
    """Run the reference node by node, giving each BatchNormalization the statistics it sees; the outputs' values."""
    interpreter = Interpreter(graph, find)
    last = {value: node for node in graph for value in node.inputs if value is not None}
    for node in graph:
        if node.op == "BatchNormalization":
            _see(node, state[node.arg(0)])
        interpreter.run_node(node, state)
        for value in node.inputs:
            if value is not None and last[value] is node and not graph.is_output(value):
                state.pop(value, None)
    return state


def _see(node: Node, x: Array) -> None:
    """Set mean and variance of a BatchNormalization to those of its input, rounded to 9 bits.

    Rounded, so that the last digits of another machine's sums do not make another network.
    """
    for index, seen in ((3, x.mean((0, 2, 3))), (4, np.maximum(x.var((0, 2, 3)), 0.01 * x.var()))):
        fraction, exponent = np.frexp(seen.astype(np.float64))
        node.arg(index).constant = np.ldexp(np.rint(fraction * 512) / 512, exponent).astype(np.float32)
