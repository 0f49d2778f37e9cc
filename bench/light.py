"""The onnx package's light networks with weights that matter.

They have the real structure of nine image classifiers, but most weights are ConstantOfShape nodes. Those nodes are
replaced by initialisers and nothing else changes: every BatchNormalization stays, trained constants that the files do
carry stay. Weights are random after He et al., Delving Deep into Rectifiers, ICCV 2015 (deviation sqrt(2 / fan in)),
then corrected layer by layer on one synthetic picture so that each convolution and Gemm puts out deviation 1 (or the
deviation that trained statistics of the BatchNormalization after it expect); statistics of a BatchNormalization are
those it sees on that picture.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

SEED = 20
SIZE = 224
Array = npt.NDArray[np.float32]


def build(structure: Path) -> onnx.ModelProto:
    """The network of a file in onnx/backend/test/data/light, with weights."""
    return with_weights(onnx.load(structure))


def with_weights(model: onnx.ModelProto, seed: int = SEED) -> onnx.ModelProto:
    """A copy of a light network in which initialisers stand for its ConstantOfShape nodes; one seed, one network."""
    given = {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}
    shapes = {
        node.output[0]: tuple(int(size) for size in given[node.input[0]])
        for node in model.graph.node
        if node.op_type == "ConstantOfShape"
    }
    weights = {name: _initial(name, shape, _role(model.graph, name), seed) for name, shape in shapes.items()}
    _calibrate(model, given, weights)
    return _replaced(model, weights)


def picture(seed: int = SEED, size: int = SIZE) -> Array:
    """A synthetic picture [1, 3, size, size] of mean 0 and deviation 1.

    Noise with as much energy in every octave of scale, from 2 pixels up, as photographs have.
    """
    rng = np.random.default_rng(seed)
    image = np.zeros((3, size, size))
    cells = 2
    while cells <= size // 2:
        coarse = rng.standard_normal((3, cells + 1, cells + 1))
        places = np.arange(size) * cells / size
        low, share = places.astype(int), places % 1
        rows = coarse[:, low] * (1 - share)[:, None] + coarse[:, low + 1] * share[:, None]
        image += rows[:, :, low] * (1 - share) + rows[:, :, low + 1] * share
        cells *= 2
    return ((image - image.mean()) / image.std()).astype(np.float32)[None]


def _role(graph: onnx.GraphProto, name: str) -> str:
    """What a replaced constant is for: weight, bias, scale, shift, mean or variance; found at its reader."""
    node, position = next((n, list(n.input).index(name)) for n in graph.node if name in n.input)
    if node.op_type == "Unsqueeze":
        return _role(graph, node.output[0])
    if node.op_type == "Reshape":
        return "weight"
    names = {
        "BatchNormalization": ("", "scale", "shift", "mean", "variance"),
        "Conv": ("", "weight", "bias"),
        "Gemm": ("", "weight", "bias"),
        "Mul": ("scale", "scale"),
        "Add": ("shift", "shift"),
    }
    return names[node.op_type][position]


def _initial(name: str, shape: tuple[int, ...], role: str, seed: int) -> Array:
    """Random values before any correction; they depend on the name and the seed, not on the order of the nodes."""
    rng = np.random.default_rng([seed, *hashlib.sha256(name.encode()).digest()])
    normal = rng.standard_normal(shape, np.float32)
    if role == "weight":
        return normal * np.float32(np.sqrt(2 / np.prod(shape[1:])))
    if role == "scale":
        return np.float32(1) + np.float32(0.25) * np.clip(normal, -3, 3)
    return normal * np.float32(0.25 if role == "shift" else 0.1)


def _calibrate(model: onnx.ModelProto, given: dict[str, Array], weights: dict[str, Array]) -> None:
    """Run the network once, node by node, and set `weights` on the way."""
    values: dict[str, Array] = {**given, **weights}
    feed = next(each.name for each in model.graph.input if each.name not in given)
    values[feed] = picture()
    last = {name: index for index, node in enumerate(model.graph.node) for name in node.input}
    norms = {node.input[0]: node for node in model.graph.node if node.op_type == "BatchNormalization"}
    origins = {node.output[0]: node.input[0] for node in model.graph.node if node.op_type == "Reshape"}
    for index, node in enumerate(model.graph.node):
        if node.op_type == "ConstantOfShape":
            continue
        if node.op_type == "BatchNormalization":
            _see_statistics(node, values, weights)
        if node.op_type in ("Conv", "Gemm"):
            weight = origins.get(node.input[1], node.input[1])
            result = _corrected(node, weight, norms.get(node.output[0]), values, weights)
        else:
            result = _run_node(node, values, model.opset_import[0].version)
        values[node.output[0]] = result
        for name in node.input:
            if last[name] == index and name not in weights:
                values.pop(name, None)


def _see_statistics(node: onnx.NodeProto, values: dict[str, Array], weights: dict[str, Array]) -> None:
    """Give a BatchNormalization the mean and variance of its input, where it has none of its own."""
    x = values[node.input[0]].astype(np.float64)
    mean, variance = x.mean((0, 2, 3)), x.var((0, 2, 3))
    for name, seen in ((node.input[3], mean), (node.input[4], np.maximum(variance, 0.01 * variance.mean()))):
        if name in weights:
            values[name] = weights[name] = _rounded(seen)


def _corrected(
    node: onnx.NodeProto, weight: str, norm: onnx.NodeProto | None, values: dict[str, Array], weights: dict[str, Array]
) -> Array:
    """The output of a convolution or Gemm after `weight` was scaled: to deviation 1, or, where a BatchNormalization
    with trained statistics reads it, each channel to the deviation those expect."""
    bare = onnx.NodeProto()
    bare.CopyFrom(node)
    del bare.input[2:]
    result = _run_node(bare, values, 11)  # the first opset whose Gemm needs no third operand
    channels = (-1,) + (1,) * (result.ndim - 2)
    if weight in weights:
        if norm is not None and norm.input[4] not in weights:
            axes = tuple(axis for axis in range(result.ndim) if axis != 1)
            factor = _rounded(np.sqrt(values[norm.input[4]]) / np.maximum(result.std(axes), 1e-6)).reshape(channels)
            weights[weight] = weights[weight] * factor[:, None]
        else:
            factor = _rounded(1 / max(float(result.std()), 1e-6))
            weights[weight] = weights[weight] * factor
        result = result * factor
    if len(node.input) > 2:
        result = result + values[node.input[2]].reshape(channels)
    return result


def _rounded(values: npt.ArrayLike) -> Array:
    """To 9 bits, so that another machine's last digits do not make another network."""
    fraction, exponent = np.frexp(np.asarray(values, np.float64))
    return np.ldexp(np.rint(fraction * 512) / 512, exponent).astype(np.float32)


