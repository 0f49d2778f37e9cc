"""What is written means the same: to this reader, to ONNX's checker and to ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from jitopt.errors import ModelError, UnsupportedOperator
from jitopt.ir.dims import symbol
from jitopt.ir.dtypes import BY_NAME
from jitopt.ir.graph import Graph, Metadata, walk
from jitopt.ir.interpreter import Interpreter
from jitopt.ir.storage import element_type
from jitopt.ir.text import blobs, print_graph
from jitopt.ir.types import tensor
from jitopt.onnx_io import read_model, write_model
from jitopt.ops import find
from jitopt.passes.infer import infer
from tests.ir.test_interpreter import branch, chain
from tests.onnx_io.support import parsed
from tests.onnx_io.test_bad_models import MODELS
from tests.onnx_io.test_tensors import CODES, random_array, same_bits

onnxruntime = pytest.importorskip("onnxruntime")


def run_by_onnxruntime(source: Any, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    data = source if isinstance(source, str) else source.SerializeToString()
    session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    return dict(zip([o.name for o in session.get_outputs()], session.run(None, feeds), strict=True))


def check(graph: Graph, feeds: dict[str, np.ndarray]) -> onnx.ModelProto:
    """Write the graph and compare the three readings of it."""
    infer(graph)
    model = write_model(graph)
    onnx.checker.check_model(model, full_check=True)
    expected = Interpreter(graph, find).run(feeds)
    again = Interpreter(read_model(model), find).run(feeds)
    theirs = run_by_onnxruntime(model, feeds)
    assert list(expected) == list(again) == list(theirs)
    for name, array in expected.items():
        np.testing.assert_array_equal(again[name], array)
        np.testing.assert_allclose(theirs[name], array, rtol=1e-5, atol=1e-6)
    return model


def random_feeds(graph: Graph, seed: int = 0) -> dict[str, np.ndarray]:
    rng, feeds = np.random.default_rng(seed), {}
    for value in graph.inputs:
        shape = [d if isinstance(d, int) else 2 for d in value.shape]
        feeds[value.name] = np.asarray(rng.normal(size=shape) * 3, value.dtype.numpy)
    return feeds


@pytest.mark.parametrize("name", MODELS)
def test_small_models(name: str) -> None:
    graph = read_model(parsed(MODELS[name]))
    model = check(graph, random_feeds(graph))
    assert model.opset_import[0].version >= 17
    again = read_model(model)
    again.metadata = graph.metadata
    infer(again)
    if name != "branches":  # there the shared constant moves to the top
        assert print_graph(again) == print_graph(graph)


def test_names_order_and_metadata_are_kept(tmp_path: Path) -> None:
    graph = chain()
    graph.metadata = Metadata("maker", "1.0", "org.example", 3, "text", {"k": "v"})
    path = tmp_path / "m.onnx"
    write_model(graph, path)
    again = read_model(path)
    assert again.metadata == graph.metadata and again.name == "chain"
    assert [v.name for v in again.inputs] == ["x"] and [v.name for v in again.outputs] == ["y"]
    assert [n.name for n in again] == [n.name for n in graph]
    assert [p.name for p in tmp_path.iterdir()] == ["m.onnx"]


def test_subgraphs_and_what_they_capture() -> None:
    graph = branch()
    for flag in (True, False):
        check(graph, {"c": np.array(flag), "x": np.array([4.0, 9.0], np.float32)})


def test_outputs_that_no_node_of_the_graph_produces() -> None:
    graph = Graph("g")
    c, x = graph.input("c", "bool", ()), graph.input("x", "float32", (2,))
    w = graph.constant(np.array([5.0, 6.0], np.float32), name="w")
    branches = {}
    for name in ("then_branch", "else_branch"):
        inner = Graph(name)
        captured = inner.value("x", x.type)
        inner.captures.append(captured)
        inner.output(captured if name == "then_branch" else inner.constant(np.array([7.0, 8.0], np.float32), name="v"))
        branches[name] = inner
    y = graph.add("If", [c], captures=[x], name="if", **branches)
    z = graph.add("Add", [y, w], name="z")
    for value in (y, w, z):
        graph.output(value)
    for flag in (True, False):
        model = check(graph, {"c": np.array(flag), "x": np.array([1.0, 2.0], np.float32)})
    assert [o.name for o in model.graph.output] == ["if", "w", "z"]


def test_an_input_may_be_an_output() -> None:
    graph = chain()
    graph.output(graph.inputs[0])
    check(graph, {"x": np.ones((2, 3), np.float32)})


def test_values_of_subgraphs_get_names_of_their_own() -> None:
    graph = branch()
    for inner in walk(graph.nodes[-1].subgraphs):
        inner.nodes[0].output.name = "y"  # as the outer output is called
    model = check(graph, {"c": np.array(True), "x": np.array([4.0, 9.0], np.float32)})
    names = [o for n in model.graph.node for a in n.attribute for m in a.g.node for o in m.output]
    assert sorted(names) == ["y_1", "y_2"]


def test_a_constant_shared_by_subgraphs_is_written_once() -> None:
    model = write_model(read_model(parsed(MODELS["branches"].replace("p = Neg(a)", "p = Add(a, w)"))))
    assert [i.name for i in model.graph.initializer] == ["w"]
    assert not any(a.g.initializer for n in model.graph.node for a in n.attribute)


@pytest.mark.parametrize("code", CODES)
def test_constants_of_every_type(code: int) -> None:
    dtype = next(d for d in BY_NAME.values() if d.onnx_code == code)
    graph = Graph("g")
    value = graph.value("c", tensor(dtype, (3, 5)))
    value.constant = random_array(dtype, (3, 5))
    graph.output(value)
    model = write_model(graph)
    (again,) = read_model(model).constants
    assert again.constant is not None and same_bits(again.constant, value.constant)
    assert element_type(again.constant) is dtype


def test_string_constants_and_attributes() -> None:
    graph = Graph("g")
    strings = np.empty(2, object)
    strings[:] = ["é", ""]
    value = graph.constant(strings, name="s")
    graph.output(graph.add("Identity", [value], name="copy"), name="y")
    (again,) = read_model(write_model(graph)).constants
    assert again.constant is not None and again.constant.tolist() == ["é", ""]


def test_integers_are_written_as_floats_where_the_operator_takes_floats() -> None:
    graph = Graph("g")
    x = graph.input("x", "float32", (symbol("n"), 2))
    y = graph.add("LeakyRelu", [x], name="leaky", alpha=2)
    graph.output(graph.add("Transpose", [y], name="t", perm=[1, 0]), name="y")
    check(graph, {"x": np.array([[-1.0, 2.0]], np.float32)})
    assert [a.type for n in write_model(graph).graph.node for a in n.attribute] == [
        onnx.AttributeProto.FLOAT,
        onnx.AttributeProto.INTS,
    ]


def test_optional_outputs_that_nobody_reads_are_left_out() -> None:
    graph = Graph("g")
    x = graph.input("x", "float32", (1, 1, 4, 4))
    y, _ = graph.add("MaxPool", [x], outputs=2, name="pool", kernel_shape=(2, 2))
    graph.output(y)
    assert list(write_model(graph).graph.node[0].output) == ["pool"]


def test_the_opset_is_the_oldest_that_has_every_form() -> None:
    def opset(op: str, **attrs: Any) -> int:
        graph = Graph("g")
        x = graph.input("x", "float32", (2, 4))
        graph.output(graph.add(op, [x], name="n", **attrs), name="y")
        return int(write_model(graph).opset_import[0].version)

    assert opset("Relu") == 17
    assert opset("ReduceMean", keepdims=0) == 18
    assert opset("Gelu") == 20
    assert opset("Cast", to=1) in (17, 19)
    with pytest.raises(ModelError, match=r"no opset up to \d+ takes Relu in this form: Relu of opset .* 'odd'"):
        opset("Relu", odd=1)


def test_operators_of_our_own_become_functions() -> None:
    graph = Graph("g")
    x = graph.input("x", "float32", (1, 2, 2, 2))
    y = graph.add("jitopt.Reorder", [x], name="reorder")
    graph.output(graph.add("Relu", [y], name="relu"), name="y")
    model = write_model(graph)
    assert [(f.domain, f.name) for f in model.functions] == [("jitopt", "Reorder")]
    array = np.arange(-4, 4, dtype=np.float32).reshape(1, 2, 2, 2)
    np.testing.assert_array_equal(run_by_onnxruntime(model, {"x": array})["y"], np.maximum(array, 0))
    assert [n.op for n in read_model(model)] == ["jitopt.Reorder", "Relu"]
    graph.node("reorder").op = "jitopt.Unwritten"
    with pytest.raises(UnsupportedOperator, match=r"jitopt\.Unwritten has no definition"):
        write_model(graph)


def large() -> Graph:
    graph = Graph("large")
    value = graph.input("x", "float32", (1, 512))
    rng = np.random.default_rng(0)
    for i in range(3):
        value = graph.add(
            "MatMul", [value, graph.constant(rng.uniform(0, 0.004, (512, 512)).astype(np.float32), name=f"w{i}")]
        )
    graph.output(graph.add("Mul", [value, graph.constant(np.float32([0.5]), name="half")]), name="y")
    return graph


def test_large_constants_go_beside_the_model(tmp_path: Path) -> None:
    graph, path = large(), tmp_path / "big.onnx"
    model = write_model(graph, path, external_above=1_000_000)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["big.onnx", "big.onnx.data"]
    assert path.stat().st_size < 10_000
    assert [bool(i.external_data) for i in model.graph.initializer] == [True, True, True, False]
    again = read_model(path)
    assert blobs(again).keys() == blobs(graph).keys()
    feeds = {"x": np.ones((1, 512), np.float32)}
    expected = Interpreter(graph, find).run(feeds)["y"]
    np.testing.assert_array_equal(Interpreter(again, find).run(feeds)["y"], expected)
    np.testing.assert_allclose(run_by_onnxruntime(str(path), feeds)["y"], expected, rtol=1e-3)
    with pytest.raises(ModelError, match="give a path"):
        write_model(graph, external_above=1_000_000)


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(b"old")
    graph = chain()
    graph.node("b").attrs["odd"] = 1
    for limit in (0, 1 << 30):
        with pytest.raises(ModelError) as caught:
            write_model(graph, path, external_above=limit)
        assert caught.value.node == "b"
    assert path.read_bytes() == b"old" and [p.name for p in tmp_path.iterdir()] == ["m.onnx"]
    with pytest.raises(OSError, match="No such file"):
        write_model(chain(), tmp_path / "none" / "m.onnx")
