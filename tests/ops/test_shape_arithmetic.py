"""Shape arithmetic as exporters write it: inferred symbolically, then held against the interpreter for real extents."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jitopt.errors import ModelError, ShapeError
from jitopt.ir.dims import Dim, Environment, Expr, product, symbol, symbols
from jitopt.ir.graph import Graph, Value
from jitopt.ir.interpreter import Interpreter
from jitopt.ops import find
from jitopt.ops.slicing import slice_bounds
from jitopt.passes.infer import infer

N, S = symbol("n"), symbol("s")
FAR = 2**63 - 1


class Builder(Graph):
    """A graph with shorthands for what shape arithmetic is made of."""

    def ints(self, *values: int) -> Value:
        return self.constant(np.array(values, np.int64), "ints")

    def extent(self, x: Value, axis: int) -> Value:
        """Shape -> Gather: a scalar."""
        return self.op("Gather", self.op("Shape", x), self.constant(np.array(axis), "axis"))

    def listed(self, *parts: Value | int) -> Value:
        """Unsqueeze each scalar, then Concat."""
        rows = [self.ints(p) if isinstance(p, int) else self.op("Unsqueeze", p, self.ints(0)) for p in parts]
        return self.op("Concat", *rows, axis=0)

    def op(self, name: str, *inputs: Value | None, **attrs: Any) -> Value:
        found: Value = self.add(name, list(inputs), **attrs)
        return found


Build = Callable[[Builder], Value]


def inferred(build: Build) -> Builder:
    graph = Builder()
    graph.output(build(graph))
    infer(graph)
    return graph


def check(
    graph: Graph, expected: str, extents: Iterable[dict[str, int]] = ({"n": 2, "s": 6}, {"n": 1, "s": 4})
) -> None:
    """The output has the `expected` shape as text, and every type and content holds in real runs."""
    assert str(graph.outputs[0].type).partition("[")[2] == expected + "]"
    for values in extents:
        at = Environment(values)
        feeds = {v.name: np.ones(at.shape(v.shape), v.dtype.numpy) for v in graph.inputs}
        found = Interpreter(graph, find).run(feeds, all_values=True)
        for value in graph.values():
            if value.constant is not None:
                continue
            array = found[value.name]
            assert at.shape(value.shape) == array.shape, value
            if value.content is not None:
                known = [d if isinstance(d, (bool, float)) else at(d) for d in value.content.flat]
                assert known == array.ravel().tolist(), value


# exporters' patterns ------------------------------------------------------------------------------------------------
def bert_heads(g: Builder) -> Value:
    """(n, s, 384) to heads and back, as PyTorch exports a BERT."""
    x = g.input("x", "float32", (N, S, 384))
    heads = g.op("Reshape", x, g.listed(g.extent(x, 0), g.extent(x, 1), 12, 32))
    turned = g.op("Transpose", heads, perm=[0, 2, 1, 3])
    scores = g.op("MatMul", turned, g.op("Transpose", turned, perm=[0, 1, 3, 2]))
    mixed = g.op("Transpose", g.op("MatMul", scores, turned), perm=[0, 2, 1, 3])
    width = g.op("Mul", g.extent(mixed, 2), g.extent(mixed, 3))
    return g.op("Reshape", mixed, g.listed(g.extent(mixed, 0), g.extent(mixed, 1), width))


def ocr_sequence(g: Builder) -> Value:
    """(n, 120, 1, s) to (n, s, 120) by Shape, Slice and a -1, as Paddle exports it."""
    x = g.input("x", "float32", (N, 120, 1, S))
    shape = g.op("Shape", x)
    head = g.op("Slice", shape, g.ints(0), g.ints(2), g.ints(0))
    flat = g.op("Reshape", x, g.op("Concat", head, g.ints(-1), axis=0))
    return g.op("Transpose", flat, perm=[0, 2, 1])


def flatten(g: Builder) -> Value:
    x = g.input("x", "float32", (N, 64, S, 7))
    return g.op("Reshape", x, g.listed(g.extent(x, 0), -1))


def positions(g: Builder) -> Value:
    """Range over the sequence, expanded to the batch."""
    x = g.input("x", "int64", (N, S))
    zero, one = g.constant(np.array(0), "zero"), g.constant(np.array(1), "one")
    row = g.op("Unsqueeze", g.op("Range", zero, g.extent(x, 1), one), g.ints(0))
    return g.op("Add", g.op("Expand", row, g.op("Shape", x)), x)


def sliced_positions(g: Builder) -> Value:
    """A table of 512 positions cut to the sequence."""
    x = g.input("x", "int64", (N, S))
    table = g.constant(np.arange(512)[None], "table")
    ends = g.op("Unsqueeze", g.extent(x, 1), g.ints(0))
    return g.op("Add", x, g.op("Slice", table, g.ints(0), ends, g.ints(1)))


def rotary_halves(g: Builder) -> Value:
    """Both halves of the last axis, swapped."""
    x = g.input("x", "float32", (N, S, 64))
    half = g.op("Unsqueeze", g.op("Div", g.extent(x, 2), g.constant(np.array(2), "two")), g.ints(0))
    low = g.op("Slice", x, g.ints(0), half, g.ints(2))
    high = g.op("Slice", x, half, g.ints(FAR), g.ints(2))
    return g.op("Concat", g.op("Neg", high), low, axis=-1)


def torch_pad(g: Builder) -> Value:
    """PyTorch's pads: last axis first, zero-filled, turned round by Reshape, Slice, Transpose, Reshape."""
    x = g.input("x", "float32", (N, 3, S))
    pads = g.ints(2, 1, 0, 3)
    rank2 = g.op("Sub", g.op("Mul", g.op("Size", g.op("Shape", x)), g.constant(np.array(2), "two")), g.op("Size", pads))
    zeros = g.op("ConstantOfShape", g.op("Unsqueeze", rank2, g.ints(0)), value=np.array([0]))
    pairs = g.op("Reshape", g.op("Concat", pads, zeros, axis=0), g.ints(-1, 2))
    turned = g.op("Slice", pairs, g.ints(-1), g.ints(-FAR), g.ints(0), g.ints(-1))
    return g.op("Pad", x, g.op("Reshape", g.op("Transpose", turned, perm=[1, 0]), g.ints(-1)))


