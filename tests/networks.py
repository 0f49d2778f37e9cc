"""Small graphs that the session's tests share: few operators, few kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from jitopt.ir.clone import clone
from jitopt.ir.dims import symbol
from jitopt.ir.graph import Graph
from jitopt.ir.interpreter import Interpreter
from jitopt.ops import find
from jitopt.passes.infer import infer
from jitopt.verify import compare

N = symbol("n")


def weights(*shape: int, seed: int = 0) -> Any:
    """Random float32 of deviation 1 / sqrt(fan in)."""
    fan = int(np.prod(shape[1:])) or 1
    return (np.random.default_rng([seed, *shape]).standard_normal(shape) / np.sqrt(fan)).astype(np.float32)


def floats(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng([seed, 9, *shape]).standard_normal(shape).astype(np.float32)


def pair() -> Graph:
    """Two inputs of equal extents: "sum" = x + y, "out" = relu(sum), both outputs, in one kernel."""
    graph = Graph("pair")
    x, y = graph.input("x", "float32", (N, 4)), graph.input("y", "float32", (N, 4))
    total = graph.output(graph.add("Add", [x, y], name="sum"))
    graph.output(graph.add("Relu", [total], name="out"))
    return graph


def passing(**inputs: tuple[str, tuple[Any, ...]]) -> Graph:
    """Inputs that are outputs, too: no kernel runs, results are copies of the feeds."""
    graph = Graph("passing")
    for name, (dtype, shape) in inputs.items():
        graph.output(graph.input(name, dtype, shape))
    return graph


def convolutional() -> Graph:
    """Conv, BatchNormalization and Relu, a residual block, pooling, Gemm and Softmax over [n, 3, 8, 8]."""
    graph = Graph("convolutional")
    x = graph.input("x", "float32", (N, 3, 8, 8))

    def normalised(value: Any, name: str, seed: int) -> Any:
        w = graph.constant(weights(8, value_channels[value], 3, 3, seed=seed), f"{name}.w")
        y = graph.add("Conv", [value, w], name=name, pads=[1, 1, 1, 1])
        arrays = (*weights(3, 8, seed=seed), np.full(8, 0.5, np.float32))
        vectors = [graph.constant(array, f"{name}.{i}") for i, array in enumerate(arrays)]
        y = graph.add("BatchNormalization", [y, *vectors], name=f"{name}.norm")
        value_channels[y] = 8
        return y

    value_channels = {x: 3}
    stem = graph.add("Relu", [normalised(x, "stem", 1)], name="stem.relu")
    value_channels[stem] = 8
    body = graph.add("Relu", [normalised(stem, "body", 2)], name="body.relu")
    joined = graph.add("Add", [body, stem], name="joined")
    pooled = graph.add("GlobalAveragePool", [joined], name="pooled")
    flat = graph.add("Flatten", [pooled], name="flat")
    bias = graph.constant(weights(10, seed=4), "fc.b")
    logits = graph.add("Gemm", [flat, graph.constant(weights(8, 10, seed=3), "fc.w"), bias], name="logits")
    graph.output(graph.add("Softmax", [logits], name="y", axis=-1))
    return graph


def mixed() -> Graph:
    """[n, 20] through products, LayerNormalization, GELU, attention's transposes, Gather, Concat, Slice, Where and
    integers: groups with prologues, epilogues and several stores, no extent a multiple of a vector."""
    graph = Graph("mixed")
    x, i = graph.input("x", "float32", (N, 20)), graph.input("i", "int64", (N,))

    def constant(array: Any, name: str) -> Any:
        return graph.constant(np.asarray(array), name)

    table = constant(weights(5, 20, seed=1), "table")
    summed = graph.add("Add", [x, graph.add("Gather", [table, i], name="looked up")], name="summed")
    scale, shift = constant(1 + weights(20, seed=2), "scale"), constant(weights(20, seed=3), "shift")
    normed = graph.add("LayerNormalization", [summed, scale, shift], name="normed")
    hidden = graph.add("MatMul", [normed, constant(weights(20, 27, seed=4).T.copy().T, "w")], name="product")
    hidden = graph.add("Gelu", [graph.add("Add", [hidden, constant(weights(27), "b")], name="biased")], name="gelu")
    heads = graph.add("Reshape", [hidden, constant([0, 3, 9], "heads")], name="split")
    across = graph.add("Transpose", [heads], name="across", perm=[1, 0, 2])
    turned = graph.add("Transpose", [heads], name="turned", perm=[1, 2, 0])
    scores = graph.add("Softmax", [graph.add("MatMul", [across, turned], name="scores")], name="shares", axis=-1)
    joined = graph.add("Transpose", [graph.add("MatMul", [scores, across], name="met")], name="back", perm=[1, 0, 2])
    flat = graph.output(graph.add("Reshape", [joined, constant([0, 27], "flat")], name="flat out"))
    bounds = [constant([v], name) for v, name in ((3, "from"), (27, "to"), (1, "axis"), (2, "step"))]
    part = graph.add("Slice", [flat, *bounds], name="part")
    both = graph.add("Concat", [part, x], name="both", axis=1)
    even = graph.add(
        "Equal", [graph.add("Mod", [i, constant(2, "two")], name="rest"), constant(0, "zero")], name="even"
    )
    flag = graph.add("Unsqueeze", [even, constant([1], "last")], name="flag")
    chosen = graph.add("Where", [flag, both, constant(np.float32(-1), "minus")], name="chosen")
    graph.output(graph.add("ReduceMax", [chosen, constant([0], "rows")], name="top", keepdims=0))
    graph.output(chosen, "out")
    return graph


def reference(graph: Graph, feeds: Mapping[str, Any]) -> dict[str, Any]:
    """What the interpreter makes of the unoptimised graph."""
    copy = clone(graph)
    infer(copy)
    return Interpreter(copy, find).run({name: np.asarray(feed) for name, feed in feeds.items()})


def check(session: Any, graph: Graph, feeds: Mapping[str, Any]) -> list[Any]:
    """Run the session, hold every output against the interpreter, return the results."""
    results = session.run(None, feeds)
    for (name, expected), found in zip(reference(graph, feeds).items(), results, strict=True):
        verdict = compare(found, expected)
        assert verdict, f"{name}: {verdict.reason}"
    return results


Build = Callable[[], Graph]
