"""Bad models and bad feeds, as a user meets them: one clear exception that names the file, node or feed."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import jitopt
from jitopt import ExecutionError, FeedError, JitoptError, MemoryLimitError, ModelError, ShapeError, UnsupportedOperator
from jitopt.ir.graph import Graph, Value
from tests.onnx_io.support import model_of

node = helper.make_node
info = helper.make_tensor_value_info
RELU = node("Relu", ["x"], ["y"], name="act")
IMAGE = info("x", TensorProto.FLOAT, ["n", 4, 8, 8])
OUT = info("y", TensorProto.FLOAT, None)


def array(shape: tuple[int, ...], name: str = "w", dtype: Any = np.float32) -> TensorProto:
    return numpy_helper.from_array(np.ones(shape, dtype), name)


def conv(*weights: int, **attributes: Any) -> onnx.ModelProto:
    nodes = [node("Conv", ["x", "w"], ["y"], name="conv", **attributes)]
    return model_of(nodes, [IMAGE], [OUT], [array(weights or (4, 4, 3, 3))])


def one(op: str, inputs: list[str] = ["x"], initialisers: list[TensorProto] = [], opset: int = 17,  # noqa: B006
        domain: str = "", x: Any = IMAGE, **attributes: Any) -> onnx.ModelProto:  # fmt: skip
    """A model of one node called "it"."""
    made = node(op, inputs, ["y"], name="it", domain=domain, **attributes)
    model = model_of([made], [x], [info("y", TensorProto.UNDEFINED, None)], initialisers, opset=opset)
    model.graph.output[0].ClearField("type")
    if domain:
        model.opset_import.append(helper.make_opsetid(domain, 1))
    return model


def broken(change: Callable[[Any], Any], model: onnx.ModelProto | None = None) -> onnx.ModelProto:
    model = conv() if model is None else model
    change(model)
    return model


def short_initialiser(model: Any) -> None:
    model.graph.initializer[0].raw_data = model.graph.initializer[0].raw_data[:-1]


def huge_initialiser(model: Any) -> None:
    model.graph.initializer[0].dims[:] = [2**40, 2**40, 3, 3]


def other_output(model: Any) -> None:
    model.graph.output[0].CopyFrom(info("y", TensorProto.INT64, [2]))


# Name -> model, exception, what its text says, the node it names.
MODELS: dict[str, tuple[Callable[[], onnx.ModelProto], type[JitoptError], str, str | None]] = {
    "cycle": (
        lambda: model_of([node("Add", ["x", "b"], ["a"], name="n1"), node("Relu", ["a"], ["b"], name="n2")],
                         ["x"], ["a"]), ModelError, "cycle through", None),
    "undefined tensor": (
        lambda: model_of([node("Add", ["x", "nowhere"], ["y"], name="sum")], ["x"], ["y"]), ModelError,
        "'nowhere' is used, but nothing defines it", "sum"),
    "unknown operator": (lambda: one("Reluu"), UnsupportedOperator, "Reluu", "it"),
    "unknown domain": (lambda: one("Relu", domain="org.example"), UnsupportedOperator, "org.example", "it"),
    "operator newer than the opset": (lambda: one("Gelu", opset=13), UnsupportedOperator, "Gelu", "it"),
    "type error": (
        lambda: one("Add", ["x", "w"], [array((1,), dtype=np.int64)]), ModelError, "must be float32 like 'x'", "it"),
    "dtype the operator does not take": (
        lambda: one("Relu", x=info("x", TensorProto.STRING, [2])), ModelError, "cannot be string", "it"),
    "stride 0": (lambda: conv(strides=[0, 1]), ModelError, "strides", "conv"),
    "negative dilation": (lambda: conv(dilations=[1, -1]), ModelError, "dilations", "conv"),
    "too few strides": (lambda: conv(strides=[1]), ModelError, "'strides' has 1 entries where 2", "conv"),
    "wrong group": (lambda: conv(group=3), ModelError, "do not divide into 3 groups", "conv"),
    "group 0": (lambda: conv(group=0), ModelError, "group", "conv"),
    "group of other channels": (lambda: conv(group=2), ShapeError, "input channels and those of weights", "conv"),
    "kernel_shape of another kernel": (lambda: conv(kernel_shape=[2, 2]), ModelError, "kernel_shape", "conv"),
    "kernel larger than the image": (lambda: conv(4, 4, 9, 9), ShapeError, "kernel reaches over 9 elements", "conv"),
    "bad permutation": (lambda: one("Transpose", perm=[0, 1, 1, 2]), ModelError, "no permutation", "it"),
    "short permutation": (lambda: one("Transpose", perm=[0, 1]), ModelError, "no permutation", "it"),
    "axis out of range": (lambda: one("Softmax", axis=4), ModelError, "axis 4 lies outside", "it"),
    "unknown attribute": (lambda: one("Relu", alpha=1.0), ModelError, "no attribute 'alpha'", "it"),
    "attribute of another kind": (lambda: one("Softmax", axis=1.0), ModelError, "must be INT, it is FLOAT", "it"),
    "missing attribute": (lambda: one("Concat"), ModelError, "needs the attribute 'axis'", "it"),
    "too many inputs": (lambda: one("Relu", ["x", "x"]), ModelError, "has 2 inputs, expected 1", "it"),
    "shapes that do not broadcast": (
        lambda: one("Add", ["x", "w"], [array((5, 8))]), ShapeError, "do not broadcast", "it"),
    "products of other extents": (
        lambda: one("MatMul", ["x", "w"], [array((5, 8))]), ShapeError, "inner extents", "it"),
    "reshape to another count": (
        lambda: one("Reshape", ["x", "w"], [numpy_helper.from_array(np.array([7, 3]), "w")],
                    x=info("x", TensorProto.FLOAT, [4, 5])), ShapeError, "20 elements are not 21", "it"),
    "initialiser too short": (lambda: broken(short_initialiser), ModelError, "'w'", None),
    "initialiser too large to count": (lambda: broken(huge_initialiser), ModelError, "'w'", None),
    "sizes that overflow": (
        lambda: one("Expand", ["x", "w"], [numpy_helper.from_array(np.array([2**40, 2**40]), "w")],
                    x=info("x", TensorProto.FLOAT, [1])), ShapeError, "larger than any memory", "it"),
    "input too large to count": (
        lambda: one("Relu", x=info("x", TensorProto.FLOAT, [2**40, 2**40])), ModelError, "more than 64 bits", None),
    "declared otherwise": (lambda: broken(other_output), ModelError, "of Conv cannot be int64", "conv"),
    "no outputs": (lambda: model_of([RELU], ["x"], []), ModelError, "has no outputs", None),
    "name defined twice": (
        lambda: model_of([RELU, node("Abs", ["x"], ["y"], name="n")], ["x"], ["y"]), ModelError, "defined twice", "n"),
}  # fmt: skip


@pytest.mark.parametrize("case", MODELS)
@pytest.mark.parametrize("form", ["path", "bytes", "proto"])
def test_bad_models(case: str, form: str, tmp_path: Path) -> None:
    build, kind, message, where = MODELS[case]
    model = build()
    source: Any = {"path": tmp_path / "bad.onnx", "bytes": model.SerializeToString(), "proto": model}[form]
    if form == "path":
        source.write_bytes(model.SerializeToString())
    with pytest.raises(kind) as caught:
        jitopt.compile(source)
    error = caught.value
    assert type(error) is kind and message in str(error), str(error)
    assert error.model == (str(source) if form == "path" else error.model) and error.model
    assert where is None or error.node == where
    assert [p.name for p in tmp_path.iterdir()] == (["bad.onnx"] if form == "path" else [])


@pytest.mark.parametrize("size", [0, 1, 50, -1])
def test_truncated_files(size: int, tmp_path: Path) -> None:
    path = tmp_path / "cut.onnx"
    data = conv().SerializeToString()
    path.write_bytes(data[:size])
    with pytest.raises(ModelError, match=r"empty|truncated") as caught:
        jitopt.compile(path)
    assert caught.value.model == str(path)
    path.write_bytes(data)
    assert jitopt.compile(str(path)).get_inputs()[0].name == "x"


def test_files_that_are_no_models(tmp_path: Path) -> None:
    for name, data in (("text", b"a text, no model"), ("image", b"\x89PNG\r\n\x1a\n" + bytes(64))):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(ModelError, match="not an ONNX model") as caught:
            jitopt.compile(tmp_path / name)
        assert caught.value.model == str(tmp_path / name)
    for path in (tmp_path / "missing.onnx", tmp_path):
        with pytest.raises(ModelError, match="cannot be read") as caught:
            jitopt.compile(path)
        assert caught.value.model == str(path)
    for wrong in (3, None, [conv()]):
        with pytest.raises(TypeError, match="a model is a path, bytes or a ModelProto"):
            jitopt.compile(wrong)


def external(tmp_path: Path, location: str) -> Path:
    """A model whose weights are said to lie in the file `location`."""
    model = conv()
    tensor = model.graph.initializer[0]
    data, tensor.raw_data = tensor.raw_data, b""
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=location)
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "weights.bin").write_bytes(data)
    shutil.copy(folder / "weights.bin", tmp_path / "outside.bin")
    (folder / "m.onnx").write_bytes(model.SerializeToString())
    return folder / "m.onnx"


def test_external_data(tmp_path: Path) -> None:
    path = external(tmp_path, "weights.bin")
    before = jitopt.compile(path).run(None, {"x": np.ones((1, 4, 8, 8), np.float32)})[0]
    assert before.shape == (1, 4, 6, 6) and np.all(before == 36)
    (path.parent / "weights.bin").write_bytes(b"short")
    with pytest.raises(ModelError, match=r"weights\.bin"):
        jitopt.compile(path)
    (path.parent / "weights.bin").unlink()
    with pytest.raises(ModelError, match=r"weights\.bin") as caught:
        jitopt.compile(path)
    assert caught.value.model == str(path)


@pytest.mark.parametrize("location", ["../outside.bin", "/etc/passwd", "link.bin", ""])
def test_external_data_outside_the_models_folder(location: str, tmp_path: Path) -> None:
    path = external(tmp_path, location)
    (path.parent / "link.bin").symlink_to(tmp_path / "outside.bin")
    with pytest.raises(ModelError) as caught:
        jitopt.compile(path)
    assert caught.value.model == str(path) and "w" in str(caught.value)


def test_constants_beyond_the_limit_are_refused_while_reading(tmp_path: Path) -> None:
    model = one("MatMul", ["x", "w"], [array((8, 1 << 16))])
    with pytest.raises(MemoryLimitError) as caught:
        jitopt.compile(model, max_memory=1 << 20)
    assert caught.value.model and caught.value.remedy == "raise max_memory"


# graphs built in Python ---------------------------------------------------------------------------------------------
def with_a_cycle(graph: Graph, x: Any) -> Any:
    later = graph.value("later")
    total = graph.add("Add", [x, later], name="total")
    graph.add("Relu", [total], outputs=[later])
    return total


def of_another_graph(graph: Graph, x: Any) -> Any:
    other = Graph("other")
    return graph.add("Add", [x, other.add("Relu", [other.input("x", "float32", (2,))])], name="sum")


def loop_by_floats(graph: Graph, x: Any) -> Any:
    """The operator infers its types by itself, and does not look at the count's."""
    body = Graph("body")
    _, on, carried = (body.input(*i) for i in (("turn", "int64", ()), ("on", "bool", ()), ("v", "float32", (2,))))
    body.output(body.add("Identity", [on]))
    body.output(body.add("Neg", [carried]))
    return graph.add("Loop", [graph.add("Abs", [x]), None, x], name="loop", body=body)


