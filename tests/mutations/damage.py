"""Seeded damage that leaves a model readable: what changes is the network it describes.

Attributes take near or extreme values, nodes read other tensors or become other operators, constants change shape,
type or elements, inputs other shapes and types. (Damage to the file's bytes and fields is tests/onnx_io/mutate.py.)
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, helper, numpy_helper

_NEAR = (-1, 1, 2, -2)
_INTS = (0, 1, -1, 2, 3, 5, 8, 64, -7, 255, 2**31 - 1, -(2**31), 2**40, 2**63 - 1, -(2**63))
_FLOATS = (0.0, 1.0, -1.0, 0.5, 1e-30, 1e30, float("inf"), float("nan"))
_TYPES = (TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT32, TensorProto.BOOL, TensorProto.UINT8,
          TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.INT8, TensorProto.STRING)  # fmt: skip
_OPERATORS = tuple(
    word
    for line in (
        "Relu Neg Abs Exp Sqrt Floor Sign Identity Softmax LogSoftmax Shape Size Flatten Transpose Not Cast",
        "NonZero Squeeze Add Sub Mul Div Pow Max Min Mod Equal Less And Or Xor MatMul Gemm Conv ConvTranspose",
        "Gather GatherND GatherElements Reshape Expand Tile Concat Slice Pad Where Clip Range Split TopK OneHot",
        "ScatterND CumSum Resize ReduceSum ReduceMax ReduceMean ArgMax MaxPool AveragePool GlobalAveragePool",
        "GlobalMaxPool LRN BatchNormalization InstanceNormalization LayerNormalization Dropout Unsqueeze",
        "ConstantOfShape DepthToSpace SpaceToDepth Einsum LSTM GRU Compress Unique NonMaxSuppression Loop If Scan",
    )
    for word in line.split()
)


def damage(model: onnx.ModelProto, seed: int) -> onnx.ModelProto:
    """A copy with one to four things changed."""
    rng, copy = random.Random(seed), onnx.ModelProto()
    copy.CopyFrom(model)
    for _ in range(rng.choice((1, 1, 2, 2, 3, 4))):
        rng.choice(_WAYS)(copy, rng)
    return copy


def _graphs(graph: Any) -> Iterator[Any]:
    """The graph and those of its nodes' attributes."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == AttributeProto.GRAPH:
                yield from _graphs(attribute.g)


def _graph(model: onnx.ModelProto, rng: random.Random) -> Any:
    return rng.choice([*[model.graph] * 3, *_graphs(model.graph)])


def _node(model: onnx.ModelProto, rng: random.Random) -> Any:
    nodes = _graph(model, rng).node
    return rng.choice(nodes) if nodes else None


def _attribute(model: onnx.ModelProto, rng: random.Random) -> None:
    node = _node(model, rng)
    if node is None or not node.attribute:
        return
    attribute = rng.choice(node.attribute)
    if attribute.type == AttributeProto.INT:
        attribute.i = _int(attribute.i, rng)
    elif attribute.type == AttributeProto.FLOAT:
        attribute.f = rng.choice((*_FLOATS, attribute.f * 2))
    elif attribute.type == AttributeProto.INTS:
        _ints(attribute.ints, rng)
    elif attribute.type == AttributeProto.STRING:
        attribute.s = rng.choice((b"", b"constant", b"reflect", b"linear", b"nearest", b"SAME_UPPER", b"VALID", b"max"))
    elif attribute.type == AttributeProto.TENSOR:
        attribute.t.CopyFrom(_tensor(attribute.t, rng))


def _int(old: int, rng: random.Random) -> int:
    return max(-(2**63), min(2**63 - 1, old + rng.choice(_NEAR))) if rng.random() < 0.7 else rng.choice(_INTS)


def _ints(values: Any, rng: random.Random) -> None:
    kind = rng.randrange(4)
    if kind == 0 or not values:
        values.append(rng.choice(_INTS))
    elif kind == 1:
        values.pop()
    else:
        at = rng.randrange(len(values))
        values[at] = _int(values[at], rng)


