"""Inference: types and contents, declared against inferred, subgraphs, errors, and that it costs nothing twice."""

from __future__ import annotations

import time

import numpy as np
import pytest

from jitopt.errors import JitoptError, ModelError, ShapeError, UnsupportedOperator
from jitopt.ir.dims import symbol
from jitopt.ir.graph import Graph, Value
from jitopt.ir.types import tensor
from jitopt.passes import infer
from jitopt.passes.infer import CONTENT_LIMIT
from tests.passes.test_sharing import branch

N = symbol("n")


def i64(g: Graph, *values: int) -> Value:
    return g.constant(np.array(values, np.int64), "i")


def test_types_follow_the_operators() -> None:
    g = Graph("g")
    x = g.input("x", "float32", (N, 3, 8, 8))
    y = g.add("Conv", [x, g.constant(np.zeros((4, 3, 3, 3), np.float32))], strides=[2, 2])
    z = g.add("Flatten", [y])
    infer(g)
    assert str(y.type) == "float32[n, 4, 3, 3]"
    assert str(z.type) == "float32[n, 36]"


def test_nodes_out_of_order_are_sorted() -> None:
    g = Graph("g")
    late = g.value("late")
    g.output(g.add("Neg", [late], name="reader"), "y")
    g.add("Abs", [g.input("x", "float32", (2,))], outputs=[late], name="producer")
    infer(g)
    assert [n.name for n in g] == ["producer", "reader"]
    assert str(g.outputs[0].type) == "float32[2]"


def test_a_cycle() -> None:
    g = Graph("g")
    late = g.value("late")
    y = g.add("Neg", [late])
    g.add("Abs", [y], outputs=[late], name="back")
    with pytest.raises(ModelError, match="cycle"):
        infer(g)


# contents -----------------------------------------------------------------------------------------------------------
def test_contents() -> None:
    g = Graph("g")
    x = g.input("x", "float32", (N, 3, 8))
    s = g.add("Shape", [x])
    n = g.add("Gather", [s, g.constant(np.array(0))], axis=0)
    doubled = g.add("Mul", [n, g.constant(np.array(2))])
    both = g.add("Concat", [g.add("Unsqueeze", [doubled, i64(g, 0)]), i64(g, -1)], axis=0)
    y = g.add("Reshape", [x, both])
    infer(g)
    assert list(s.content) == [N, 3, 8]
    assert doubled.content.shape == () and doubled.content[()] == 2 * N
    assert list(both.content) == [2 * N, -1]
    assert y.shape == (2 * N, 12)


def test_constants_have_content_up_to_a_size() -> None:
    g = Graph("g")
    small, large = (g.constant(np.arange(k), "c") for k in (CONTENT_LIMIT, CONTENT_LIMIT + 1))
    flag, real = g.constant(np.array([True]), "b"), g.constant(np.float32([1.0]), "f")
    for c in (small, large, flag, real):
        g.output(g.add("Identity", [c]))
    infer(g)
    assert small.content is not None and large.content is None
    assert list(flag.content) == [True] and real.content is None


# declared types -----------------------------------------------------------------------------------------------------
def with_declared(declared: object, op: str = "Relu", shape: tuple[object, ...] = (N, 3)) -> Graph:
    g = Graph("g")
    y = g.add(op, [g.input("x", "float32", shape)], name="node")
    y.type = declared  # type: ignore[assignment]
    g.output(y, "y")
    return g


def test_a_formula_counts_before_a_declared_number() -> None:
    g = with_declared(tensor("float32", (1, 3)))
    infer(g)
    assert g.outputs[0].shape == (N, 3)


def test_a_declared_number_counts_where_nothing_is_known() -> None:
    g = with_declared(tensor("int64", (2, 7)), "NonZero")
    infer(g)
    assert g.outputs[0].shape == (2, 7)
    g = with_declared(None, "NonZero")
    infer(g)
    assert [str(d) for d in g.outputs[0].shape] == ["2", "?y_1"]


@pytest.mark.parametrize(
    ("declared", "error", "text"),
    [
        (tensor("float64", (N, 3)), ModelError, "declared float64 but Relu gives float32"),
        (tensor("float32", (N, 4)), ShapeError, "axis 1 of 'y' is declared 4"),
        (tensor("float32", (N, 3, 1)), ShapeError, "declared (n, 3, 1)"),
    ],
)
def test_contradictions(declared: object, error: type[JitoptError], text: str) -> None:
    with pytest.raises(error) as caught:
        infer(with_declared(declared))
    assert text in str(caught.value)
    assert caught.value.node == "node"


@pytest.mark.parametrize(
    ("op", "attrs", "error"),
    [
        ("Transpose", {"perm": [0, 0]}, ModelError),
        ("Flatten", {"axis": 5}, ModelError),
        ("Relu", {"alpha": 1.0}, ModelError),
        ("Softmax", {"axis": "a"}, ModelError),
        ("Nothing", {}, UnsupportedOperator),
    ],
)
def test_errors_name_the_node(op: str, attrs: dict[str, object], error: type[JitoptError]) -> None:
    g = Graph("g")
    g.output(g.add(op, [g.input("x", "float32", (2, 3))], name="culprit", **attrs), "y")
    with pytest.raises(error) as caught:
        infer(g)
    assert caught.value.node == "culprit"


def test_sizes_that_overflow() -> None:
    g = Graph("g")
    g.output(g.add("Expand", [g.input("x", "float32", (1,)), i64(g, 2**40, 2**40)], name="huge"), "y")
    with pytest.raises(ShapeError, match="larger than any memory"):
        infer(g)


