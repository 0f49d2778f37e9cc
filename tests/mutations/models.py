"""Five small models to damage; together they have operators of every kind, old and new opsets, functions, subgraphs."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.onnx_io.support import parsed


def _weights(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng([seed, *shape]).uniform(-0.5, 0.5, shape).astype(np.float32)


def _network() -> onnx.ModelProto:
    """Convolution (dense, depthwise, transposed), BatchNormalization, pools, Resize, Pad, Gemm, Softmax."""
    n = helper.make_node
    nodes = [
        n("Conv", ["x", "w1", "b1"], ["c1"], name="stem", pads=[1, 1, 1, 1], strides=[2, 2], kernel_shape=[3, 3]),
        n("BatchNormalization", ["c1", "g", "b", "m", "v"], ["n1"], name="norm", epsilon=1e-3),
        n("Relu", ["n1"], ["r1"], name="relu"),
        n("Conv", ["r1", "w2"], ["c2"], name="depthwise", group=8, pads=[1, 1, 1, 1], dilations=[1, 1]),
        n("HardSigmoid", ["c2"], ["h"], name="gate", alpha=0.2, beta=0.5),
        n("Mul", ["c2", "h"], ["s"], name="gated"),
        n("Add", ["s", "r1"], ["a"], name="residual"),
        n("MaxPool", ["a"], ["p"], name="pool", kernel_shape=[2, 2], strides=[1, 1], ceil_mode=1),
        n("ConvTranspose", ["p", "w3"], ["t"], name="up", strides=[2, 2], output_padding=[1, 0]),
        n("Resize", ["t", "", "scales"], ["z"], name="resize", mode="linear"),
        n("Pad", ["z", "pads", "zero"], ["q"], name="pad", mode="constant"),
        n("GlobalAveragePool", ["q"], ["l"], name="mean"),
        n("Flatten", ["l"], ["f"], name="flat", axis=1),
        n("Gemm", ["f", "w4", "b4"], ["k"], name="fc", transB=1, alpha=0.5),
        n("Softmax", ["k"], ["y"], name="softmax", axis=-1),
    ]  # fmt: skip
    arrays = {
        "w1": _weights(8, 3, 3, 3), "b1": _weights(8), "g": _weights(8, seed=1), "b": _weights(8, seed=2),
        "m": _weights(8, seed=3), "v": np.full(8, 0.7, np.float32), "w2": _weights(8, 1, 3, 3),
        "w3": _weights(8, 5, 3, 2), "scales": np.array([1, 1, 2, 1.5], np.float32),
        "pads": np.array([0, 0, 1, 0, 0, 0, 2, 1]), "zero": np.float32(0.5).reshape(()), "w4": _weights(4, 5),
        "b4": _weights(4),
    }  # fmt: skip
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, 8, 8])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 4])
    return _model(nodes, [x], [y], arrays, 17)


def _text() -> onnx.ModelProto:
    """Gather, LayerNormalization and GELU in parts, attention with Transposes and a mask, TopK, casts."""
    n = helper.make_node
    nodes = [
        n("Gather", ["table", "ids"], ["e"], name="embed", axis=0),
        n("ReduceMean", ["e"], ["mean"], name="mean", axes=[-1]),
        n("Sub", ["e", "mean"], ["d"], name="centre"),
        n("Pow", ["d", "two"], ["sq"], name="square"),
        n("ReduceMean", ["sq"], ["var"], name="variance", axes=[-1]),
        n("Add", ["var", "eps"], ["ve"], name="shifted"),
        n("Sqrt", ["ve"], ["sd"], name="deviation"),
        n("Div", ["d", "sd"], ["u"], name="unit"),
        n("MatMul", ["u", "wq"], ["q"], name="queries"),
        n("Reshape", ["q", "heads"], ["qh"], name="split"),
        n("Transpose", ["qh"], ["qt"], name="across", perm=[0, 2, 1, 3]),
        n("Transpose", ["qh"], ["kt"], name="turned", perm=[0, 2, 3, 1]),
        n("MatMul", ["qt", "kt"], ["sc"], name="scores"),
        n("Cast", ["mask"], ["mf"], name="as float", to=TensorProto.FLOAT),
        n("Unsqueeze", ["mf", "middle"], ["mu"], name="rows"),
        n("Sub", ["one", "mu"], ["inv"], name="inverted"),
        n("Mul", ["inv", "minus"], ["far"], name="far"),
        n("Add", ["sc", "far"], ["ms"], name="masked"),
        n("Softmax", ["ms"], ["pr"], name="shares", axis=3),
        n("MatMul", ["pr", "qt"], ["at"], name="met"),
        n("Transpose", ["at"], ["bt"], name="back", perm=[0, 2, 1, 3]),
        n("Reshape", ["bt", "flat"], ["fl"], name="joined"),
        n("Div", ["fl", "root"], ["gd"], name="scaled"),
        n("Erf", ["gd"], ["er"], name="erf"),
        n("Add", ["er", "one"], ["e1"], name="plus"),
        n("Mul", ["fl", "e1"], ["gm"], name="times"),
        n("Mul", ["gm", "half"], ["ge"], name="gelu"),
        n("TopK", ["ge", "k"], ["y", "places"], name="best", axis=-1, largest=1),
    ]
    arrays = {
        "table": _weights(11, 12), "two": np.float32(2).reshape(()), "eps": np.float32(1e-5).reshape(()),
        "wq": _weights(12, 12), "heads": np.array([0, 0, 3, 4]), "flat": np.array([0, 0, 12]),
        "one": np.float32(1).reshape(()), "minus": np.float32(-1e4).reshape(()), "root": np.float32(2**0.5).reshape(1),
        "half": np.float32(0.5).reshape(()), "k": np.array([2]), "middle": np.array([1, 2]),
    }  # fmt: skip
    feeds = [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "tokens"]) for name in ("ids", "mask")]
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", "tokens", 2])
    places = helper.make_tensor_value_info("places", TensorProto.INT64, ["batch", "tokens", 2])
    return _model(nodes, feeds, [y, places], arrays, 17)


def _model(nodes: list[Any], inputs: list[Any], outputs: list[Any], arrays: dict[str, Any], opset: int) -> Any:
    initialisers = [numpy_helper.from_array(np.asarray(array), name) for name, array in arrays.items()]
    graph = helper.make_graph(nodes, "small", inputs, outputs, initialisers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def _shapes() -> onnx.ModelProto:
    """Shape arithmetic: Shape, Gather, Slice, Concat, Reshape, Expand, Split, Range, ConstantOfShape, NonZero."""
    return parsed("""
        shapes (float[a, b, 6] x, int64[2] starts) => (float[c, d] y, int64[3] e, float[f, g] z, int64[1, h] p)
        <int64[2] k = {-1, 2}, int64[1] i0 = {0}, int64[1] i1 = {1}, int64[1] i2 = {2}, float[3, 1] r = {1, 2, 3},
         int64[2] halves = {3, 3}, int64[2] axes = {1, 2}, int64[2] ends = {9, 9}, int64 one = {1}, int64 zero = {0}>
        {
            s = Shape(x)
            first = Slice(s, i0, i1)
            second = Gather <axis = 0> (s, i1)
            product = Mul(first, second)
            three = Concat <axis = 0> (second, first, i2)
            flat = Reshape(x, k)
            e = Add(three, product)
            filled = ConstantOfShape <value = float[1] {0.5}> (three)
            twice = Concat <axis = 1> (x, x)
            part, rest = Split <axis = 2> (twice, halves)
            cut = Slice(part, starts, ends, axes)
            total = ReduceSum <keepdims = 0> (filled)
            y = Mul(flat, total)
            z = Flatten <axis = 2> (cut)
            count = Squeeze(product, i0)
            numbers = Range(zero, count, one)
            odd = Mod(numbers, one)
            same = Equal(odd, zero)
            p = NonZero(same)
        }""")


def _branches() -> onnx.ModelProto:
    """If, Loop and Scan with captures, sequences, integers and booleans."""
    return parsed("""
        branches (bool c, float[n, 4] x, int64 trips) => (float[n, 4] y, float[t, n, 4] stack, int64 length)
        <float[4] w = {1.0, 2.0, 3.0, 4.0}, bool on = {1}>
        {
            a = Abs(x)
            chosen = If (c) <
                then_branch = then () => (float[n, 4] p) { t1 = Add(a, w)  p = Mul(t1, x) },
                else_branch = otherwise () => (float[n, 4] p) { p = Neg(a) }
            >
            y, stack = Loop (trips, on, chosen) <
                body = turn (int64 i, bool go, float[n, 4] v) => (bool still, float[n, 4] next, float[n, 4] seen) {
                    still = Identity(go)
                    next = Add(v, w)
                    seen = Identity(next)
                }
            >
            sequence = SequenceConstruct(a, chosen, y)
            length = SequenceLength(sequence)
        }""")


def _old() -> onnx.ModelProto:
    """Opset 7 with what later opsets changed, a function of its own domain, integers in uint8."""
    return parsed("""
        <ir_version: 8, opset_import: ["" : 8, "local" : 1]>
        old (float[1, 3, 4, 4] x, uint8[n, 6] u, float[3] s) => (float[1, 3] y, float[n, 6] v)
        <float[3] s = {1, 2, 3}, float[6] scale = {1, 2, 3, 4, 5, 6}>
        {
            n1 = BatchNormalization <epsilon = 0.1> (x, s, s, s, s)
            up = Upsample <mode = "nearest", scales = [1.0, 1.0, 2.0, 2.0]> (n1)
            m = MaxPool <kernel_shape = [2, 2], auto_pad = "SAME_UPPER", strides = [2, 1]> (up)
            i = LRN <size = 3, alpha = 0.1> (m)
            g = GlobalAveragePool(i)
            q = Squeeze <axes = [2, 3]> (g)
            k = Clip <min = 0.0, max = 6.0> (q)
            d, mask = Dropout <ratio = 0.5> (k)
            y = Softmax <axis = 1> (d)
            f = Cast <to = 1> (u)
            o = local.shift <by = 0.5> (f)
            v = Mul(o, scale)
        }
        <domain: "local", opset_import: ["" : 8, "local" : 1]>
        shift <by> (a) => (b) { c = LeakyRelu <alpha: float = @by> (a)  b = local.twice(c) }
        <domain: "local", opset_import: ["" : 8]>
        twice (a) => (b) { b = Add(a, a) }""")


BUILDERS = {"network": _network, "text": _text, "shapes": _shapes, "branches": _branches, "old": _old}


@cache
def model(name: str) -> onnx.ModelProto:
    return BUILDERS[name]()
