"""Whatever is wrong with a model, one documented exception says so and names the place."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import AttributeProto, TensorProto, helper, numpy_helper

from jitopt.errors import JitoptError, ModelError, UnsupportedOperator
from jitopt.onnx_io import read_model
from tests.onnx_io.mutate import mutate
from tests.onnx_io.support import any_operator, model_of, parsed, read

RELU = helper.make_node("Relu", ["x"], ["y"], name="relu")
GOOD = model_of([RELU], ["x"], ["y"])


def refused(source: object, message: str, **options: object) -> JitoptError:
    with pytest.raises(ModelError, match=message) as caught:
        read_model(source, operators=any_operator, **options)  # type: ignore[arg-type]
    assert caught.value.model
    return caught.value


# files --------------------------------------------------------------------------------------------------------------
def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    assert str(tmp_path / "none.onnx") in str(refused(tmp_path / "none.onnx", "cannot be read: No such file"))
    refused(tmp_path, "cannot be read: no file")
    refused("/dev/zero", "cannot be read: no file")
    with (tmp_path / "huge.onnx").open("wb") as file:
        file.truncate(2**31)
    refused(tmp_path / "huge.onnx", "larger than 2 GB")
    refused("a\0b", "cannot be read")


@pytest.mark.parametrize("data", [b"", b"no model", b"\x08\x07", bytes(range(256)), b"PK\x03\x04" + bytes(60)])
def test_bytes_that_are_no_model(data: bytes, tmp_path: Path) -> None:
    refused(data, "not an ONNX model|is empty", name="m")
    (tmp_path / "m.onnx").write_bytes(data)
    assert "m.onnx" in str(refused(tmp_path / "m.onnx", "not an ONNX model|is empty"))


def test_every_truncation_of_a_model_is_refused() -> None:
    data = parsed(MODELS["conv"]).SerializeToString()
    for size in range(len(data)):
        with pytest.raises(ModelError):
            read(data[:size])


def test_missing_parts() -> None:
    for field, message in (
        ("graph", "holds no graph"),
        ("opset_import", "imports no operator set"),
        ("ir_version", "no IR version"),
    ):
        model = onnx.ModelProto()
        model.CopyFrom(GOOD)
        model.ClearField(field)
        refused(model, message)
    refused(model_of([RELU], ["x"], []), "has no outputs")


# graphs -------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("nodes", "message", "node"),
    [
        ([helper.make_node("Add", ["x", "t"], ["y"], name="n")], "'t' is used, but nothing defines it", "n"),
        ([helper.make_node("Abs", ["x"], ["t"], name="n")], "output 'y' of graph 'graph' is not defined", None),
        ([RELU, helper.make_node("Abs", ["x"], ["y"], name="n")], "'y' is defined twice", "n"),
        ([RELU, helper.make_node("Abs", ["y"], ["x"], name="n")], "'x' is defined twice", "n"),
        ([RELU, helper.make_node("Abs", ["y"], ["w"], name="n")], "'w' is defined twice", "n"),
        ([helper.make_node("Split", ["x"], ["y", "y"], name="n")], "'y' is defined twice", "n"),
        (
            [helper.make_node("Add", ["x", "t"], ["y"], name="n"), helper.make_node("Abs", ["y"], ["t"])],
            "cycle through '[yt]'",
            None,
        ),
        ([helper.make_node("Add", ["y", "x"], ["y"], name="n")], "cycle through 'y'", "n"),
        ([helper.make_node("Relu", ["x"], [], name="n")], "has 0 outputs, expected 1", "n"),
        ([helper.make_node("Relu", ["x"], [""], name="n")], "Relu has no output", "n"),
        ([helper.make_node("Relu", ["x", "x"], ["y"], name="n")], "Relu of opset 17 has 2 inputs, expected 1", "n"),
        ([helper.make_node("Conv", ["x"], ["y"], name="n")], "Conv of opset 17 has 1 inputs, expected 2 to 3", "n"),
        ([helper.make_node("Concat", [], ["y"], name="n", axis=0)], "0 inputs, expected at least 1", "n"),
        ([helper.make_node("Relu", [""], ["y"], name="n")], "has 0 inputs", "n"),
        ([helper.make_node("Relu", ["x"], ["y"], name="n", alpha=1.0)], "has no attribute 'alpha'", "n"),
        ([helper.make_node("Concat", ["x"], ["y"], name="n")], "Concat needs the attribute 'axis'", "n"),
        ([helper.make_node("Concat", ["x"], ["y"], name="n", axis=1.0)], "must be INT, it is FLOAT", "n"),
        ([helper.make_node("Constant", [], ["y"], name="n")], "exactly one attribute", "n"),
        ([helper.make_node("Constant", [], ["y"], name="n", value_int=1, value_float=1.0)], "exactly one", "n"),
        ([helper.make_node("Upsample", ["x", "x"], ["y"], name="n")], "withdrawn from ONNX at opset 10", "n"),
    ],
)
def test_malformed_graphs(nodes: list, message: str, node: str | None) -> None:
    w = numpy_helper.from_array(np.zeros(2, np.float32), "w")
    error = refused(model_of(nodes, ["x"], ["y"], [w]), message)
    assert node is None or error.node == node


def test_operators_that_do_not_exist_yet() -> None:
    model = model_of([helper.make_node("Gelu", ["x"], ["y"], name="n")], ["x"], ["y"], opset=13)
    with pytest.raises(UnsupportedOperator, match="no operator 'Gelu' in ONNX's operator set at opset 13") as caught:
        read(model)
    assert caught.value.node == "n"


def test_duplicates_among_inputs_initialisers_and_outputs() -> None:
    w = numpy_helper.from_array(np.zeros(2, np.float32), "w")
    refused(model_of([RELU], ["x", "x"], ["y"]), "'x' is defined twice")
    refused(model_of([RELU], ["x"], ["y"], [w, w]), "initialiser 'w' is defined twice")
    refused(model_of([RELU], ["x"], ["y", "y"]), "output 'y' is listed twice")
    refused(model_of([RELU], ["x", ""], ["y"]), "without a name")


@pytest.mark.parametrize(
    ("type", "dims", "message"),
    [
        (TensorProto.FLOAT, [-2], "negative extent -2"),
        (TensorProto.FLOAT, [2**40, 2**40], "more than 64 bits can index"),
        (TensorProto.DOUBLE, [2**61], "in bytes"),
        (99, [2], "unknown element type 99"),
        (TensorProto.UNDEFINED, [2], "input 'x' has no type"),
    ],
)
def test_impossible_types(type: int, dims: list[int], message: str) -> None:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, dims)
    x.type.tensor_type.elem_type = type
    refused(model_of([RELU], [x], ["y"]), message)


def test_types_that_are_not_supported() -> None:
    x = helper.make_value_info("x", onnx.TypeProto(map_type=onnx.TypeProto.Map(key_type=TensorProto.INT64)))
    with pytest.raises(UnsupportedOperator, match="'x' has a map type"):
        read(model_of([RELU], [x], ["y"]))


def test_a_constant_declared_otherwise() -> None:
    w = numpy_helper.from_array(np.zeros(2, np.float64), "w")
    add = [helper.make_node("Add", ["x", "w"], ["y"])]
    refused(model_of(add, ["x", "w"], ["y"], [w]), r"constant 'w' is float64\[2\], but declared as float32\[2\]")
    model = model_of(add, ["x"], ["y"], [w])
    model.graph.value_info.append(helper.make_tensor_value_info("w", TensorProto.DOUBLE, [2, 1]))
    refused(model, r"declared as float64\[2, 1\]")


def test_attributes_that_contradict_themselves() -> None:
    def with_attribute(**fields: object) -> onnx.ModelProto:
        model = model_of([helper.make_node("Elu", ["x"], ["y"], name="n")], ["x"], ["y"])
        model.graph.node[0].attribute.append(AttributeProto(name="alpha", **fields))
        return model

    refused(with_attribute(type=AttributeProto.FLOAT, i=3), "declared FLOAT, but holds 'i'")
    refused(with_attribute(type=AttributeProto.TENSOR), "declared TENSOR, but is empty")
    refused(with_attribute(f=1.0, i=3), "no type and 2 values")
    refused(with_attribute(type=AttributeProto.STRING, s=b"\xff"), "must be FLOAT, it is STRING")
    model = with_attribute(type=AttributeProto.FLOAT, f=1.0)
    model.graph.node[0].attribute.append(model.graph.node[0].attribute[0])
    refused(model, "'alpha' is given twice")
    assert read(with_attribute(f=1.5)).nodes[0].attrs == {"alpha": 1.5}


def test_names_that_are_no_text() -> None:
    data = bytearray(model_of([helper.make_node("Relu", ["input"], ["y"])], ["input"], ["y"]).SerializeToString())
    at = data.index(b"input")
    data[at] = 0xFF
    refused(bytes(data), "not UTF-8")


def test_deep_nesting_is_refused() -> None:
    bodies = [
        f'<domain: "local", opset_import: ["" : 17, "local" : 1]>\nf{i} (a) => (b) {{ b = local.f{i + 1}(a) }}'
        for i in range(2000)
    ]
    last = '<domain: "local", opset_import: ["" : 17]>\nf2000 (a) => (b) { b = Abs(a) }'
    head = (
        '<ir_version: 9, opset_import: ["" : 17, "local" : 1]>\nagraph (float[2] x) => (float[2] y) { y = local.f0(x) }'
    )
    refused(parsed("\n".join([head, *bodies, last])), "nested too deeply")


# fuzzing ------------------------------------------------------------------------------------------------------------
MODELS = {
    "conv": """
        agraph (float[n, 3, 8, 8] x) => (float[n, 4, 4, 4] y)
        <float[4, 3, 1, 1] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, float[4] b = {1, 2, 3, 4}>
        {
            c = Conv <strides = [2, 2], kernel_shape = [1, 1], pads = [0, 0, 0, 0]> (x, w, b)
            r = Relu(c)
            m = Constant <value = float[1] {2.0}> ()
            y = Mul(r, m)
        }""",
    "shapes": """
        agraph (float[a, 4] x) => (float[8, a] y)
        <int64[2] k = {-1, 2}>
        {
            s = Shape(x)
            i = Constant <value_int = 0> ()
            g = Gather <axis = 0> (s, i)
            j = Constant <value_ints = [0]> ()
            u = Unsqueeze(g, j)
            t = Transpose <perm = [1, 0]> (x)
            r = Reshape <allowzero = 0> (t, k)
            f = Flatten <axis = 1> (r)
            y = Concat <axis = 0> (t, t)
        }""",
    "branches": """
        agraph (bool c, float[2] x, float[2] z) => (float[2] y)
        <float[2] w = {1.0, 2.0}>
        {
            a = Abs(x)
            y = If (c) <
                then_branch = then () => (float[2] p) { t = Add(a, w)  p = Mul(t, z) },
                else_branch = otherwise () => (float[2] p) { p = Neg(a) }
            >
        }""",
    "functions": """
        <ir_version: 9, opset_import: ["" : 17, "local" : 1]>
        agraph (float[2] x) => (float[2] y) { h = local.f <k = 0.5> (x)  y = local.g(h) }
        <domain: "local", opset_import: ["" : 17, "local" : 1]>
        f <k> (a) => (b) { c = LeakyRelu <alpha: float = @k> (a)  b = local.g(c) }
        <domain: "local", opset_import: ["" : 17]>
        g (a) => (b) { b = Abs(a) }""",
    "old": """
        <ir_version: 3, opset_import: ["" : 7]>
        agraph (float[1, 3, 4, 4] x, float[3] s) => (float[1, 3] y)
        <float[3] s = {1, 2, 3}>
        {
            n = BatchNormalization <epsilon = 0.1> (x, s, s, s, s)
            u = Upsample <mode = "nearest", scales = [1.0, 1.0, 2.0, 2.0]> (n)
            m = MaxPool <kernel_shape = [2, 2], auto_pad = "SAME_UPPER"> (u)
            g = GlobalAveragePool(m)
            q = Squeeze <axes = [2, 3]> (g)
            k = Clip <min = 0.0, max = 6.0> (q)
            y = Softmax <axis = 1> (k)
        }""",
}


@pytest.mark.parametrize("name", MODELS)
def test_damaged_models_are_read_or_refused(name: str) -> None:
    model = parsed(MODELS[name])
    read(model)
    for seed in range(400):
        data = mutate(model, seed)
        try:
            read(data, max_memory=1 << 28)
        except JitoptError as error:
            assert error.model, seed
        except Exception as error:
            raise AssertionError(f"seed {seed} of '{name}' raised {type(error).__name__}") from error