def two_of_one_name(graph: Graph, x: Any) -> Any:
    graph.inputs.append(Value("x", x.type))
    return graph.add("Relu", [x])


def negative_extent(graph: Graph, x: Any) -> Any:
    """`input` refuses it; a type that is set is only seen when the graph is verified."""
    y = graph.input("y", "float32", (2,))
    y.type = y.tensor.with_shape((-2,))
    return graph.add("Relu", [y], name="n")


GRAPHS: dict[str, tuple[Callable[[Graph, Any], Any], str]] = {
    "cycle": (with_a_cycle, "the graph has a cycle"),
    "value of another graph": (of_another_graph, "'Relu_0' is not defined before its use"),
    "value nobody makes": (lambda g, x: g.add("Add", [x, Value("t", x.type)], name="n"), "'t' is not defined before"),
    "unknown operator": (lambda g, x: g.add("Reluu", [x], name="n"), "'Reluu' is unknown"),
    "wrong attribute": (lambda g, x: g.add("Softmax", [x], name="n", axis="a"), "'axis' of Softmax must be int"),
    "dtypes that differ": (lambda g, x: g.add("Add", [x, g.constant(np.ones(2))], name="n"), "must"),
    "trip count that is no integer": (loop_by_floats, "'M') of Loop cannot be float32"),
    "no output": (lambda g, x: None, "has no outputs"),
    "output twice": (lambda g, x: g.output(g.add("Relu", [x])), "listed twice"),
    "one name for two inputs": (two_of_one_name, "two values of graph 'mine' have the name 'x'"),
    "negative extent": (negative_extent, "shape (-2)"),
}  # fmt: skip