def test_unknown_rank_passes_through() -> None:
    g = Graph("g")
    x = g.input("x", "float32", None)
    y = g.add("Transpose", [g.add("Relu", [x])], perm=[1, 0])
    g.output(y, "y")
    infer(g)
    assert y.dtype.name == "float32"


# subgraphs ----------------------------------------------------------------------------------------------------------
def test_if() -> None:
    g = Graph("g")
    x = g.input("x", "float32", (N, 3))
    one = branch("then", ["x"], lambda b, v: b.add("Relu", [v["x"]]))
    two = branch("else", ["x"], lambda b, v: b.add("Transpose", [v["x"]]))
    y = g.add("If", [g.input("go", "bool", ())], captures=[x], then_branch=one, else_branch=two)
    infer(g)
    assert one.outputs[0].shape == (N, 3)
    assert two.outputs[0].shape == (3, N)
    assert y.dtype.name == "float32" and len(y.shape) == 2


def loop(step: object, *, shape: tuple[object, ...] = (1, 3)) -> tuple[Graph, Graph]:
    body = Graph("body")
    i, go = body.input("i", "int64", ()), body.input("go", "bool", ())
    carried = body.value("carried")
    body.inputs.append(carried)
    body.output(body.add("Identity", [go]))
    body.output(step(body, carried, i), "next")  # type: ignore[operator]
    body.output(body.add("ReduceSum", [carried], keepdims=0), "sum")
    g = Graph("g")
    start = g.input("x", "float32", shape)
    y, sums = g.add("Loop", [g.constant(np.array(4)), None, start], outputs=2, body=body, name="loop")
    g.output(y, "y")
    g.output(sums, "sums")
    return g, body


def test_a_loop_that_keeps_its_shape() -> None:
    g, body = loop(lambda b, v, i: b.add("Relu", [v]), shape=(N, 3))
    infer(g)
    assert body.inputs[2].shape == (N, 3)
    assert g.outputs[0].shape == (N, 3)
    assert len(g.outputs[1].shape) == 1


def test_a_loop_that_grows() -> None:
    g, body = loop(lambda b, v, i: b.add("Concat", [v, v], axis=0))
    for _ in range(2):
        infer(g)
        assert [str(d) for d in body.inputs[2].shape] == ["?carried_0", "3"]
        assert str(body.outputs[1].shape[0]) == "2*?carried_0"
        assert g.outputs[0].shape[1] == 3 and not isinstance(g.outputs[0].shape[0], int)


def test_a_loop_that_changes_rank() -> None:
    g, body = loop(lambda b, v, i: b.add("Unsqueeze", [v, i64(b, 0)]))
    infer(g)
    assert body.inputs[2].tensor.shape is None
    assert g.outputs[0].tensor.shape is None


def test_a_loop_that_changes_dtype() -> None:
    g, _ = loop(lambda b, v, i: b.add("Cast", [v], to=11))
    with pytest.raises(ModelError, match="in one turn") as caught:
        infer(g)
    assert caught.value.node == "loop"


def test_scan() -> None:
    body = Graph("body")
    state, x = body.value("state"), body.value("x")
    body.inputs += [state, x]
    total = body.output(body.add("Add", [state, x]), "total")
    body.output(body.add("Identity", [total]), "copy")
    g = Graph("g")
    inputs = [g.input("s", "float32", (3,)), g.input("xs", "float32", (N, 3))]
    last, every = g.add("Scan", inputs, outputs=2, body=body, num_scan_inputs=1)
    infer(g)
    assert x.shape == (3,)
    assert last.shape == (3,)
    assert every.shape[-1] == 3


# repeated runs ------------------------------------------------------------------------------------------------------
def test_a_second_run_keeps_every_object() -> None:
    g = Graph("g")
    x = g.input("x", "float32", (N, 3, 8))
    s = g.add("Shape", [x])
    y = g.add("Reshape", [x, g.add("Concat", [g.add("Slice", [s, i64(g, 0), i64(g, 1)]), i64(g, -1)], axis=0)])
    g.output(y, "y")
    infer(g)
    before = [(id(v.type), id(v.content)) for v in g.values()]
    infer(g)
    assert before == [(id(v.type), id(v.content)) for v in g.values()]


def test_changes_are_noticed() -> None:
    g = Graph("g")
    x = g.input("x", "float32", (2, 3))
    y = g.add("Transpose", [g.add("Relu", [x])], perm=[0, 1], name="t")
    g.output(y, "y")
    infer(g)
    g.node("t").attrs["perm"] = [1, 0]
    y.type = None
    infer(g)
    assert y.shape == (3, 2)
    x.type = tensor("float32", (5, 3))
    for node in g:
        node.output.type = None
    infer(g)
    assert y.shape == (3, 5)


def test_a_thousand_known_nodes_take_milliseconds() -> None:
    g = Graph("g")
    y, c = g.input("x", "float32", (N, 3, 8, 8)), g.constant(np.arange(8, dtype=np.float32))
    for _ in range(500):
        y = g.add("Add", [g.add("Relu", [y]), c])
    g.output(y, "y")
    infer(g)
    times = []
    for _ in range(5):
        start = time.perf_counter()
        infer(g)
        times.append(time.perf_counter() - start)
    assert min(times) < 0.03


def test_an_unknown_rank_excuses_no_dtype() -> None:
    g = Graph("g")
    x, y = g.input("x", "int64", None), g.input("y", "float32", None)
    g.output(g.add("Sub", [x, g.add("Unsqueeze", [y, g.constant(np.array([0]), "axis")])], name="difference"))
    with pytest.raises(ModelError, match="must be int64 like 'x'") as caught:
        infer(g)
    assert caught.value.node == "difference"
