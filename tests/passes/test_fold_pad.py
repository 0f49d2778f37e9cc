"""Pad into Conv, MaxPool and AveragePool."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jitopt.ir.graph import Graph
from tests.passes.helpers import fires, floats, refuses


def padded(
    op: str, amounts: Any = (0, 0, 1, 2, 0, 0, 3, 1), value: float | None = None, *, before: str = "", axes: Any = None,
    mode: str = "constant", kernel: int = 4, weight: float | None = None, **attrs: Any,
) -> Graph:  # fmt: skip
    graph = Graph("g")
    x = graph.input("x", "float32", (2, 3, 8, 9))
    if before:
        x = graph.add(before, [x])
    inputs = [x, graph.constant(np.array(amounts), "pads")]
    if value is not None or axes is not None:
        inputs.append(None if value is None else graph.constant(np.float32(value).reshape(()), "value"))
    if axes is not None:
        inputs.append(graph.constant(np.array(axes), "axes"))
    y = graph.add("Pad", inputs, name="pad", mode=mode)
    if op == "Conv":
        w = floats(4, 3, kernel, kernel)
        if weight is not None:
            w.flat[2] = weight
        graph.output(
            graph.add("Conv", [y, graph.constant(w, "w"), graph.constant(floats(4))], name="win", **attrs), "y"
        )
    else:
        graph.output(graph.add(op, [y], name="win", kernel_shape=[kernel, kernel], **attrs), "y")
    return graph


@pytest.mark.parametrize("attrs", [{}, {"pads": [1, 0, 2, 1]}, {"auto_pad": "VALID"}, {"strides": [2, 3]},
                                   {"dilations": [2, 2]}])  # fmt: skip
@pytest.mark.parametrize("value", [None, 0.0])
def test_conv(attrs: dict[str, Any], value: float | None) -> None:
    fires(lambda: padded("Conv", value=value, **attrs), "fold-pad", 1, ["Conv"])


def test_axes() -> None:
    fires(lambda: padded("Conv", (1, 2, 3, 4), 0.0, axes=[-1, 2]), "fold-pad", 1, ["Conv"])


def test_several_convs_read_one_pad() -> None:
    def build() -> Graph:
        graph = padded("Conv")
        y = graph.add("Conv", [graph.node("pad").output, graph.constant(floats(2, 3, 1, 1))])
        graph.output(y, "other")
        return graph

    fires(build, "fold-pad", 2, ["Conv", "Conv"])


def test_max_pool() -> None:
    fires(lambda: padded("MaxPool", value=-np.inf, strides=[2, 2]), "fold-pad", 1, ["MaxPool"])
    fires(lambda: padded("MaxPool", before="Relu", strides=[2, 2]), "fold-pad", 1, ["Relu", "MaxPool"])


def test_average_pool() -> None:
    fires(lambda: padded("AveragePool"), "fold-pad", 1, ["AveragePool"])
    fires(lambda: padded("AveragePool", (0, 0, 1, 1, 0, 0, 1, 1), count_include_pad=1),
          "fold-pad", 1, ["AveragePool"])  # fmt: skip


# near misses --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("mode", ["reflect", "edge", "wrap"])
def test_other_modes(mode: str) -> None:
    refuses(lambda: padded("Conv", mode=mode), "fold-pad", f"mode is {mode}")


def test_other_values() -> None:
    refuses(lambda: padded("Conv", value=1.0), "fold-pad", "a Conv with 0")
    refuses(lambda: padded("MaxPool"), "fold-pad", "a MaxPool with -inf")
    refuses(lambda: padded("MaxPool", before="Tanh"), "fold-pad", "a MaxPool with -inf")
    refuses(lambda: padded("MaxPool", value=1.0, before="Relu"), "fold-pad", "a MaxPool with -inf")
    refuses(lambda: padded("AveragePool", value=-1.0), "fold-pad", "a pool with 0")


def test_cropping_batch_and_channels() -> None:
    refuses(lambda: padded("Conv", (0, 0, -1, 0, 0, 0, 0, 0)), "fold-pad", "crops")
    refuses(lambda: padded("MaxPool", (1, 0, 1, 0, 0, 0, 0, 0), -np.inf), "fold-pad", "batch or channels")


def test_windows_of_padding_only() -> None:
    refuses(lambda: padded("MaxPool", value=-np.inf, kernel=3), "fold-pad", "padding only")
    refuses(lambda: padded("MaxPool", value=-np.inf, dilations=[2, 2]), "fold-pad", "padding only")
    refuses(lambda: padded("MaxPool", value=-np.inf, ceil_mode=1), "fold-pad", "ceil_mode")


def test_automatic_padding() -> None:
    refuses(lambda: padded("Conv", auto_pad="SAME_UPPER"), "fold-pad", "auto_pad")


def test_average_pool_that_counts_one_padding_only() -> None:
    def build() -> Graph:
        graph = padded("AveragePool", (0, 0, 1, 1, 0, 0, 1, 1))
        graph.node("win").attrs["pads"] = [1, 1, 1, 1]
        return graph

    refuses(build, "fold-pad", "only one")


@pytest.mark.parametrize("weight", [np.inf, np.nan])
def test_weights_that_are_not_finite(weight: float) -> None:
    refuses(lambda: padded("Conv", weight=weight), "fold-pad", "NaN")


@pytest.mark.parametrize("index", [1, 2])
def test_amounts_or_value_that_are_not_constant(index: int) -> None:
    def build() -> Graph:
        graph = padded("Conv", value=0.0)
        old = graph.node("pad").arg(index)
        graph.node("pad").set_input(index, graph.input("fed", old.dtype, old.shape))
        return graph

    refuses(build, "fold-pad", "not constant")
