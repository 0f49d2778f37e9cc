"""com.microsoft operators with a fused activation or quantisation, rewritten into their parts when a model is read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jitopt.errors import ModelError
from jitopt.ir.dims import Shape
from jitopt.ir.graph import Node, Value
from jitopt.ops import cases
from jitopt.ops.contraction import FLAG
from jitopt.ops.contrib import Call, spelling
from jitopt.ops.convolution import CONV_ATTRIBUTES
from jitopt.ops.operator import Attribute, Attrs, Param, Sample
from jitopt.ops.quantisation import QUANTISED
from jitopt.ops.signature import BYTES, REALS, dtypes

# Attributes that the numbers of `activation_params` stand for, in order.
_ACTIVATIONS: dict[str, tuple[str, ...]] = {
    "Relu": (), "Sigmoid": (), "Tanh": (), "LeakyRelu": ("alpha",), "Clip": ("min", "max"),
    "HardSigmoid": ("alpha", "beta"), "HardSwish": (),
}  # fmt: skip


def _unknown(node: Node, attrs: Attrs) -> Sequence[Shape | None]:
    return [None] * len(node.outputs)


def _activated(call: Call, x: Value, kind: str | None, numbers: Sequence[float]) -> Value:
    """The activation of that name on x; `numbers` are its parameters."""
    if not kind:
        return x
    if kind not in _ACTIVATIONS:
        raise ModelError(f"activation '{kind}' is not one of {', '.join(_ACTIVATIONS)}")
    if kind == "Clip":
        bounds = [call.graph.constant(np.float32(v), name=f"{call.name}/bound") for v in numbers[:2]]
        return call.add("Clip", [x, *bounds], "activation")  # type: ignore[no-any-return]
    named = dict(zip(_ACTIVATIONS[kind], numbers, strict=False))
    return call.add(kind, [x], "activation", **named)  # type: ignore[no-any-return]


# FusedConv, FusedGemm -----------------------------------------------------------------------------------------------
def _fused_conv(call: Call) -> list[Value]:
    x, w, bias, residual = call.inputs
    own = {k: v for k, v in call.attrs.items() if not k.startswith("activation") and v is not None}
    out = call.add("Conv", [x, w, bias] if bias is not None else [x, w], **own)
    if residual is not None:
        out = call.add("Add", [out, residual], "residual")
    return [_activated(call, out, call.attrs["activation"], call.attrs["activation_params"] or ())]


def _fused_conv_samples() -> list[Sample]:
    x, w, bias = cases.floats(1, 3, 5, 6), cases.floats(4, 3, 3, 3, seed=1), cases.floats(4)
    residual = cases.floats(1, 4, 3, 4, seed=2)
    return [
        cases.sample(x, w, bias, activation="Relu"),
        cases.sample(x, w, bias, residual, activation="Relu"),
        cases.sample(x, w, bias, activation="LeakyRelu", activation_params=[0.3]),
        cases.sample(x, w, activation="Clip", activation_params=[-0.5, 2.0], pads=[1, 1, 1, 1]),
        cases.sample(x, w, bias, activation="HardSigmoid", activation_params=[0.1, 0.4], strides=[2, 2]),
    ]


spelling(
    "FusedConv",
    (Param("X", REALS), Param("W", REALS), Param("B", REALS, optional=True), Param("Z", REALS, optional=True)),
    _fused_conv, _fused_conv_samples, shape=_unknown,
    attributes={**CONV_ATTRIBUTES, "activation": Attribute("string"), "activation_params": Attribute("floats")},
)  # fmt: skip


def _fused_gemm(call: Call) -> list[Value]:
    own = {k: v for k, v in call.attrs.items() if not k.startswith("activation")}
    numbers = [call.attrs[f"activation_{k}"] for k in ("alpha", "beta", "gamma")]
    out = call.add("Gemm", call.inputs, **own)
    return [_activated(call, out, call.attrs["activation"], [n for n in numbers if n is not None])]


def _fused_gemm_samples() -> list[Sample]:
    a, b, c = cases.floats(3, 5), cases.floats(5, 4, seed=1), cases.floats(4)
    return [
        cases.sample(a, b, c, activation="Relu"),
        cases.sample(a, b.T.copy(), c, transB=1, activation="LeakyRelu", activation_alpha=0.2),
    ]


_NUMBERS = {f"activation_{k}": Attribute("float") for k in ("alpha", "beta", "gamma")}
spelling(
    "FusedGemm", (Param("A", REALS), Param("B", REALS), Param("C", REALS, optional=True)), _fused_gemm,
    _fused_gemm_samples, shape=_unknown,
    attributes={
        "alpha": Attribute("float", 1.0), "beta": Attribute("float", 1.0), "transA": FLAG, "transB": FLAG,
        "activation": Attribute("string"), **_NUMBERS,
    },
)  # fmt: skip


# quantisation -------------------------------------------------------------------------------------------------------
def _dynamic_matmul(call: Call) -> list[Value]:
    a, b, b_scale, b_zero, bias = call.inputs
    steps, scale, zero = call.add("DynamicQuantizeLinear", [a], "a", outputs=3)
    return [call.add("com.microsoft.MatMulIntegerToFloat", [steps, b, scale, b_scale, zero, b_zero, bias])]


def _dynamic_matmul_samples() -> list[Sample]:
    a, b = cases.floats(2, 3, 5), cases.ints(5, 4, low=-64, high=64, dtype="int8")
    scales, zeros = cases.floats(4, low=0.01, high=0.03), cases.vector(1, -2, 3, 0, dtype="int8")
    return [
        cases.sample(a, b, cases.scalar(0.02)),
        cases.sample(a, b, cases.scalar(0.02), cases.scalar(3, "int8"), cases.floats(4)),
        cases.sample(a, b, scales, zeros),
        cases.sample(a, b, scales, None, cases.floats(4)),
    ]


_FLOAT = dtypes("float32")
spelling(
    "DynamicQuantizeMatMul",
    (
        Param("A", _FLOAT, "T1"), Param("B", BYTES, "T2"), Param("b_scale", _FLOAT, "T1"),
        Param("b_zero_point", BYTES, "T2", optional=True), Param("bias", _FLOAT, "T1", optional=True),
    ),
    _dynamic_matmul, _dynamic_matmul_samples, outputs=(Param("Y", _FLOAT, "T1"),), shape=_unknown,
)  # fmt: skip


def _same_operator(op: str) -> Any:
    def rewrite(call: Call) -> list[Value]:
        axis = call.attrs["axis"]
        return [call.add(op, call.inputs, **({} if axis is None else {"axis": axis}))]

    return rewrite


def _quantize_samples() -> list[Sample]:
    x = cases.floats(3, 5, low=-40, high=40)
    return [
        cases.sample(x, cases.scalar(0.25), cases.scalar(128, "uint8")),
        cases.sample(x, cases.floats(3, low=0.1, high=0.5), cases.vector(1, -2, 3, dtype="int8"), axis=0),
    ]


def _dequantize_samples() -> list[Sample]:
    x = cases.ints(3, 5, low=0, high=255, dtype="uint8")
    return [
        cases.sample(x, cases.scalar(0.25), cases.scalar(128, "uint8")),
        cases.sample(x, cases.floats(5, low=0.1, high=0.5), cases.vector(1, 2, 3, 4, 5, dtype="uint8"), axis=1),
    ]


_AXIS = {"axis": Attribute("int")}
_STEPS, _REAL = QUANTISED | dtypes("int32"), dtypes("float32 float16")
spelling(
    "QuantizeLinear",
    (Param("x", _REAL, "T1"), Param("y_scale", _REAL, "T1"), Param("y_zero_point", _STEPS, "T2", optional=True)),
    _same_operator("QuantizeLinear"), _quantize_samples, outputs=(Param("y", _STEPS, "T2"),), attributes=_AXIS,
)  # fmt: skip
spelling(
    "DequantizeLinear",
    (Param("x", _STEPS, "T1"), Param("x_scale", _REAL, "T2"), Param("x_zero_point", _STEPS, "T1", optional=True)),
    _same_operator("DequantizeLinear"), _dequantize_samples, outputs=(Param("y", _REAL, "T2"),), attributes=_AXIS,
)  # fmt: skip
