"""BatchNormalization into contractions and into scale and shift: it fires, its near misses, its numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jitopt.ir.dims import symbol
from jitopt.ir.graph import Graph, Value
from tests.passes.helpers import fires, floats, refuses, run_pass

RELU_LEFT = ["Conv", "Relu"]


def batchnorm(graph: Graph, x: Value, channels: int, seed: int = 3, dtype: str = "float32", **attrs: Any) -> Value:
    rows = [floats(channels, seed=seed + i, dtype=dtype) for i in range(3)]
    variance = floats(channels, seed=seed + 3, low=0.1, high=2.0, dtype=dtype)
    params = [graph.constant(a, n) for a, n in zip([*rows, variance], ("gamma", "beta", "mean", "var"), strict=True)]
    value: Value = graph.add("BatchNormalization", [x, *params], name="bn", **attrs)
    return value


def conv_graph(
    *, bias: bool = False, group: int = 1, dtype: str = "float32", output: str = "relu", spatial: int = 2, **bn: Any
) -> Graph:
    graph = Graph("g")
    x = graph.input("x", dtype, (symbol("n"), 4, *(7,) * spatial))
    w = graph.constant(floats(6, 4 // group, *(3,) * spatial, dtype=dtype), "w")
    inputs = [x, w] + ([graph.constant(floats(6, seed=9, dtype=dtype), "b")] if bias else [])
    y = graph.add("Conv", inputs, name="conv", group=group, pads=[1] * (2 * spatial))
    z = batchnorm(graph, y, 6, dtype=dtype, **bn)
    if output == "relu":
        z = graph.add("Relu", [z], name="relu")
    graph.output(z, "result")
    return graph


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("spatial", [1, 2, 3])
def test_conv(bias: bool, group: int, spatial: int) -> None:
    graph = fires(lambda: conv_graph(bias=bias, group=group, spatial=spatial), "fold-batchnorm", 1, RELU_LEFT)
    assert graph.nodes[0].name == "conv"
    assert len(graph.nodes[0].inputs) == 3


def test_weights_are_folded_in_float64_and_rounded_once() -> None:
    graph = conv_graph(bias=True)
    w, b = (graph.find_value(n).constant for n in "wb")
    gamma, beta, mean, var = (graph.find_value(n).constant.astype(np.float64) for n in ("gamma", "beta", "mean", "var"))
    run_pass(graph, "fold-batchnorm")
    scale = gamma / np.sqrt(var + 1e-5)
    conv = graph.nodes[0]
    assert np.array_equal(conv.arg(1).constant, (w * scale.reshape(-1, 1, 1, 1)).astype(np.float32))
    assert np.array_equal(conv.arg(2).constant, (b * scale + (beta - mean * scale)).astype(np.float32))


def test_the_output_keeps_its_name() -> None:
    graph = fires(lambda: conv_graph(output="bn"), "fold-batchnorm", 1, ["Conv"])
    assert graph.outputs[0].name == "result"


@pytest.mark.parametrize("group", [1, 2])
def test_conv_transpose(group: int) -> None:
    def build() -> Graph:
        graph = Graph("g")
        x = graph.input("x", "float32", (2, 4, 5, 5))
        w = graph.constant(floats(4, 6 // group, 3, 2), "w")
        y = graph.add("ConvTranspose", [x, w], strides=[2, 2], group=group)
        graph.output(batchnorm(graph, y, 6), "y")
        return graph

    fires(build, "fold-batchnorm", 1, ["ConvTranspose"])


@pytest.mark.parametrize(("trans_b", "bias"), [(0, ()), (1, (5,)), (0, (1, 5)), (1, (1,)), (0, (1, 1))])
def test_gemm(trans_b: int, bias: tuple[int, ...]) -> None:
    def build() -> Graph:
        graph = Graph("g")
        x = graph.input("x", "float32", (3, 4))
        w = graph.constant(floats(*((5, 4) if trans_b else (4, 5))), "w")
        c = [graph.constant(floats(*bias), "c")] if bias else []
        y = graph.add("Gemm", [x, w, *c], transB=trans_b, alpha=0.5, beta=-1.5)
        graph.output(batchnorm(graph, y, 5), "y")
        return graph

    fires(build, "fold-batchnorm", 1, ["Gemm"])


@pytest.mark.parametrize("bias", [False, True])
def test_matmul_of_matrices(bias: bool) -> None:
    def build() -> Graph:
        graph = Graph("g")
        x = graph.input("x", "float32", (3, 4))
        y = graph.add("MatMul", [x, graph.constant(floats(4, 5), "w")])
        if bias:
            y = graph.add("Add", [graph.constant(floats(5), "b"), y])
        graph.output(batchnorm(graph, y, 5), "y")
        return graph

    fires(build, "fold-batchnorm", 1, ["Gemm"])


def test_matmul_with_channels_elsewhere() -> None:
    def build() -> Graph:
        graph = Graph("g")
        x = graph.input("x", "float32", (2, 5, 4))
        y = graph.add("MatMul", [x, graph.constant(floats(4, 5), "w")])
        graph.output(batchnorm(graph, y, 5), "y")
        return graph

    refuses(build, "fold-batchnorm", "lie along axis 2")


# near misses --------------------------------------------------------------------------------------------------------
def test_another_reader() -> None:
    def build() -> Graph:
        graph = conv_graph()
        graph.output(graph.add("Abs", [graph.node("conv").output]), "other")
        return graph

    refuses(build, "fold-batchnorm", "another reader")


def test_the_conv_is_an_output() -> None:
    def build() -> Graph:
        graph = conv_graph()
        graph.output(graph.node("conv").output, "other")
        return graph

    refuses(build, "fold-batchnorm", "another reader")


def test_a_shared_weight() -> None:
    def build() -> Graph:
        graph = conv_graph()
        other = graph.add("Conv", [graph.inputs[0], graph.find_value("w")], pads=[1, 1, 1, 1])
        graph.output(other, "other")
        return graph

    refuses(build, "fold-batchnorm", "shared")


def test_a_weight_that_is_an_output() -> None:
    def build() -> Graph:
        graph = conv_graph()
        graph.output(graph.find_value("w"))
        return graph

    refuses(build, "fold-batchnorm", "shared")


@pytest.mark.parametrize("index", [1, 2])
def test_a_weight_or_bias_that_is_not_constant(index: int) -> None:
    def build() -> Graph:
        graph = conv_graph(bias=True)
        conv = graph.node("conv")
        old = conv.arg(index)
        conv.set_input(index, graph.input("fed", "float32", old.shape))
        return graph

    refuses(build, "fold-batchnorm", "constant")


@pytest.mark.parametrize("index", [1, 2, 3, 4])
def test_parameters_that_are_not_constant(index: int) -> None:
    def build() -> Graph:
        graph = conv_graph()
        graph.node("bn").set_input(index, graph.input("fed", "float32", (6,)))
        return graph

    refuses(build, "fold-batchnorm", "not all constant")
    refuses(build, "batchnorm-to-affine", "not all constant")


@pytest.mark.parametrize(("name", "number"), [("w", np.nan), ("w", np.inf), ("b", -np.inf)])
def test_weights_that_are_not_finite(name: str, number: float) -> None:
    def build() -> Graph:
        graph = conv_graph(bias=True)
        graph.find_value(name).constant.flat[3] = number
        return graph

    refuses(build, "fold-batchnorm", "finite")


@pytest.mark.parametrize(("name", "number"), [("mean", np.inf), ("gamma", np.nan), ("var", -1.0)])
def test_parameters_that_are_not_finite(name: str, number: float) -> None:
    def build() -> Graph:
        graph = conv_graph()
        graph.find_value(name).constant[2] = number
        return graph

    refuses(build, "fold-batchnorm", "not finite")
    refuses(build, "batchnorm-to-affine", "not finite")


def test_training_mode() -> None:
    def build() -> Graph:
        graph = Graph("g")
        x = graph.input("x", "float32", (2, 3, 4))
        params = [graph.constant(floats(3, seed=i, low=0.5), n) for i, n in enumerate(("g", "b", "m", "v"))]
        y, *_ = graph.add("BatchNormalization", [x, *params], outputs=3, training_mode=1)
        graph.output(y, "y")
        return graph

    refuses(build, "fold-batchnorm", None)
    refuses(build, "batchnorm-to-affine", "training")


def test_exact_mode_does_not_fold() -> None:
    with pytest.raises(AssertionError, match="not allowed"):
        run_pass(conv_graph(), "fold-batchnorm", precision="exact")


# numbers at the edges -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("variance", [0.0, 1e-12, 1e-30])
def test_tiny_variances(variance: float) -> None:
    def build() -> Graph:
        graph = conv_graph(bias=True, epsilon=1e-5)
        graph.find_value("var").constant[:] = variance
        return graph

    fires(build, "fold-batchnorm", 1, RELU_LEFT)


def test_no_variance_and_no_epsilon() -> None:
    def build() -> Graph:
        graph = conv_graph(epsilon=0.0)
        graph.find_value("var").constant[1] = 0.0
        return graph

    refuses(build, "fold-batchnorm", "not finite")


def test_float64() -> None:
    graph = fires(lambda: conv_graph(dtype="float64"), "fold-batchnorm", 1, RELU_LEFT)
    assert graph.nodes[0].arg(1).constant.dtype == np.float64


def test_float16_rounds_once() -> None:
    graph = conv_graph(dtype="float16")
    w = graph.find_value("w").constant.astype(np.float64)
    gamma, var = (graph.find_value(n).constant.astype(np.float64) for n in ("gamma", "var"))
    run_pass(graph, "fold-batchnorm")
    scale = (gamma / np.sqrt(var + 1e-5)).reshape(-1, 1, 1, 1)
    assert np.array_equal(graph.nodes[0].arg(1).constant, (w * scale).astype(np.float16))


def test_float16_that_overflows_or_vanishes() -> None:
    def build(factor: float) -> Graph:
        graph = conv_graph(dtype="float16")
        graph.find_value("gamma").constant[:] = factor
        graph.find_value("w").constant[:] *= factor
        return graph

    refuses(lambda: build(3e3), "fold-batchnorm", "do not fit float16")
    refuses(lambda: build(1e-3), "fold-batchnorm", "too small for float16")


# scale and shift ----------------------------------------------------------------------------------------------------
def standalone(rank: int = 4, dtype: str = "float32") -> Graph:
    graph = Graph("g")
    x = graph.input("x", dtype, (2, 3, 4, 5, 6)[:rank])
    graph.output(batchnorm(graph, x, 3, dtype=dtype), "y")
    return graph


@pytest.mark.parametrize("rank", [2, 3, 4, 5])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_scale_and_shift(rank: int, dtype: str) -> None:
    graph = fires(lambda: standalone(rank, dtype), "batchnorm-to-affine", 1, ["Mul", "Add"])
    assert graph.nodes[0].arg(1).shape == (3, *(1,) * (rank - 2))


def test_a_mean_large_beside_the_deviation_is_kept() -> None:
    def build() -> Graph:
        graph = standalone()
        graph.find_value("mean").constant[1] = 1e4
        return graph

    refuses(build, "batchnorm-to-affine", "cancel")
