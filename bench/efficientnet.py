"""EfficientNet-Lite0 as an ONNX model, built from the PyTorch checkpoint of a PyPI package without PyTorch.

Architecture: Tan, Le: EfficientNet, ICML 2019, table 1 (B0), in its Lite form: ReLU6 for Swish, no squeeze-and-excite.
"""

from __future__ import annotations

import collections
import pickle
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

# (blocks, stride of the first) of each stage; kernel sizes and channels follow from the weights.
STAGES = ((1, 1), (2, 2), (2, 2), (3, 2), (3, 1), (4, 2), (1, 1))
SIZE = 224
EPSILON = 1e-3
Arrays = dict[str, npt.NDArray[np.generic]]


def build(checkpoint: Path) -> onnx.ModelProto:
    """The network with the weights of the checkpoint."""
    with checkpoint.open("rb") as file:
        return to_onnx(read_checkpoint(file))


class _Reader(pickle.Unpickler):
    """Unpickles a PyTorch state dict of plain tensors and nothing else."""

    storages = frozenset({"FloatStorage", "LongStorage"})

    def find_class(self, module: str, name: str) -> object:
        if (module, name) == ("collections", "OrderedDict"):
            return collections.OrderedDict
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return lambda storage, offset, shape, strides, *_rest: (storage, offset, shape, strides)
        if module == "torch" and name in self.storages:
            return np.dtype(np.int64 if name == "LongStorage" else np.float32)
        raise pickle.UnpicklingError(f"{module}.{name} has no place in a state dict of tensors")

    def persistent_load(self, pid: object) -> object:
        return pid


def read_checkpoint(file: BinaryIO) -> Arrays:
    """The tensors of a checkpoint in PyTorch's format before 1.6: four pickles, then the raw storages in key order."""
    if [_Reader(file).load() for _ in range(2)] != [0x1950A86A20F9469CFC6C, 1001]:
        raise ValueError("not a PyTorch checkpoint of format 1001")
    _Reader(file).load()  # sizes and byte order of the machine that wrote it: little-endian
    tensors, keys = _Reader(file).load(), _Reader(file).load()
    dtypes = {storage[2]: storage[1] for storage, *_ in tensors.values()}
    storages: Arrays = {}
    for key in keys:
        count = int.from_bytes(file.read(8), "little")
        storages[key] = np.frombuffer(file.read(count * dtypes[key].itemsize), dtypes[key])
    arrays: Arrays = {}
    for name, (storage, offset, shape, strides) in tensors.items():
        flat = storages[storage[2]][offset:]
        steps = [stride * flat.itemsize for stride in strides]
        arrays[name] = np.lib.stride_tricks.as_strided(flat, shape, steps, writeable=False)
    return arrays


class _Network:
    """Nodes and initialisers in the making; `value` names the current tensor, `size` its height and width."""

    def __init__(self, weights: Arrays) -> None:
        self.weights, self.value, self.size = weights, "input", SIZE
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []
        for name, limit in (("zero", 0.0), ("six", 6.0)):
            self.initializers.append(numpy_helper.from_array(np.float32(limit), name))

    def add(self, op: str, inputs: list[str], name: str, **attributes: object) -> str:
        self.nodes.append(helper.make_node(op, inputs, [name], name, **attributes))
        self.value = name
        return name

    def constant(self, name: str) -> str:
        self.initializers.append(numpy_helper.from_array(np.ascontiguousarray(self.weights[name]), name))
        return name

    def conv(self, name: str, norm: str, stride: int = 1, relu6: bool = True) -> None:
        """Convolution with TensorFlow's SAME padding, BatchNormalization, ReLU6."""
        weight = self.weights[f"{name}.weight"]
        kernel, group = weight.shape[-1], weight.shape[0] if "depthwise" in name else 1
        out = -(-self.size // stride)
        padding = max((out - 1) * stride + kernel - self.size, 0)
        pads = [padding // 2, padding // 2, padding - padding // 2, padding - padding // 2]
        inputs = [self.value, self.constant(f"{name}.weight")]
        shape = {"kernel_shape": [kernel, kernel], "strides": [stride, stride], "pads": pads, "group": group}
        self.add("Conv", inputs, name, **shape)
        parameters = [self.constant(f"{norm}.{part}") for part in ("weight", "bias", "running_mean", "running_var")]
        self.add("BatchNormalization", [name, *parameters], norm, epsilon=EPSILON)
        self.size = out
        if relu6:
            self.add("Clip", [norm, "zero", "six"], f"{norm}.relu6")


def to_onnx(weights: Arrays) -> onnx.ModelProto:
    """The network for 224x224 images (float32 `input` [batch, 3, 224, 224], `logits` [batch, 1000]), nothing folded."""
    net = _Network(weights)
    net.conv("_conv_stem", "_bn0", stride=2)
    block = 0
    for repeats, stride in STAGES:
        for repeat in range(repeats):
            prefix, start = f"_blocks.{block}", net.value
            if block:
                net.conv(f"{prefix}._expand_conv", f"{prefix}._bn0")
            net.conv(f"{prefix}._depthwise_conv", f"{prefix}._bn1", stride if repeat == 0 else 1)
            net.conv(f"{prefix}._project_conv", f"{prefix}._bn2", relu6=False)
            if repeat:
                net.add("Add", [net.value, start], f"{prefix}.sum")
            block += 1
    net.conv("_conv_head", "_bn1")
    net.add("GlobalAveragePool", [net.value], "pooled")
    net.add("Flatten", ["pooled"], "features", axis=1)
    net.add("Gemm", ["features", net.constant("_fc.weight"), net.constant("_fc.bias")], "logits", transB=1)
    graph = helper.make_graph(
        net.nodes,
        "efficientnet-lite0",
        [helper.make_tensor_value_info("input", TensorProto.FLOAT, ["batch", 3, SIZE, SIZE])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 1000])],
        net.initializers,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return model