def torch_expand(g: Builder) -> Value:
    """Expand to a list with -1 for "leave it": Where(Equal(list, -1), ones, list)."""
    x = g.input("x", "float32", (1, S, 1))
    y = g.input("y", "float32", (N, S, 5))
    wanted = g.op("Concat", g.op("Slice", g.op("Shape", y), g.ints(0), g.ints(1)), g.ints(-1, 5), axis=0)
    ones = g.op("ConstantOfShape", g.ints(3), value=np.array([1]))
    minus = g.op("Mul", ones, g.constant(np.array(-1), "minus"))
    return g.op("Expand", x, g.op("Where", g.op("Equal", wanted, minus), ones, wanted))


def tiled(g: Builder) -> Value:
    x = g.input("x", "float32", (1, 1, 8))
    y = g.input("y", "float32", (N, S))
    return g.op("Tile", x, g.op("Concat", g.op("Shape", y), g.ints(2), axis=0))


def shape_split(g: Builder) -> Value:
    """Split of a shape, the parts swapped."""
    x = g.input("x", "float32", (N, S, 6))
    head, tail = g.add("Split", [g.op("Shape", x), g.ints(1, 2)], outputs=2)
    return g.op("Reshape", x, g.op("Concat", tail, head, axis=0))


def squeezed_products(g: Builder) -> Value:
    """ReduceProd over the shape of a part, as in "merge all leading axes"."""
    x = g.input("x", "float32", (N, S, 4, 5))
    leading = g.op("ReduceProd", g.op("Shape", x, start=0, end=-1), keepdims=1)
    return g.op("Reshape", x, g.op("Concat", leading, g.op("Shape", x, start=-1), axis=0))


def channel_shuffle(g: Builder) -> Value:
    x = g.input("x", "float32", (N, 12, S, S))
    apart = g.op("Reshape", x, g.listed(g.extent(x, 0), 3, 4, g.extent(x, 2), g.extent(x, 3)))
    turned = g.op("Transpose", apart, perm=[0, 2, 1, 3, 4])
    return g.op("Reshape", turned, g.listed(g.extent(x, 0), -1, g.extent(x, 2), g.extent(x, 3)))