def _rewire(model: onnx.ModelProto, rng: random.Random) -> None:
    """A node reads another tensor, one more, one less, or none in a place."""
    graph, node = model.graph, _node(model, rng)
    if node is None:
        return
    names = [v.name for v in (*graph.input, *graph.initializer)] + [n for other in graph.node for n in other.output]
    kind = rng.randrange(5)
    if kind == 0 or not node.input:
        node.input.append(rng.choice(names))
    elif kind == 1:
        node.input.pop()
    else:
        node.input[rng.randrange(len(node.input))] = rng.choice(names) if kind < 4 else ""


def _operator(model: onnx.ModelProto, rng: random.Random) -> None:
    node = _node(model, rng)
    if node is not None:
        node.op_type = rng.choice(_OPERATORS)
        if rng.random() < 0.7:
            del node.attribute[:]
        if rng.random() < 0.3:
            node.attribute.append(
                helper.make_attribute(rng.choice(("axis", "to", "keepdims", "perm")), rng.choice(_NEAR))
            )


def _constant(model: onnx.ModelProto, rng: random.Random) -> None:
    graph = _graph(model, rng)
    if graph.initializer:
        tensor = rng.choice(graph.initializer)
        tensor.CopyFrom(_tensor(tensor, rng))


def _tensor(tensor: Any, rng: random.Random) -> Any:
    """The tensor with other elements, another shape or another type."""
    try:
        array = numpy_helper.to_array(tensor)
    except (ValueError, TypeError):
        return tensor
    kind = rng.randrange(6)
    flat = array.reshape(-1).copy()
    if kind <= 1 and flat.size and flat.dtype.kind in "if":
        flat[rng.randrange(flat.size)] = (
            rng.choice(_FLOATS) if flat.dtype.kind == "f" else _int(int(flat[0]), rng) % 2**31
        )
        array = flat.reshape(array.shape)
    elif kind == 2:
        array = flat[: rng.randrange(flat.size + 1)]
    elif kind == 3:
        array = np.resize(flat, [rng.randrange(4) for _ in range(rng.randrange(5))]) if flat.size else flat
    elif kind == 4:
        array = np.moveaxis(array, 0, -1).copy() if array.ndim else array.reshape(1)
    elif flat.dtype.kind in "iufb":
        with np.errstate(all="ignore"):
            array = array.astype(rng.choice(("float32", "int64", "int32", "bool", "uint8", "float64")))
    return numpy_helper.from_array(np.asarray(array), tensor.name)


def _border(model: onnx.ModelProto, rng: random.Random) -> None:
    """An input or output has another shape or type."""
    graph = _graph(model, rng)
    values = [v for v in (*graph.input, *graph.input, *graph.output) if v.type.HasField("tensor_type")]
    if not values:
        return
    tensor = rng.choice(values).type.tensor_type
    kind = rng.randrange(6)
    if kind == 0:
        tensor.elem_type = rng.choice(_TYPES)
    elif kind == 1:
        tensor.ClearField("shape")
    elif kind == 2 and tensor.shape.dim:
        tensor.shape.dim.pop()
    elif kind == 3:
        tensor.shape.dim.add().dim_value = rng.choice((0, 1, 2, 7))
    elif tensor.shape.dim:
        dim = rng.choice(tensor.shape.dim)
        if rng.random() < 0.5:
            dim.dim_param = rng.choice(("n", "a", "b", "m"))
        else:
            dim.dim_value = rng.choice((0, 1, 2, 3, 4, 5, 9, 2**31, 2**40))


def _nodes(model: onnx.ModelProto, rng: random.Random) -> None:
    """A node goes, comes twice, or an output is another tensor."""
    graph = _graph(model, rng)
    kind = rng.randrange(3)
    if kind == 0 and graph.node:
        del graph.node[rng.randrange(len(graph.node))]
    elif kind == 1 and graph.node:
        node = graph.node.add()
        node.CopyFrom(rng.choice(graph.node))
        for index, name in enumerate(node.output):
            node.output[index] = f"{name}2" if name else ""
    elif graph.node and graph.output:
        names = [n for node in graph.node for n in node.output if n]
        if names:
            chosen = graph.output.add()
            chosen.name = rng.choice(names)


_WAYS: tuple[Callable[[onnx.ModelProto, random.Random], None], ...] = (
    _attribute, _attribute, _attribute, _rewire, _operator, _operator, _constant, _constant, _border, _border, _nodes,
)  # fmt: skip
