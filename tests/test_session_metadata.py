"""What a session says of its model is what ONNX Runtime says of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import jitopt

TYPES = {
    "f": TensorProto.FLOAT, "d": TensorProto.DOUBLE, "h": TensorProto.FLOAT16, "i": TensorProto.INT32,
    "l": TensorProto.INT64, "b": TensorProto.BOOL, "u": TensorProto.UINT8, "s": TensorProto.STRING,
}  # fmt: skip


def described() -> onnx.ModelProto:
    """Inputs of many types and shapes, an initialiser among the inputs, outputs with names of their own."""
    info = helper.make_tensor_value_info
    inputs = [info(f"in {letter}", type, ["batch", 3, None]) for letter, type in TYPES.items()]
    inputs += [info("scalar", TensorProto.FLOAT, []), info("w", TensorProto.FLOAT, [3, 1])]
    nodes = [helper.make_node("Identity", [f"in {letter}"], [f"out {letter}"]) for letter in TYPES]
    nodes += [
        helper.make_node("Mul", ["in f", "w"], ["product"]),
        helper.make_node("Add", ["product", "scalar"], ["total"]),
        helper.make_node("Concat", ["in f", "in f"], ["doubled"], axis=0),
        helper.make_node("NonZero", ["in b"], ["places"]),
        helper.make_node("SequenceConstruct", ["in f", "total"], ["sequence"]),
        helper.make_node("Shape", ["in f"], ["extents"]),
    ]
    outputs = [info(f"out {letter}", type, ["batch", 3, None]) for letter, type in TYPES.items()]
    outputs += [
        info("total", TensorProto.FLOAT, ["batch", 3, None]),
        info("doubled", TensorProto.FLOAT, ["twice", 3, None]),
        info("places", TensorProto.INT64, [3, "found"]),
        helper.make_tensor_sequence_value_info("sequence", TensorProto.FLOAT, ["batch", 3, None]),
        info("extents", TensorProto.INT64, [3]),
    ]
    w = numpy_helper.from_array(np.ones((3, 1), np.float32), "w")
    graph = helper.make_graph(nodes, "described graph", inputs, outputs, [w])
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, producer_name="a producer",
        producer_version="1.2", domain="org.example", doc_string="what it does", model_version=42,
    )  # fmt: skip
    helper.set_model_props(model, {"labels": "cat, dog", "empty": ""})
    return model


@pytest.fixture(scope="module")
def sessions() -> tuple[Any, Any]:
    model = described()
    theirs = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return jitopt.compile(model), theirs


def test_inputs_and_outputs(sessions: tuple[Any, Any]) -> None:
    ours, theirs = sessions
    for method in ("get_inputs", "get_outputs"):
        expected = {arg.name: (arg.type, arg.shape) for arg in getattr(theirs, method)()}
        found = {arg.name: (arg.type, arg.shape) for arg in getattr(ours, method)()}
        assert list(found) == list(expected)
        for name, (type, shape) in expected.items():
            assert found[name][0] == type, name
            if not type.startswith("seq"):
                assert found[name][1] == shape, name
    assert "w" not in [arg.name for arg in ours.get_inputs()]


def test_metadata(sessions: tuple[Any, Any]) -> None:
    ours, theirs = (session.get_modelmeta() for session in sessions)
    for field in ("producer_name", "graph_name", "domain", "description", "version", "custom_metadata_map"):
        assert getattr(ours, field) == getattr(theirs, field), field
    assert ours.custom_metadata_map == {"labels": "cat, dog", "empty": ""} and ours.version == 42


def test_providers_and_text(sessions: tuple[Any, Any]) -> None:
    assert sessions[0].get_providers() == ["JitoptExecutionProvider"]
    assert "described graph" in repr(sessions[0])


def test_both_answer_alike(sessions: tuple[Any, Any]) -> None:
    ours, theirs = sessions
    rng = np.random.default_rng(0)
    feeds: dict[str, Any] = {"scalar": np.float32(0.5)}
    for letter in TYPES:
        array = rng.integers(0, 2, (2, 3, 4))
        dtypes = {"f": "f4", "d": "f8", "h": "f2", "i": "i4", "l": "i8", "b": "?", "u": "u1", "s": object}
        feeds[f"in {letter}"] = array.astype(str).astype(object) if letter == "s" else array.astype(dtypes[letter])
    names = [arg.name for arg in theirs.get_outputs()]
    wanted = theirs.run(None, {**feeds, "scalar": np.asarray(feeds["scalar"])})
    for name, a, b in zip(names, ours.run(None, feeds), wanted, strict=True):
        for x, y in zip(a, b, strict=True) if isinstance(b, list) else [(a, b)]:
            assert x.dtype == y.dtype and x.shape == y.shape, name
            np.testing.assert_array_equal(x, y, err_msg=name)


def test_extents_without_a_name_are_none() -> None:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, "", 4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    theirs = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    ours = jitopt.compile(model)
    assert ours.get_inputs()[0].shape == theirs.get_inputs()[0].shape == [None, None, 4]
    assert ours.get_outputs()[0].shape == [None, None, 4]