def windows(g: Builder) -> Value:
    """Swin-like windows of 2: a quotient in the middle of a reshape, undone again."""
    x = g.input("x", "float32", (N, 2 * S, 3))
    half = g.op("Div", g.extent(x, 1), g.constant(np.array(2), "two"))
    apart = g.op("Reshape", x, g.listed(g.extent(x, 0), half, 2, 3))
    return g.op("Reshape", apart, g.listed(g.extent(x, 0), -1, 3))


PATTERNS: dict[Build, str] = {
    bert_heads: "n, s, 384",
    ocr_sequence: "n, s, 120",
    flatten: "n, 448*s",
    positions: "n, s",
    sliced_positions: "n, s",
    rotary_halves: "n, s, 64",
    torch_pad: "n, 6, s + 3",
    torch_expand: "n, s, 5",
    tiled: "n, s, 16",
    shape_split: "s, 6, n",
    squeezed_products: "4*n*s, 5",
    channel_shuffle: "n, 12, s, s",
    windows: "n, 2*s, 3",
}


@pytest.mark.parametrize("build", PATTERNS, ids=lambda b: b.__name__)
def test_pattern(build: Build) -> None:
    check(inferred(build), PATTERNS[build])


# slices -------------------------------------------------------------------------------------------------------------
index = st.one_of(st.integers(-9, 9), st.sampled_from([FAR, -FAR, -(2**63), 2**31 - 1]))


@given(index, index, st.integers(-3, 3).filter(bool))
def test_slice_bounds_hold_for_every_extent(start: int, end: int, step: int) -> None:
    first, count = slice_bounds(N, start, end, step)
    for extent in range(8):
        at = Environment({"n": extent})
        picked = np.arange(extent)[start:end:step]
        if step < 0 and extent and start < -extent:
            picked = np.arange(extent)[0:end:step]  # ONNX clamps such a start to 0, Python to "nothing"
        assert at(count) == len(picked)
        if len(picked):
            assert at(first) == picked[0]


@given(st.integers(0, 4), st.integers(0, 4), st.booleans(), st.booleans())
def test_slice_bounds_hold_for_symbolic_indices(offset: int, extra: int, negative: bool, half: bool) -> None:
    start: Dim = S // 2 - offset if half else offset - S if negative else S + offset
    first, count = slice_bounds(N, start, S + extra, 1)
    for n in range(7):
        for s in range(1, 6):
            at = Environment({"n": n, "s": s})
            picked = np.arange(n)[at(start) : s + extra]
            assert at(count) == len(picked) and (not len(picked) or at(first) == picked[0])


