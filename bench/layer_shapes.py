"""The convolutions of whole models, by themselves: read off the models with the shapes their first input gives."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.inputs import Feeds, samples
from bench.models import load
from jitopt.api import load_graph
from jitopt.ir.clone import clone
from jitopt.ir.graph import Graph, Node, walk
from jitopt.ir.types import TensorType
from jitopt.passes.infer import infer

OPERATORS = ("Conv", "ConvTranspose")


@dataclass(frozen=True)
class Layer:
    """A convolution with everything its speed depends on: shapes of input, weights and output, and attributes."""

    op: str
    x: tuple[int, ...]
    w: tuple[int, ...]
    y: tuple[int, ...]
    attrs: tuple[tuple[str, Any], ...]

    @property
    def name(self) -> str:
        """Such as "3x3 64->64 56x56", with "/2" for strides, "*2" for dilations and "g32" for groups."""
        attrs = dict(self.attrs)
        group = attrs.get("group", 1)
        extents = "x".join(map(str, self.x[2:]))
        strided, dilated = _unless_one(attrs.get("strides", ()), "/"), _unless_one(attrs.get("dilations", ()), "*")
        grouped = f" g{group}" * (group > 1)
        transposed = "transposed " * (self.op == "ConvTranspose")
        kernel = "x".join(map(str, self.w[2:]))
        return f"{transposed}{kernel} {self.x[1]}->{self.y[1]} {extents}{strided}{dilated}{grouped}"

    @property
    def flops(self) -> float:
        """Floating-point operations, a multiply-add counted twice, as the definition does them."""
        return 2.0 * math.prod(self.w[1:]) * math.prod(self.x if self.op == "ConvTranspose" else self.y)

    @property
    def bytes_touched(self) -> int:
        """Of weights and output: what a run needs anew when the input is at hand."""
        return 4 * (math.prod(self.w) + math.prod(self.y))

    def graph(self, seed: int) -> Graph:
        """The layer with a bias and random weights, another seed other weights; its input is "x", its output "y"."""
        rng = np.random.default_rng(seed)
        fan_in = math.prod(self.w[1:])
        graph = Graph("layer")
        x = graph.input("x", "float32", self.x)
        weights = rng.standard_normal(self.w, np.float32) / np.float32(math.sqrt(fan_in))
        bias = rng.standard_normal(self.y[1], np.float32)
        y = graph.add(self.op, [x, graph.constant(weights), graph.constant(bias)], **dict(self.attrs))
        graph.output(y, name="y")
        return graph

    def feeds(self) -> Feeds:
        return {"x": np.random.default_rng(0).standard_normal(self.x, np.float32)}


def layers_of(model: str) -> Counter[Layer]:
    """The distinct float32 convolutions of a model of the manifest, and how often each is there. Raises NotFetched."""
    return layers_in(load_graph(load(model)), samples(model)[0].feeds)


def layers_in(graph: Graph, feeds: Feeds) -> Counter[Layer]:
    """The same for a graph and feeds; a convolution whose shapes a run decides is left out."""
    graph = clone(graph)
    for value in graph.inputs:
        value.type = TensorType(value.dtype, feeds[value.name].shape)
    infer(graph)
    nodes = (node for each in walk([graph]) for node in each if node.op in OPERATORS)
    return Counter(layer for layer in map(_layer, nodes) if layer is not None)


def _layer(node: Node) -> Layer | None:
    values = node.arg(0), node.arg(1), node.output
    if not all(value.tensor.is_static for value in values) or values[0].dtype.name != "float32":
        return None
    x, w, y = (tuple(extent for extent in value.shape if isinstance(extent, int)) for value in values)
    attrs = tuple(sorted((key, value) for key, value in node.attrs.items() if not _default(key, value)))
    return Layer(node.op, x, w, y, attrs)


def _default(key: str, value: Any) -> bool:
    """Whether an attribute says what its absence says (kernel_shape: what the weights say)."""
    usual = {"group": 1, "auto_pad": "NOTSET", "strides": 1, "dilations": 1, "pads": 0, "output_padding": 0}
    values = value if isinstance(value, tuple) else (value,)
    return key == "kernel_shape" or all(each == usual.get(key) for each in values)


def _unless_one(numbers: tuple[int, ...], sign: str) -> str:
    """Numbers behind a sign, one for all where they are equal; nothing where all are 1."""
    if all(number == 1 for number in numbers):
        return ""
    return sign + ("x".join(map(str, numbers)) if len(set(numbers)) > 1 else str(numbers[0]))
