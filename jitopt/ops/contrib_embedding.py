"""com.microsoft.EmbedLayerNormalization, rewritten into gathers, sums and a LayerNormalization when a model is read."""

from __future__ import annotations

import numpy as np

from jitopt.ir.dims import Shape
from jitopt.ir.graph import Node, Value
from jitopt.ops.cases import floats, ints, sample
from jitopt.ops.contrib import FLOATS, Call, spelling
from jitopt.ops.operator import Array, Attribute, Attrs, Param, Sample
from jitopt.ops.rules import require, shape_of, show
from jitopt.ops.signature import dtypes

INT32 = dtypes("int32")


def _shapes(node: Node, attrs: Attrs) -> list[Shape | None]:
    ids, words = shape_of(node, 0), shape_of(node, 2)
    require(len(ids) == len(words) == 2, f"ids {show(ids)} and word embeddings {show(words)} must be matrices")
    shapes: list[Shape | None] = [(*ids, words[1]), ids[:1], (*ids, words[1])]
    return shapes[: len(node.outputs)]


def _rewrite(call: Call) -> list[Value | None]:
    ids, segments, words, places, segment_table, gamma, beta, mask, positions = call.inputs

    def ints64(*values: int) -> Value:
        return call.graph.constant(np.array(values, np.int64), f"{call.name}/ints")

    def extent(start: int, part: str) -> Value:
        found: Value = call.add("Shape", [ids], part, start=start, end=start + 1)
        return found

    if positions is None:  # the first rows of the table, one for every column of ids
        row = call.add("Slice", [places, ints64(0), extent(1, "length"), ints64(0)], "positions")
    else:
        row = call.add("Gather", [places, positions], "positions")
    total = call.add("Add", [call.add("Gather", [words, ids], "words"), row], "sum")
    if segments is not None:
        total = call.add("Add", [total, call.add("Gather", [segment_table, segments], "segments")], "sum_segments")
    normal = call.add("LayerNormalization", [total, gamma, beta], axis=-1, epsilon=call.attrs["epsilon"])
    counts = None
    if len(call.wanted) > 1 and call.wanted[1]:  # tokens that count, a row; zeros without a mask
        if mask is not None:
            counts = call.add("ReduceSum", [mask, ints64(1)], "counts", keepdims=0)
        else:
            counts = call.add("ConstantOfShape", [extent(0, "rows")], "counts", value=np.zeros(1, np.int32))
    return [normal, counts, total]


def _samples() -> list[Sample]:
    ids, segments = ints(2, 5, low=0, high=9, dtype="int32"), ints(2, 5, low=0, high=2, dtype="int32", seed=1)
    positions, mask = ints(2, 5, low=0, high=7, dtype="int32", seed=2), ints(2, 5, low=0, high=2, dtype="int32", seed=3)
    tables: list[Array] = [floats(9, 8), floats(7, 8, seed=1), floats(2, 8, seed=2)]
    scale, shift = floats(8, seed=3), floats(8, seed=4)
    words, places, kinds = tables
    return [
        sample(ids, segments, words, places, kinds, scale, shift, mask, outputs=2),
        sample(ids, segments, words, places, kinds, scale, shift, mask, positions, outputs=3, epsilon=1e-5),
        sample(ids, None, words, places, None, scale, shift, outputs=2),
    ]


spelling(
    "EmbedLayerNormalization",
    (
        Param("input_ids", INT32, "T1"), Param("segment_ids", INT32, "T1", optional=True),
        Param("word_embedding", FLOATS), Param("position_embedding", FLOATS),
        Param("segment_embedding", FLOATS, optional=True), Param("gamma", FLOATS), Param("beta", FLOATS),
        Param("mask", INT32, "T1", optional=True), Param("position_ids", INT32, "T1", optional=True),
    ),
    _rewrite, _samples, shape=_shapes,
    outputs=(
        Param("output", FLOATS), Param("mask_index", INT32, "T1", optional=True),
        Param("embedding_sum", FLOATS, optional=True),
    ),
    attributes={"epsilon": Attribute("float", 1e-12), "mask_index_type": Attribute("int", 0)},
)  # fmt: skip
