"""When a convolution becomes a Winograd kernel, and that the answers of the graphs around it stay right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from jitopt_kernels.targets import TARGETS

import jitopt
from jitopt.ir.dims import symbol
from jitopt.ir.graph import Graph, Node
from jitopt.lower.convolution_winograd import tile_outputs
from jitopt.passes.infer import infer
from jitopt.peer import interpret
from jitopt.verify import compare_all
from tests.networks import N, floats, weights

SAME = [1, 1, 1, 1]


def conv(inputs: int, outputs: int, size: Any, kernel: int = 3, **attributes: Any) -> Graph:
    """One Conv from [n, inputs, size, size]."""
    graph = Graph("conv")
    x = graph.input("x", "float32", (N, inputs, size, size))
    groups = attributes.get("group", 1)
    w = graph.constant(weights(outputs, inputs // groups, kernel, kernel), "w")
    graph.output(graph.add("Conv", [x, w], name="conv", **{"pads": [kernel // 2] * 4, **attributes}))
    return graph


def chosen(graph: Graph, target: str = "avx2") -> int | None:
    infer(graph)
    node = graph.node("conv")
    assert isinstance(node, Node)
    return tile_outputs(node, TARGETS[target])


@pytest.mark.parametrize(
    ("channels", "size", "outputs"),
    [
        (64, 56, 4),
        (256, 14, 4),
        (512, 7, 2),  # 4 would read 38 MB of weights for 49 outputs
        (64, symbol("side"), 4),  # a map of any size
        (64, 1, None),
    ],
    ids=str,
)
def test_what_the_cost_model_chooses(channels: int, size: Any, outputs: int | None) -> None:
    assert chosen(conv(channels, channels, size)) == outputs


@pytest.mark.parametrize("target", ["avx512", "avx2", "x86-64-v2"])
@pytest.mark.parametrize(
    "attributes",
    [{"strides": [2, 2]}, {"strides": [1, 2]}, {"dilations": [2, 2]}, {"kernel": 5}, {"kernel": 1}, {"group": 8}],
    ids=str,
)
def test_what_has_no_minimal_filtering(attributes: dict[str, Any], target: str) -> None:
    assert chosen(conv(64, 64, 56), target) is not None
    assert chosen(conv(64, 64, 56, **attributes), target) is None


def templates(session: Any) -> list[str]:
    return [step.spec.template for step in session._program.steps]


def network(channels: int) -> Graph:
    """Two convolutions over [n, 16, h, w] with every kind of epilogue: bias, residual, f(0) != 0, two stores."""
    graph = Graph("network")
    x = graph.input("x", "float32", (N, 16, 17, 22))
    w1, b1 = graph.constant(weights(channels, 16, 3, 3), "w1"), graph.constant(floats(channels), "b1")
    y = graph.add("Sigmoid", [graph.add("Conv", [x, w1, b1], name="first", pads=[0, 2, 1, 1])])
    w2 = graph.constant(weights(channels, channels, 3, 3, seed=1), "w2")
    z = graph.output(graph.add("Conv", [y, w2], name="second", pads=SAME))
    graph.output(graph.add("Relu", [graph.add("Add", [z, y])]))
    return graph


@pytest.mark.parametrize("channels", [24, 21])
def test_answers(channels: int) -> None:
    graph = network(channels)
    session = jitopt.compile(graph, num_threads=1)
    assert templates(session).count("winograd") == 2
    for images in (1, 3):
        feeds = {"x": floats(images, 16, 17, 22)}
        found = session.run(None, feeds)
        comparison = compare_all(found, interpret(graph, feeds))
        assert comparison, comparison.reason
        for threads in (2, 3, 8):
            again = jitopt.compile(graph, num_threads=threads).run(None, feeds)
            assert all(np.array_equal(a, b) for a, b in zip(found, again, strict=True))


@pytest.mark.parametrize("options", [{"disable": "winograd"}, {"precision": "exact"}, {"optimize": False}], ids=str)
def test_who_does_without(options: dict[str, Any]) -> None:
    assert "winograd" not in templates(jitopt.compile(network(24), **options))


def test_no_size_of_the_map_compiles_again() -> None:
    graph = Graph("sizes")
    height, width = (symbol(name) for name in ("h", "w"))
    x = graph.input("x", "float32", (1, 16, height, width))
    w = graph.constant(weights(16, 16, 3, 3), "w")
    graph.output(graph.add("Conv", [x, w], pads=SAME))
    session = jitopt.compile(graph)
    assert templates(session).count("winograd") == 1
    kernels = len(session.kernels)
    for size in ((1, 1), (4, 9), (31, 5)):
        feeds = {"x": floats(1, 16, *size)}
        comparison = compare_all(session.run(None, feeds), interpret(graph, feeds))
        assert comparison, comparison.reason
    assert len(session.kernels) == kernels


def test_an_unknown_algorithm_is_refused() -> None:
    with pytest.raises(ValueError, match="winograd"):
        jitopt.compile(network(24), disable="vinograd")