@pytest.mark.parametrize(
    ("start", "end", "step", "expected"),
    [
        (0, FAR, 1, "n"), (0, -1, 1, "max(n - 1, 0)"), (-1, FAR, 1, "min(n, 1)"), (0, FAR, 2, "((n + 1) // 2)"),
        (-1, -FAR, -1, "n"), (0, N // 2, 1, "(n // 2)"), (N // 2, N, 1, "-(n // 2) + n"), (0, 3, 1, "min(n, 3)"),
        (0, N, 1, "n"),
    ],
)  # fmt: skip
def test_common_slices_stay_simple(start: Dim, end: Dim, step: int, expected: str) -> None:
    assert str(slice_bounds(N, start, end, step)[1]) == expected


# reshapes -----------------------------------------------------------------------------------------------------------
@settings(max_examples=60)
@given(st.lists(st.sampled_from([N, S, 2, 3, 4]), min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_reshape_with_a_hole_is_exact(dims: list[Dim], random: Any) -> None:
    target = list(dims)
    random.shuffle(target)
    hole = random.randrange(len(target))
    expected, target[hole] = target[hole], -1
    graph = Builder()
    x = graph.input("x", "float32", dims)
    y = graph.input("y", "float32", (N, S))
    shape = [d if isinstance(d, int) else graph.extent(y, 0 if d is N else 1) for d in target]
    graph.output(graph.op("Reshape", x, graph.listed(*shape)))
    infer(graph)
    assert graph.outputs[0].shape[hole] is expected or graph.outputs[0].shape[hole] == expected
    assert product(graph.outputs[0].shape) == product(dims)


def test_zero_copies_and_allowzero_does_not() -> None:
    graph = Builder()
    x = graph.input("x", "float32", (N, S, 6))
    y = graph.op("Reshape", x, graph.ints(0, 0, 2, 3))
    z = graph.op("Reshape", graph.input("e", "float32", (0, S)), graph.ints(3, 0), allowzero=1)
    infer(graph)
    assert y.shape == (N, S, 2, 3) and z.shape == (3, 0)


def test_unknown_operands_give_fresh_extents_of_the_known_rank() -> None:
    graph = Builder()
    x = graph.input("x", "float32", (N, S))
    shape = graph.input("shape", "int64", (3,))
    one = graph.input("one", "int64", (1,))
    y, z = graph.op("Reshape", x, shape), graph.op("Slice", x, one, graph.ints(FAR), graph.ints(1))
    w = graph.op("Reshape", x, graph.input("any", "int64", (S,)))
    infer(graph)
    assert [str(d)[0] for d in y.shape] == ["?"] * 3
    assert z.shape[0] is N and str(z.shape[1]).startswith("?") and w.tensor.shape is None


# what cannot be -----------------------------------------------------------------------------------------------------
def node(name: str, *arrays: Any, shape: Sequence[Dim] = (2, 3), **attrs: Any) -> Build:
    def build(g: Builder) -> Value:
        operands = [None if a is None else g.constant(np.array(a, np.int64), "operand") for a in arrays]
        return g.op(name, g.input("x", "float32", shape), *operands, **attrs)

    return build


@pytest.mark.parametrize(
    ("build", "error", "text"),
    [
        (node("Reshape", [4, 2]), ShapeError, "6 elements are not 8"),
        (node("Reshape", [-1, 4]), ShapeError, "no multiple of 4"),
        (node("Reshape", [-1, -1]), ShapeError, "one -1"),
        (node("Reshape", [2, 3, 0]), ShapeError, "no extent to copy"),
        (node("Reshape", [-1, 0], allowzero=1), ShapeError, "exclude"),
        (node("Reshape", [[2, 3]]), ShapeError, "1-D"),
        (node("Transpose", perm=[0, 0]), ModelError, "no permutation"),
        (node("Transpose", perm=[0, 1, 2]), ModelError, "no permutation"),
        (node("Squeeze", [0]), ShapeError, "not 1"),
        (node("Squeeze", [2]), ModelError, "outside"),
        (node("Unsqueeze", [0, 0]), ModelError, "twice"),
        (node("Flatten", axis=3), ModelError, "outside"),
        (node("Slice", [0], [1], [2]), ModelError, "outside"),
        (node("Slice", [0], [1], [0], [0]), ModelError, "step"),
        (node("Slice", [0, 0], [1], [0]), ShapeError, "length"),
        (node("Pad", [1, 1]), ShapeError, "two pads"),
        (node("Pad", [0, 0, 0, -4]), ShapeError, "nothing is left"),
        (node("Pad", [0, 0, 0, 0], mode="mirror"), ModelError, "mirror"),
        (node("Expand", [4, 3]), ShapeError, "broadcast"),
        (node("Tile", [2]), ShapeError, "repeats"),
        (node("Gather", [0], axis=2), ModelError, "outside"),
        (node("GatherND", [[0, 0, 0]]), ShapeError, "do not fit"),
        (node("DepthToSpace", shape=(1, 6, 2, 2), blocksize=2), ShapeError, "channels"),
        (node("DepthToSpace", shape=(1, 6, 2, 2), blocksize=0), ModelError, "blocksize"),
        (node("Trilu", shape=(3,)), ShapeError, "two axes"),
        (node("ReverseSequence", [1, 1], batch_axis=1, time_axis=1), ModelError, "both"),
    ],
)
def test_impossible_attributes_name_the_reason(build: Build, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text) as caught:
        inferred(build)
    assert getattr(caught.value, "node", None)


def test_concat_and_split_disagreements() -> None:
    def concat(g: Builder) -> Value:
        return g.op("Concat", g.input("a", "float32", (2, 3)), g.input("b", "float32", (3, 3)), axis=1)

    def split(g: Builder) -> Value:
        first, _ = g.add("Split", [g.input("x", "float32", (2, 4)), g.ints(1, 2)], outputs=2, axis=1)
        found: Value = first
        return found

    with pytest.raises(ShapeError, match="extents of axis 0"):
        inferred(concat)
    with pytest.raises(ShapeError, match="add up"):
        inferred(split)


def test_symbols_of_an_expression_are_all_named() -> None:
    assert isinstance(N * S // (N + 1), Expr) and symbols(N * S // (N + 1)) == {"n", "s"}
