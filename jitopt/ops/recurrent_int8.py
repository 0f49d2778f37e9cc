"""com.microsoft.DynamicQuantizeLSTM: an LSTM whose weights are 8-bit and whose activations are quantised on the way.

Both products, X W and H R, quantise their left side to uint8 over its whole extent: X once a direction, H at every
step. Source: ONNX Runtime's contrib operator documentation.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jitopt.ir.dims import Shape
from jitopt.ir.graph import Node
from jitopt.ops.cases import floats, ints, sample, vector
from jitopt.ops.cells import Step, halves, walk
from jitopt.ops.operator import Array, Attrs, Kind, Param
from jitopt.ops.recurrent import ATTRIBUTES, INT32, LSTM_FORGET, LSTM_MORE, lstm_cell, operands, recurrent_shapes
from jitopt.ops.signature import BYTES, declare, dtypes

FLOAT32 = dtypes("float32")
_SHAPES = recurrent_shapes(4, 3, transposed=True)


def quantised(x: Array) -> tuple[Array, int, np.float32]:
    """x as integers in [0, 255] (held in float32), their zero point and scale; 0 is represented exactly."""
    low, high = min(0.0, float(x.min(initial=0.0))), max(0.0, float(x.max(initial=0.0)))
    scale = np.float32(np.float32(high) - np.float32(low)) / np.float32(255) or np.float32(1)
    zero = int(np.clip(np.rint(-np.float32(low) / scale), 0, 255))
    return np.clip(np.rint(x / scale) + zero, 0, 255), zero, scale


def _product(x: Array, weights: Array, scale: Array | float) -> Array:
    """x [.., K] times centred integer weights [K, N] in int8 arithmetic (exact in float64), scaled back to float32."""
    values, zero, x_scale = quantised(x)
    total = (values.astype(np.float64) - zero) @ weights
    result: Array = (total * (x_scale * np.asarray(scale, np.float32))).astype(np.float32)
    return result


def _weights(weights: Array, scale: Array, zero: Array | None, d: int) -> tuple[Array, Array]:
    """Centred weights [K, 4*H] in float64 and their scale, one or one a column."""
    centre = 0.0 if zero is None else np.ravel(zero[d]).astype(np.float64)
    return weights[d].astype(np.float64) - centre, np.ravel(scale[d])


def _shape(node: Node, attrs: Attrs) -> list[Shape | None]:
    return list(_SHAPES(node, attrs))


def _lstm(
    attrs: Attrs, x: Array, w: Array, r: Array, b: Array | None, lengths: Array | None, h: Array | None,
    c: Array | None, p: Array | None, w_scale: Array, w_zero: Array | None, r_scale: Array, r_zero: Array | None,
) -> tuple[Array, ...]:  # fmt: skip
    def cell(d: int, inputs: Array) -> Step:
        weights, scale = _weights(w, w_scale, w_zero, d)
        memory, memory_scale = _weights(r, r_scale, r_zero, d)
        projected = _product(inputs, weights, scale) + sum(halves(b, d))

        def recurrent(t: int, state: Array) -> Array:
            # A row that ended before the last step counts as zeros when H is quantised.
            live = state if lengths is None else np.where((t <= lengths)[:, None], state, 0)
            return _product(live, memory, memory_scale)

        return lstm_cell(attrs, d, projected, recurrent, p)

    return walk(attrs, x, r.shape[1], lengths, [h, c], cell)[: attrs.outputs]


def _case(count: int, dtype: str, columns: bool, *, one: bool = False, **attrs: Any) -> Any:
    """`dtype` weights; int8 ones stay small because ONNX Runtime's AVX2 products of uint8 and int8 saturate."""
    x, _, _, b, lengths, h, c = operands(4, count, states=2)
    low, high = (-60, 61) if dtype == "int8" else (0, 256)
    w, r = ints(count, 4, 24, low=low, high=high, dtype=dtype), ints(count, 6, 24, low=low, high=high, dtype=dtype)
    sizes = (count, 24) if columns else (count,)
    scale = floats(*sizes, low=0.004, high=0.01)
    zero = np.zeros(sizes, dtype) if dtype == "int8" else np.full(sizes, 128, dtype)
    if one:
        x, h, c, lengths = x[:, :1], h[:, :1], c[:, :1], vector(5, dtype="int32")
    return sample(x, w, r, b, lengths, h, c, None, scale, zero, scale, zero, hidden_size=6, outputs=3, **attrs)


declare(
    "com.microsoft.DynamicQuantizeLSTM", Kind.OPAQUE,
    [
        Param("X", FLOAT32, "T"), Param("W", BYTES, "T2"), Param("R", BYTES, "T2"),
        Param("B", FLOAT32, "T", optional=True), Param("sequence_lens", INT32, "T1", optional=True),
        Param("initial_h", FLOAT32, "T", optional=True), *LSTM_MORE, Param("W_scale", FLOAT32, "T"),
        Param("W_zero_point", BYTES, "T2", optional=True), Param("R_scale", FLOAT32, "T"),
        Param("R_zero_point", BYTES, "T2", optional=True),
    ],
    [Param(name, FLOAT32, "T", optional=True) for name in ("Y", "Y_h", "Y_c")], _shape, _lstm,
    attributes={**ATTRIBUTES, **LSTM_FORGET},
    samples=lambda: [
        _case(1, "uint8", False, one=True),
        _case(1, "int8", False),
        _case(2, "uint8", False, direction="bidirectional"),
        _case(2, "int8", True, direction="bidirectional"),
    ],
)  # fmt: skip
