"""Constant factors and summands into contractions, behind and before them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jitopt.ir.graph import Graph
from tests.passes.helpers import fires, floats, ops, refuses, run_pass

PER_CHANNEL = floats(6, 1, 1, seed=5)


def conv_then(
    op: str, constant: Any, *, bias: bool = True, first: bool = False, group: int = 1, width: int = 7
) -> Graph:
    graph = Graph("g")
    x = graph.input("x", "float32", (2, 4, 7, width))
    w = graph.constant(floats(6, 4 // group, 3, 3), "w")
    inputs = [x, w] + ([graph.constant(floats(6, seed=9), "b")] if bias else [])
    y = graph.add("Conv", inputs, name="conv", group=group, pads=[1, 1, 1, 1])
    c = graph.constant(np.asarray(constant, np.float32), "c")
    graph.output(graph.add(op, [c, y] if first else [y, c], name="after"), "y")
    return graph


@pytest.mark.parametrize("op", ["Mul", "Add", "Sub", "Div"])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("shape", [(), (1,), (6, 1, 1), (1, 6, 1, 1), (1, 1, 1, 1)])
def test_behind_a_conv(op: str, bias: bool, shape: tuple[int, ...]) -> None:
    constant = floats(*shape, low=0.5, seed=4)
    fires(lambda: conv_then(op, constant, bias=bias, group=2), "fold-affine", 1, ["Conv"])


@pytest.mark.parametrize("op", ["Mul", "Add", "Sub"])
def test_constant_on_the_left(op: str) -> None:
    fires(lambda: conv_then(op, PER_CHANNEL, first=True), "fold-affine", 1, ["Conv"])


def test_a_factor_alone_adds_no_bias() -> None:
    graph = conv_then("Mul", PER_CHANNEL, bias=False)
    run_pass(graph, "fold-affine")
    assert len(graph.nodes[0].inputs) == 2


def test_a_chain_folds_in_one_run() -> None:
    def build() -> Graph:
        graph = conv_then("Mul", PER_CHANNEL)
        y = graph.outputs.pop()
        y = graph.add("Add", [y, graph.constant(floats(6, 1, 1))])
        graph.output(graph.add("Div", [y, graph.constant(3.0)]), "z")
        return graph

    fires(build, "fold-affine", 3, ["Conv"])


def test_conv_transpose_and_groups() -> None:
    def build() -> Graph:
        graph = Graph("g")
        x = graph.input("x", "float32", (1, 4, 5, 5))
        y = graph.add("ConvTranspose", [x, graph.constant(floats(4, 3, 2, 2))], group=2, strides=[2, 2])
        graph.output(graph.add("Mul", [y, graph.constant(PER_CHANNEL)]), "y")
        return graph

    fires(build, "fold-affine", 1, ["ConvTranspose"])


@pytest.mark.parametrize("trans_b", [0, 1])
def test_gemm(trans_b: int) -> None:
    def build() -> Graph:
        graph = Graph("g")
        x = graph.input("x", "float32", (3, 4))
        w = graph.constant(floats(*((5, 4) if trans_b else (4, 5))))
        y = graph.add("Gemm", [x, w, graph.constant(floats(5))], transB=trans_b, beta=2.0, alpha=0.5)
        y = graph.add("Mul", [y, graph.constant(floats(5, seed=2))])
        graph.output(graph.add("Add", [y, graph.constant(floats(1, 5, seed=3))]), "y")
        return graph

    fires(build, "fold-affine", 2, ["Gemm"])


@pytest.mark.parametrize("rank", [1, 2, 3, 4])
def test_matmul_with_its_bias(rank: int) -> None:
    def build() -> Graph:
        graph = Graph("g")
        x = graph.input("x", "float32", (2, 3, 4, 4)[-rank:])
        y = graph.add("MatMul", [x, graph.constant(floats(4, 5))])
        y = graph.add("Add", [y, graph.constant(floats(5))])
        graph.output(graph.add("Mul", [y, graph.constant(0.125)]), "y")
        return graph

    fires(build, "fold-affine", 1, ["Gemm"] if rank == 2 else ["MatMul", "Add"])


# near misses --------------------------------------------------------------------------------------------------------
def test_a_vector_along_the_last_axis_is_not_per_channel() -> None:
    refuses(lambda: conv_then("Mul", floats(6), width=6), "fold-affine", "not one number for each channel")


@pytest.mark.parametrize("shape", [(2, 6, 1, 1), (6, 7, 1), (1, 1, 6, 1, 1)])
def test_a_constant_that_varies_or_broadcasts(shape: tuple[int, ...]) -> None:
    refuses(lambda: conv_then("Add", floats(*shape)), "fold-affine", "not one number for each channel")


@pytest.mark.parametrize("constant", [np.nan, np.inf])
def test_a_constant_that_is_not_finite(constant: float) -> None:
    refuses(lambda: conv_then("Mul", constant), "fold-affine", "not one number")


def test_division_by_zero_and_of_a_constant() -> None:
    refuses(lambda: conv_then("Div", 0.0), "fold-affine", "not one number")
    refuses(lambda: conv_then("Div", 1.0, first=True), "fold-affine", "not one number")


def test_another_reader_and_a_shared_weight() -> None:
    def another() -> Graph:
        graph = conv_then("Mul", PER_CHANNEL)
        graph.output(graph.node("conv").output, "other")
        return graph

    def shared() -> Graph:
        graph = conv_then("Mul", PER_CHANNEL)
        graph.output(graph.add("Conv", [graph.inputs[0], graph.find_value("w")]), "other")
        return graph

    refuses(another, "fold-affine", "another reader")
    refuses(shared, "fold-affine", "shared")


def test_a_residual_is_left_alone() -> None:
    def build() -> Graph:
        graph = conv_then("Add", PER_CHANNEL)
        graph.node("after").set_input(1, graph.input("r", "float32", (2, 6, 7, 7)))
        return graph

    refuses(build, "fold-affine", None)


# before a contraction -----------------------------------------------------------------------------------------------
def before(
    op: str, constant: Any, *, pads: int = 0, group: int = 1, kind: str = "Conv", bias: bool = True, **attrs: Any
) -> Graph:
    graph = Graph("g")
    x = graph.input("x", "float32", (2, 4, 7, 7))
    y = graph.add(op, [x, graph.constant(np.asarray(constant, np.float32), "c")], name="before")
    w = graph.constant(floats(*((6, 4 // group) if kind == "Conv" else (4, 6 // group)), 3, 3), "w")
    inputs = [y, w] + ([graph.constant(floats(6), "b")] if bias else [])
    graph.output(graph.add(kind, inputs, name="conv", group=group, pads=[pads] * 4, **attrs), "y")
    return graph


@pytest.mark.parametrize("op", ["Mul", "Add", "Sub", "Div"])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("group", [1, 2])
def test_before_a_conv(op: str, bias: bool, group: int) -> None:
    constant = floats(4, 1, 1, low=0.5)
    fires(lambda: before(op, constant, bias=bias, group=group), "fold-affine-before", 1, ["Conv"])


def test_a_factor_before_padding_and_before_conv_transpose() -> None:
    fires(lambda: before("Mul", floats(4, 1, 1), pads=1), "fold-affine-before", 1, ["Conv"])
    for group in (1, 2):
        fires(lambda g=group: before("Mul", floats(4, 1, 1), kind="ConvTranspose", group=g), "fold-affine-before", 1,
              ["ConvTranspose"])  # fmt: skip


def test_normalisation_of_the_input_folds_whole() -> None:
    def build() -> Graph:
        graph = before("Mul", floats(4, 1, 1), pads=0)
        x = graph.add("Sub", [graph.inputs[0], graph.constant(floats(4, 1, 1, seed=8))])
        graph.node("before").set_input(0, x)
        graph.sort()
        return graph

    fires(build, "fold-affine-before", 2, ["Conv"])


@pytest.mark.parametrize("kind", ["Gemm", "MatMul"])
@pytest.mark.parametrize("op", ["Mul", "Add"])
def test_before_a_matrix_product(kind: str, op: str) -> None:
    def build() -> Graph:
        graph = Graph("g")
        x = graph.input("x", "float32", (3, 4))
        y = graph.add(op, [x, graph.constant(floats(4))])
        attrs = {"alpha": 0.5, "transB": 1} if kind == "Gemm" else {}
        w = graph.constant(floats(*((5, 4) if attrs else (4, 5))))
        graph.output(graph.add(kind, [y, w], **attrs), "y")
        return graph

    fires(build, "fold-affine-before", 1, ["Gemm"] if kind == "Gemm" or op == "Add" else ["MatMul"])


def test_padding_is_zero_not_shifted() -> None:
    refuses(lambda: before("Add", floats(4, 1, 1), pads=1), "fold-affine-before", "padding")
    refuses(lambda: before("Add", floats(4, 1, 1), kind="ConvTranspose"), "fold-affine-before", "padding")


def test_automatic_padding_may_pad() -> None:
    def build() -> Graph:
        graph = before("Add", floats(4, 1, 1))
        del graph.node("conv").attrs["pads"]
        graph.node("conv").attrs["auto_pad"] = "SAME_UPPER"
        return graph

    refuses(build, "fold-affine-before", "padding")


def test_the_scaled_input_has_another_reader() -> None:
    def build() -> Graph:
        graph = before("Mul", floats(4, 1, 1))
        graph.output(graph.node("before").output, "other")
        return graph

    refuses(build, "fold-affine-before", "another reader")


def test_transposed_input_and_wrong_axis() -> None:
    def transposed() -> Graph:
        graph = Graph("g")
        x = graph.input("x", "float32", (4, 4))
        y = graph.add("Mul", [x, graph.constant(floats(4))])
        graph.output(graph.add("Gemm", [y, graph.constant(floats(4, 5))], transA=1), "y")
        return graph

    refuses(transposed, "fold-affine-before", None)
    refuses(lambda: before("Mul", floats(7)), "fold-affine-before", None)


def test_normal_order_prefers_the_producer() -> None:
    """Between two convolutions a factor goes into the first, where no padding can be in the way."""
    graph = conv_then("Mul", PER_CHANNEL)
    y = graph.outputs.pop()
    graph.output(graph.add("Conv", [y, graph.constant(floats(2, 6, 3, 3))], pads=[1, 1, 1, 1]), "z")
    run_pass(graph, "fold-affine")
    assert ops(graph) == ["Conv", "Conv"]