def _run_node(node: onnx.NodeProto, values: dict[str, Array], opset: int) -> Array:
    """The first output of one node, from ONNX Runtime; its operands are fed, so large weights are not copied."""
    import onnxruntime

    operands = {name: values[name] for name in node.input if name}
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in operands.items()
    ]
    graph = helper.make_graph([node], "node", inputs, [onnx.ValueInfoProto(name=node.output[0])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads, options.log_severity_level = 2, 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    result: Array = session.run([node.output[0]], operands)[0]
    return result


def _replaced(model: onnx.ModelProto, weights: dict[str, Array]) -> onnx.ModelProto:
    """The model without its ConstantOfShape nodes and their shapes, with `weights` as initialisers."""
    kept = [node for node in model.graph.node if node.op_type != "ConstantOfShape"]
    read = {name for node in kept for name in node.input}
    unread = {node.input[0] for node in model.graph.node if node.op_type == "ConstantOfShape"} - read
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    graph = copy.graph
    for field in ("node", "input", "initializer"):
        graph.ClearField(field)
    graph.node.extend(kept)
    graph.input.extend(each for each in model.graph.input if each.name not in unread)
    graph.initializer.extend(each for each in model.graph.initializer if each.name not in unread)
    for name, array in weights.items():
        graph.initializer.append(numpy_helper.from_array(array, name))
        graph.input.append(helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, array.shape))
    return copy
