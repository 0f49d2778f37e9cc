"""Hypothesis strategies for dimensions, types, arrays and whole graphs; the graphs need not compute anything."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from jitopt.ir.dims import Dim, dim_max, dim_min, floor_div, modulo, select_eq, symbol
from jitopt.ir.dtypes import BY_NAME, DType
from jitopt.ir.graph import Graph, Layout, Metadata, Value
from jitopt.ir.storage import packed_bytes, storage, unpack
from jitopt.ir.types import OptionalType, SequenceType, TensorType, Type

NAMES = st.one_of(
    st.sampled_from(
        ["x", "y", "input:0", "/a/b.1", "%odd", '"', "a b", "é", "_", "graph", "captures", "7", "a//b", "@"]
    ),
    st.text(min_size=1, max_size=6),
)
SYMBOLS = st.one_of(st.sampled_from(["n", "m", "?x_0", "a.b", "min", "n + 1", "a*b", "?", "NC8", "knows"]), NAMES)


def _combine(inner: st.SearchStrategy[Dim]) -> st.SearchStrategy[Dim]:
    pairs = st.tuples(inner, inner)
    nonzero = pairs.filter(lambda p: not (isinstance(p[1], int) and p[1] == 0))
    return st.one_of(
        pairs.map(lambda p: p[0] + p[1]),
        pairs.map(lambda p: p[0] - p[1]),
        pairs.map(lambda p: p[0] * p[1]),
        nonzero.map(lambda p: floor_div(*p)),
        nonzero.map(lambda p: modulo(*p)),
        st.lists(inner, min_size=1, max_size=3).map(lambda xs: dim_min(*xs)),
        st.lists(inner, min_size=1, max_size=3).map(lambda xs: dim_max(*xs)),
        st.tuples(inner, inner, inner, inner).map(lambda xs: select_eq(*xs)),
    )


DIMS: st.SearchStrategy[Dim] = st.recursive(
    st.one_of(st.integers(-5, 2**40), SYMBOLS.map(symbol)), _combine, max_leaves=6
)
DTYPES = st.sampled_from(sorted(BY_NAME.values(), key=lambda d: d.onnx_code))
SHAPES = st.lists(st.integers(0, 4), max_size=3).map(tuple)


@st.composite
def tensor_types(draw: st.DrawFn) -> TensorType:
    return TensorType(draw(DTYPES), draw(st.none() | st.lists(DIMS, max_size=3).map(tuple)))


TYPES: st.SearchStrategy[Type] = st.recursive(
    tensor_types(), lambda inner: inner.map(SequenceType) | inner.map(OptionalType), max_leaves=3
)


@st.composite
def arrays(draw: st.DrawFn) -> tuple[DType, np.ndarray[Any, Any]]:
    """Any bit pattern of any element type."""
    dtype, shape = draw(DTYPES), draw(SHAPES)
    count = int(np.prod(shape, dtype=int))
    if dtype.kind == "string":
        flat = np.empty(count, object)
        flat[:] = draw(st.lists(st.text(max_size=5), min_size=count, max_size=count))
        return dtype, flat.reshape(shape)
    raw = np.frombuffer(draw(st.binary(min_size=max(packed_bytes(count, dtype), 1), max_size=count * 16 + 1)), np.uint8)
    raw = np.resize(raw, packed_bytes(count, dtype))
    if dtype.kind == "bool":
        return dtype, (raw % 2 == 1).reshape(shape)
    flat = unpack(raw, count, dtype) if dtype.bits < 8 else raw.copy().view(storage(dtype))
    return dtype, flat.reshape(shape)


SCALARS = st.one_of(st.integers(-(2**63), 2**63 - 1), st.floats(), st.text(max_size=8), st.binary(max_size=4))
ATTRIBUTES = st.one_of(
    SCALARS, st.lists(SCALARS, max_size=3).map(tuple), arrays().map(lambda pair: tagged(*pair)), TYPES
)  # fmt: skip


def tagged(dtype: DType, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The array with its element type in the dtype's metadata."""
    return array.view(storage(dtype)) if dtype.numpy is None else array


def _annotate(draw: st.DrawFn, value: Value) -> None:
    value.type = draw(st.none() | TYPES)
    if draw(st.integers(0, 4)) == 0:
        value.layout = Layout(draw(st.sampled_from([4, 8, 16])))
    if draw(st.integers(0, 4)) == 0:
        known = draw(st.lists(st.none() | DIMS, max_size=3))
        content = np.empty(len(known), object)
        content[:] = known
        value.content = content.reshape(()) if len(known) == 1 and draw(st.booleans()) else content
        value.type = TensorType(BY_NAME["int64"], value.content.shape)


@st.composite
def graphs(draw: st.DrawFn, depth: int = 0, captures: int = 0) -> Graph:
    """A graph of a few nodes, with constants of every type, subgraphs and captures."""
    graph = Graph(draw(st.text(max_size=5)))
    if draw(st.booleans()):
        texts = draw(st.lists(st.text(max_size=4), min_size=4, max_size=4))
        custom = draw(st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=2))
        graph.metadata = Metadata(*texts[:3], draw(st.integers(-(2**63), 2**63 - 1)), texts[3], custom)
    values = []
    for group, count in ((graph.inputs, draw(st.integers(0, 2))), (graph.captures, captures)):
        for _ in range(count):
            value = graph.value(draw(NAMES))
            _annotate(draw, value)
            group.append(value)
            values.append(value)
    for _ in range(draw(st.integers(0, 3))):
        dtype, array = draw(arrays())
        value = graph.value(draw(NAMES))
        value.constant, value.type = array, TensorType(dtype, array.shape)
        values.append(value)
    for _ in range(draw(st.integers(0, 4))):
        _add_node(draw, graph, values, depth)
    graph.outputs = draw(st.lists(st.sampled_from(values), unique=True, max_size=3)) if values else []
    return graph


def _add_node(draw: st.DrawFn, graph: Graph, values: list[Value], depth: int) -> None:
    picks = st.lists(st.sampled_from(values), max_size=2) if values else st.just([])
    inputs = [*draw(picks), None, *draw(picks)][: draw(st.integers(0, 4))]
    attrs = draw(st.dictionaries(st.text(min_size=1, max_size=4), ATTRIBUTES, max_size=3))
    captures: list[Value] = []
    if depth < 2 and draw(st.integers(0, 3)) == 0:
        captures = draw(picks)
        attrs["body"] = draw(graphs(depth=depth + 1, captures=len(captures)))
    outputs = [graph.value(draw(NAMES)) for _ in range(draw(st.integers(1, 2)))]
    for value in outputs:
        _annotate(draw, value)
    op = draw(st.sampled_from(["Add", "com.microsoft.Gelu", "odd op", "jitopt.Silu"]))
    graph.add(op, inputs, outputs=outputs, name=draw(NAMES), captures=captures)
    node = outputs[0].producer
    assert node is not None
    node.attrs.update(attrs)
    values.extend(outputs)
