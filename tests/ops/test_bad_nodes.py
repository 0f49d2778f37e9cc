"""Impossible attributes and operands are refused with a sentence that names the node and what is wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jitopt.errors import JitoptError, ModelError, ShapeError
from jitopt.ir.graph import Graph
from jitopt.passes.infer import infer

X, W = ("float32", (1, 4, 8, 8)), ("float32", (6, 4, 3, 3))
MATRIX = ("float32", (3, 5))
CASES: list[tuple[str, list[Any], dict[str, Any], type[JitoptError], str]] = [
    ("Conv", [X, W], {"strides": [0, 1]}, ModelError, "'strides' of Conv cannot be"),
    ("Conv", [X, W], {"dilations": [1, -1]}, ModelError, "'dilations' of Conv cannot be"),
    ("Conv", [X, W], {"pads": [1, 1]}, ModelError, "'pads' has 2 entries where 4 are needed"),
    ("Conv", [X, W], {"pads": [-1, 0, 0, 0]}, ModelError, "'pads' of Conv cannot be"),
    ("Conv", [X, W], {"group": 0}, ModelError, "'group' of Conv cannot be 0"),
    ("Conv", [X, W], {"group": 4}, ModelError, "6 output channels do not divide into 4 groups"),
    ("Conv", [X, W], {"group": 2}, ShapeError, "input channels"),
    ("Conv", [X, W], {"kernel_shape": [5, 5]}, ModelError, "kernel_shape (5, 5) is not that of the weights"),
    ("Conv", [X, W], {"auto_pad": "SAME"}, ModelError, "not one of 'NOTSET'"),
    ("Conv", [X, ("float32", (6, 4, 9, 9))], {}, ShapeError, "the kernel reaches over 9 elements"),
    ("Conv", [X, W, ("float32", (5,))], {}, ShapeError, "bias and output channels differ"),
    ("Conv", [X, ("float64", (6, 4, 3, 3))], {}, ModelError, "must agree"),
    ("Conv", [X], {}, ModelError, "input 1 ('W') is missing"),
    ("Conv", [("int32", (1, 4, 8, 8)), W], {}, ModelError, "cannot be int32"),
    ("Conv", [MATRIX, W], {}, ShapeError, "need one rank"),
    ("ConvTranspose", [X, W], {"strides": [1, 0]}, ModelError, "'strides' of ConvTranspose cannot be"),
    ("ConvTranspose", [X, W], {}, ShapeError, "input channels"),
    ("MaxPool", [X], {}, ModelError, "needs the attribute 'kernel_shape'"),
    ("MaxPool", [X], {"kernel_shape": [0, 1]}, ModelError, "'kernel_shape' of MaxPool cannot be"),
    ("MaxPool", [X], {"kernel_shape": [3]}, ModelError, "1 entries where 2 are needed"),
    ("AveragePool", [X], {"kernel_shape": [9, 9]}, ShapeError, "the kernel reaches over 9"),
    ("MatMul", [MATRIX, MATRIX], {}, ShapeError, "the inner extents"),
    ("MatMul", [MATRIX, ("float32", ())], {}, ShapeError, "scalars"),
    ("Gemm", [MATRIX, MATRIX], {}, ShapeError, "the inner extents"),
    ("Gemm", [MATRIX, MATRIX, ("float32", (2, 2))], {"transB": 1}, ShapeError, "C of shape (2, 2) does not broadcast"),
    ("Gemm", [X, MATRIX], {}, ShapeError, "must be matrices"),
    ("Add", [MATRIX, ("float32", (4,))], {}, ShapeError, "do not broadcast: axis 1 is 5 and 4"),
    ("Add", [MATRIX, ("int64", (5,))], {}, ModelError, "must agree"),
    ("Add", [MATRIX, MATRIX, MATRIX], {}, ModelError, "at most 2 inputs"),
    ("Relu", [MATRIX], {"alpha": 1.0}, ModelError, "Relu has no attribute 'alpha'"),
    ("LeakyRelu", [MATRIX], {"alpha": "x"}, ModelError, "'alpha' of LeakyRelu must be float"),
    ("PRelu", [MATRIX, X], {}, ShapeError, "the slope"),
    ("Softmax", [MATRIX], {"axis": 2}, ModelError, "axis 2 lies outside"),
    ("ReduceMean", [MATRIX, np.array([3])], {}, ModelError, "axis 3 lies outside"),
    ("ReduceMean", [MATRIX, np.array([1, -1])], {}, ModelError, "name one axis twice"),
    ("ArgMax", [MATRIX], {"axis": -3}, ModelError, "axis -3 lies outside"),
    ("TopK", [MATRIX, np.array([6])], {}, ShapeError, "K is 6 where axis 1 has 5"),
    ("Cast", [MATRIX], {"to": 99}, ModelError, "99, which is no element type"),
    ("Einsum", [MATRIX], {"equation": "ij,jk->ik"}, ModelError, "names 2 operands"),
    ("Einsum", [MATRIX], {"equation": "ij->k"}, ModelError, "must name indices"),
    ("Einsum", [MATRIX], {"equation": "ijk->k"}, ShapeError, "does not match 'ijk'"),
    ("Resize", [X, None, None, None], {}, ModelError, "exactly one of scales and sizes"),
    ("Resize", [X, None, None, np.array([1, 4, 8])], {}, ShapeError, "3 scales or sizes for 4 axes"),
    ("BatchNormalization", [X, *[("float32", (3,))] * 4], {}, ShapeError, "input 1 and the channels differ"),
    ("GroupNormalization", [X, *[("float32", (4,))] * 2], {"num_groups": 3}, ModelError, "do not divide into 3"),
    ("LayerNormalization", [MATRIX, ("float32", (4,))], {}, ShapeError, "the scale"),
    ("QuantizeLinear", [MATRIX, ("float32", (4,))], {}, ShapeError, "the scale and axis 1"),
    ("Clip", [MATRIX, ("float32", (2,))], {}, ShapeError, "min must be a scalar"),
]


@pytest.mark.parametrize(
    ("op", "operands", "attrs", "error", "text"), CASES, ids=lambda v: v if isinstance(v, str) else ""
)
def test_refused(op: str, operands: list[Any], attrs: dict[str, Any], error: type[JitoptError], text: str) -> None:
    graph = Graph("bad")
    values = [
        None if o is None else graph.constant(o) if isinstance(o, np.ndarray) else graph.input("x", *o)
        for o in operands
    ]
    graph.add(op, values, name="the node", **attrs)
    with pytest.raises(error) as raised:
        infer(graph)
    assert text in raised.value.message
    assert raised.value.node == "the node"
