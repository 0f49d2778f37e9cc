"""Constant folding and shape arithmetic: what becomes constant, what is too large, random or wrong to fold."""

from __future__ import annotations

import numpy as np
import pytest

from jitopt.ir.dims import symbol
from jitopt.ir.graph import Graph, Value
from jitopt.ops import find
from jitopt.passes import infer, optimize
from tests.passes.helpers import fires, floats, ops, refuses, run_pass


def i64(g: Graph, *values: int) -> Value:
    return g.constant(np.array(values, np.int64), "i")


def chain() -> Graph:
    g = Graph("g")
    w = g.add("Transpose", [g.add("Exp", [g.constant(floats(3, 4), "w")])])
    a, b = g.add("Split", [w], outputs=2, axis=0, num_outputs=2)
    g.output(g.add("MatMul", [g.add("MatMul", [g.input("x", "float32", (2, 2)), a]), g.add("Transpose", [b])]), "y")
    return g


def test_folds_a_chain_with_several_outputs() -> None:
    graph = fires(chain, "fold-constants", 4, ["MatMul", "MatMul"])
    assert graph.nodes[0].arg(1).constant.flags.c_contiguous


def test_an_output_keeps_its_name() -> None:
    def build() -> Graph:
        g = Graph("g")
        g.output(g.add("Neg", [g.constant(floats(3), "c")]), "y")
        return g

    fires(build, "fold-constants", 1, ["Identity"])


def test_random_operators_are_never_folded() -> None:
    def build() -> Graph:
        g = Graph("g")
        g.output(g.add("RandomNormalLike", [g.constant(floats(3), "c")]), "y")
        return g

    if find("RandomNormalLike") is None:
        pytest.skip("no random operator is declared")
    refuses(build, "fold-constants", "run to run")


def expanded(rows: int) -> Graph:
    g = Graph("g")
    big = g.add("Expand", [g.constant(floats(1, 8), "c"), i64(g, rows, 8)], name="big")
    g.output(g.add("Add", [g.input("x", "float32", (rows, 8)), big]), "y")
    return g


def test_size_limits() -> None:
    fires(lambda: expanded(100), "fold-constants", 1, ["Add"], exact=True)
    fires(lambda: expanded(24), "fold-constants", 1, ["Add"], fold_bytes=0)  # 16 times the inputs, shape included
    refuses(lambda: expanded(25), "fold-constants", "more than 768", fold_bytes=0)
    refuses(lambda: expanded(2**20), "fold-constants", "33554432 bytes, more than 1000000", fold_bytes=1000000)


def test_memory_limit() -> None:
    refuses(lambda: expanded(2**16), "fold-constants", "max_memory", max_memory=2**20)


def test_large_contractions() -> None:
    def build() -> Graph:
        g = Graph("g")
        a = g.constant(np.ones((600, 600), np.float32), "a")
        g.output(g.add("Add", [g.add("MatMul", [a, a]), g.input("x", "float32", (1,))]), "y")
        return g

    refuses(build, "fold-constants", "large contraction")


def test_a_node_that_would_fail_is_left_for_run_time() -> None:
    def build() -> Graph:
        g = Graph("g")
        g.output(g.add("Gather", [g.constant(floats(3), "c"), i64(g, 7)]), "y")
        return g

    refuses(build, "fold-constants", "reference fails")


def test_exact_mode_folds_only_what_is_exact() -> None:
    g = chain()
    optimize(g, precision="exact")
    assert ops(g) == ["Exp", "Transpose", "Split", "MatMul", "Transpose", "MatMul"]
    g = Graph("g")
    c = g.add("Sqrt", [g.add("Div", [g.constant(floats(3, low=0.1), "c"), g.constant(3.0)])])
    g.output(g.add("Add", [g.input("x", "float32", (3,)), g.add("Reshape", [c, i64(g, 3)])]), "y")
    optimize(g, precision="exact")
    assert ops(g) == ["Add"]


# shape arithmetic ---------------------------------------------------------------------------------------------------
def shaped(batch: object) -> Graph:
    g = Graph("g")
    x = g.input("x", "float32", (batch, 3, 4, 5))
    s = g.add("Shape", [x])
    c = g.add("Gather", [s, i64(g, 1)], axis=0)
    hw = g.add("Mul", [g.add("Slice", [s, i64(g, 2), i64(g, 3)]), g.add("Slice", [s, i64(g, 3), i64(g, 4)])])
    b = g.add("Gather", [s, i64(g, 0)], axis=0)
    g.output(g.add("Reshape", [x, g.add("Concat", [b, c, hw], axis=0)]), "y")
    return g


def test_static_shapes_become_constants() -> None:
    g = shaped(2)
    result = run_pass(g, "shape-arithmetic")
    assert len(result.changes) >= 5
    assert ops(g) == ["Reshape"]


def test_symbolic_shapes_stay_where_they_must() -> None:
    g = shaped(symbol("n"))
    run_pass(g, "shape-arithmetic")
    assert "Mul" not in ops(g)
    assert "Shape" in ops(g)
    optimize(g)
    assert ops(g) == ["Reshape"]
    assert [int(d) for d in g.nodes[0].arg(1).constant] == [0, 3, 20]


def test_an_output_of_shape_arithmetic() -> None:
    def build() -> Graph:
        g = Graph("g")
        g.output(g.add("Shape", [g.input("x", "float32", (2, 3))]), "y")
        return g

    graph = fires(build, "shape-arithmetic", 1, ["Identity"], exact=True)
    assert graph.outputs[0].dtype.name == "int64"


def test_contents_are_followed_through_casts() -> None:
    g = Graph("g")
    x = g.input("x", "float32", (symbol("n"), 6))
    n = g.add("Cast", [g.add("Gather", [g.add("Shape", [x]), i64(g, 1)], axis=0)], to=6)
    g.output(n, "y")
    infer(g)
    assert list(n.content.flat) == [6]
    run_pass(g, "shape-arithmetic")
    assert g.outputs[0].producer.arg(0).constant.dtype == np.int32
