"""What the reader makes of well-formed models: names, types, constants, metadata, versions."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from jitopt.errors import ModelError, UnsupportedOperator
from jitopt.ir.dims import symbol
from jitopt.ir.types import OptionalType, SequenceType, tensor
from jitopt.onnx_io import read_model
from jitopt.onnx_io.schema import NEWEST_IR, NEWEST_OPSET
from jitopt.ops.operator import Operator
from tests.onnx_io.support import any_operator, model_of, parsed, read

SMALL = """
agraph (float[n, 3] x, float[?] b) => (float[n, 3] y)
<float[3] w = {1.0, 2.0, 3.0}>
{
    s = Add(x, w)
    y = Mul(s, b)
}
"""


def test_inputs_outputs_nodes_and_constants() -> None:
    graph = read(SMALL)
    assert [str(v) for v in graph.inputs] == ["%x: float32[n, 3]", "%b: float32[?b_0]"]
    assert [v.name for v in graph.outputs] == ["y"]
    assert [node.op for node in graph] == ["Add", "Mul"]
    (w,) = graph.constants
    assert w.name == "w" and w.constant is not None and w.constant.tolist() == [1, 2, 3]
    assert graph.inputs[0].shape[0] is symbol("n")
    assert graph.outputs[0].type == tensor("float32", (symbol("n"), 3))


def test_path_pathlike_bytes_and_proto_give_the_same_graph(tmp_path: Path) -> None:
    model = parsed(SMALL)
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    for source in (path, str(path), path.read_bytes(), bytearray(path.read_bytes()), model):
        graph = read_model(source, operators=any_operator)
        assert [repr(n) for n in graph] == [repr(n) for n in read(model)]
    with pytest.raises(TypeError, match="not int"):
        read_model(3)  # type: ignore[arg-type]


def test_metadata() -> None:
    model = parsed(SMALL)
    model.producer_name, model.producer_version, model.domain = "maker", "1.2", "org.example"
    model.model_version, model.doc_string = 7, "what it does"
    model.metadata_props.add(key="labels", value="a,b")
    graph = read(model)
    found = graph.metadata
    assert (found.producer_name, found.producer_version, found.domain) == ("maker", "1.2", "org.example")
    assert (found.version, found.description, found.custom) == (7, "what it does", {"labels": "a,b"})
    assert graph.name == "agraph"


def test_initialisers_listed_as_inputs_are_constants() -> None:
    w = numpy_helper.from_array(np.ones(2, np.float32), "w")
    graph = read(model_of([helper.make_node("Add", ["x", "w"], ["y"])], ["x", "w"], ["y"], [w], ir_version=3))
    assert [v.name for v in graph.inputs] == ["x"]
    assert [v.name for v in graph.constants] == ["w"]


def test_constant_nodes_of_every_form() -> None:
    graph = read("""
        agraph (float[2] x) => (float[2] y, float c1, float[2] c2, int64 c3, int64[2] c4, string c5, string[2] c6) {
            c0 = Constant <value = float[2] {1, 2}> ()
            c1 = Constant <value_float = 2.5> ()
            c2 = Constant <value_floats = [1.5, 2.5]> ()
            c3 = Constant <value_int = 3> ()
            c4 = Constant <value_ints = [3, 4]> ()
            c5 = Constant <value_string = "s"> ()
            c6 = Constant <value_strings = ["s", "t"]> ()
            y = Add(x, c0)
        }""")
    assert [node.op for node in graph] == ["Add"]
    found = {v.name: v for v in graph.constants}
    expected = {"c0": "float32[2]", "c1": "float32[]", "c2": "float32[2]", "c3": "int64[]", "c4": "int64[2]"}
    assert {n: str(v.type) for n, v in found.items()} == {**expected, "c5": "string[]", "c6": "string[2]"}
    assert found["c3"].constant == 3 and found["c6"].constant is not None and list(found["c6"].constant) == ["s", "t"]
    assert [v.name for v in graph.outputs] == ["y", "c1", "c2", "c3", "c4", "c5", "c6"]


def test_sparse_initialisers_become_dense() -> None:
    values = numpy_helper.from_array(np.array([5.0], np.float32), "w")
    indices = numpy_helper.from_array(np.array([1], np.int64), "indices")
    model = model_of([helper.make_node("Add", ["x", "w"], ["y"])], ["x"], ["y"])
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [2]))
    (w,) = read(model).constants
    assert w.constant is not None and w.constant.tolist() == [0, 5]


def test_node_names_are_unique_and_absent_operands_are_none() -> None:
    graph = read("""
        agraph (float[2] x) => (float[2] z) {
            y = Clip(x, , x)
            [relu] w = Relu(y)
            [relu] v = Relu(w)
            u = Relu(v)
            t = Relu(u)
            z = Clip(t, , )
        }""")
    assert [n.name for n in graph] == ["Clip", "relu", "relu_1", "Relu", "Relu_1", "Clip_1"]
    assert [v and v.name for v in graph.node("Clip").inputs] == ["x", None, "x"]
    assert [v and v.name for v in graph.node("Clip_1").inputs] == ["t"]


def test_absent_outputs() -> None:
    nodes = [helper.make_node("LSTM", ["x", "w", "r"], ["", "h", ""], name="lstm", hidden_size=4)]
    (node,) = read(model_of(nodes, ["x", "w", "r"], ["h"]))
    assert [v.name for v in node.outputs] == ["lstm:0", "h"]
    nodes = [helper.make_node("Split", ["x"], ["", "y", ""], name="split", axis=0)]
    (node,) = read(model_of(nodes, ["x"], ["y"]))
    assert [v.name for v in node.outputs] == ["split:0", "y", "split:2"]


def test_nodes_out_of_order_are_sorted() -> None:
    nodes = [helper.make_node("Relu", ["t"], ["y"]), helper.make_node("Abs", ["x"], ["t"])]
    assert [n.op for n in read(model_of(nodes, ["x"], ["y"]))] == ["Abs", "Relu"]


def test_an_output_may_be_an_input_or_a_constant() -> None:
    w = numpy_helper.from_array(np.ones(2, np.float32), "w")
    graph = read(model_of([helper.make_node("Relu", ["x"], ["y"])], ["x"], ["x", "w", "y"], [w]))
    assert graph.outputs[0] is graph.inputs[0]
    assert [v.name for v in graph.outputs] == ["x", "w", "y"]


@pytest.mark.parametrize(
    ("dims", "expected"),
    [
        ([1, "n"], "float32[1, n]"),
        ([None, None], "float32[?x_0, ?x_1]"),
        (["", "?"], "float32[?x_0, ?x_1]"),
        ([-1, 4], "float32[?x_0, 4]"),
        ([0], "float32[0]"),
        ([], "float32[]"),
        (None, "float32[*]"),
    ],
)
def test_shapes_of_inputs(dims: list | None, expected: str) -> None:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, dims)
    graph = read(model_of([helper.make_node("Relu", ["x"], ["y"])], [x], ["y"]))
    assert str(graph.inputs[0].type) == expected


def test_sequences_and_optionals() -> None:
    element = helper.make_tensor_type_proto(TensorProto.INT64, [2])
    sequence = helper.make_sequence_type_proto(element)
    infos = [
        helper.make_value_info("s", sequence),
        helper.make_value_info("o", helper.make_optional_type_proto(sequence)),
    ]
    graph = read(model_of([helper.make_node("Relu", ["x"], ["y"])], ["x", *infos], ["y"]))
    assert graph.inputs[1].type == SequenceType(tensor("int64", (2,)))
    assert graph.inputs[2].type == OptionalType(SequenceType(tensor("int64", (2,))))


def test_both_spellings_of_the_default_domain_and_foreign_domains() -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], domain="ai.onnx"),
        helper.make_node("Special", ["a"], ["y"], domain="org.example"),
    ]
    assert [n.op for n in read(model_of(nodes, ["x"], ["y"]))] == ["Relu", "org.example.Special"]


def test_unknown_operators_name_node_and_model() -> None:
    for domain, op, message in (
        ("org.example", "Special", "no operator 'Special' in domain 'org.example'"),
        ("", "Rleu", "no operator 'Rleu' in ONNX's operator set at opset 17"),
    ):
        model = model_of([helper.make_node(op, ["x"], ["y"], name="odd", domain=domain)], ["x"], ["y"])
        with pytest.raises(UnsupportedOperator, match=message) as caught:
            read_model(model, name="m.onnx")
        assert caught.value.node == "odd" and caught.value.model == "m.onnx"


def test_versions_beyond_those_known(caplog: pytest.LogCaptureFixture) -> None:
    node = [helper.make_node("Relu", ["x"], ["y"])]
    with pytest.raises(ModelError, match=f"opset {NEWEST_OPSET + 1} is newer than {NEWEST_OPSET}"):
        read(model_of(node, ["x"], ["y"], opset=NEWEST_OPSET + 1))
    with pytest.raises(ModelError, match="opset 6 is older than 7"):
        read(model_of(node, ["x"], ["y"], opset=6))
    with caplog.at_level(logging.WARNING, "jitopt"):
        read(model_of(node, ["x"], ["y"], ir_version=NEWEST_IR + 1))
    assert f"IR version {NEWEST_IR + 1} is newer" in caplog.text


@pytest.mark.skipif(not onnx.__version__.startswith("1.23."), reason="the versions are those of onnx 1.23")
def test_the_newest_versions_are_those_of_the_newest_onnx_supported() -> None:
    assert (onnx.defs.onnx_opset_version(), int(onnx.IR_VERSION)) == (NEWEST_OPSET, NEWEST_IR)


def test_standard_operators_without_an_implementation_are_replaced_by_their_definition() -> None:
    def lookup(name: str) -> Operator | None:
        return None if name == "Shrink" else any_operator(name)

    model = parsed("agraph (float[2] x) => (float[2] y) { [odd] y = Shrink <bias = 2.0> (x) }")
    graph = read_model(model, operators=lookup)
    assert len(graph) > 1 and all(n.name.startswith("odd/") for n in graph)
    scalars = [c.constant.item() for c in graph.constants if c.constant is not None and c.constant.size == 1]
    assert {2.0, 0.5} <= set(scalars)  # the attribute given, and the default of the other
    assert graph.outputs[0].name == "y"