@pytest.mark.parametrize("case", GRAPHS)
def test_bad_graphs(case: str) -> None:
    build, message = GRAPHS[case]
    graph = Graph("mine")
    made = build(graph, graph.input("x", "float32", (2,)))
    if made is not None:
        graph.output(made)
    with pytest.raises(JitoptError) as caught:
        jitopt.compile(graph)
    assert message in str(caught.value) and caught.value.model == "mine", str(caught.value)
    assert not isinstance(caught.value, jitopt.CompileError)


# runs ---------------------------------------------------------------------------------------------------------------
IDS = info("ids", TensorProto.INT64, ["n", 2])
LOOK_UP = model_of([node("Gather", ["w", "ids"], ["y"], name="embed")], [IDS], ["y"], [array((5, 3))])
LOOK_UP.graph.output[0].CopyFrom(OUT)

RUNS: dict[str, tuple[Any, type[JitoptError], str]] = {
    "index out of range": ({"ids": np.array([[0, 5]])}, ExecutionError, "node 'embed': index 5 is out of range"),
    "negative index": ({"ids": np.array([[-6, 0]])}, ExecutionError, "node 'embed': index -6 is out of range"),
    "wrong name": ({"id": np.array([[0, 1]])}, FeedError, "did you mean 'ids'"),
    "wrong rank": ({"ids": np.array([0, 1])}, ShapeError, "'ids' has rank 2"),
    "wrong shape": ({"ids": np.array([[0, 1, 2]])}, ShapeError, "axis 1 of input 'ids' must be 2"),
    "wrong dtype": ({"ids": np.array([[0, 1]], np.int32)}, FeedError, "'ids' takes int64, the feed is int32"),
    "missing": ({}, FeedError, "missing feed 'ids'"),
    "superfluous": ({"ids": np.array([[0, 1]]), "more": 1}, FeedError, "no input is named 'more'"),
    "no dictionary": ([np.array([[0, 1]])], FeedError, "must be a dictionary"),
}


def test_bad_runs() -> None:
    session = jitopt.compile(LOOK_UP)
    for case, (feeds, kind, message) in RUNS.items():
        with pytest.raises(kind) as caught:
            session.run(None, feeds)
        assert type(caught.value) is kind and message in str(caught.value), (case, str(caught.value))
        assert caught.value.model == "graph"
        assert session.run(None, {"ids": [[0, -1]]})[0].shape == (1, 2, 3)


def test_every_exception_is_one_of_ours() -> None:
    for kind in (ModelError, UnsupportedOperator, FeedError, ShapeError, jitopt.CompileError, MemoryLimitError):
        error = kind("what", model="m", node="n", remedy="do this")
        assert issubclass(kind, JitoptError)
        assert (error.model, error.node, error.remedy) == ("m", "n", "do this")
        assert str(error) == "model 'm': node 'n': what (do this)"
