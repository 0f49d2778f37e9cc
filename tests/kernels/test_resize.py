"""Resampling from tables against NumPy in float64, and as linear and nearest Resize against ONNX Runtime."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from jitopt_kernels.packing import resize_tables
from jitopt_kernels.resize import make_resize, make_resize_rows

from .convolutions import blocked, unblocked
from .guarded import guarded, guarded_like
from .harness import EPS, THREADS, address, caller, store_epilogue

SHAPES = [(1, 8, 5, 6, 10, 12), (2, 13, 4, 9, 3, 7), (1, 3, 1, 1, 2, 5), (1, 9, 7, 3, 7, 17), (0, 8, 2, 2, 4, 4)]


@cache
def kernel(row_major: bool, weighted: bool, taps: int | None) -> Any:
    finish, finish_tail = store_epilogue(8, blocked=not row_major)
    make = make_resize_rows if row_major else make_resize
    return caller(make(lanes=8, weighted=weighted, finish=finish, finish_tail=finish_tail, taps=taps))


def random_axis(extent: int, out: int, taps: int, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    return rng.integers(0, extent, (out, taps)), rng.standard_normal((out, taps))


def run(
    x: Any, rows: Any, columns: Any, *, row_major: bool, weighted: bool, taps: int | None = None, nthreads: int = 1
) -> Any:
    """x resampled by (index, weight) [out, taps] of both axes."""
    n, c, h, w = x.shape
    tables = [resize_tables(*axis) for axis in (rows, columns)]
    held = [[guarded(table) for table in pair] for pair in tables]
    words = [[address(pair[0]), address(pair[1]), len(pair[0])] for pair in held]
    oh, ow = (pair[0].shape[1] for pair in held)
    x_ = guarded(x if row_major else blocked(x, 8))
    if row_major:
        y = guarded_like((n, c, oh, ow))
        given = [address(x_), 4 * h * w, 4 * w, n * c, *words[0], *words[1], oh, ow]
        kernel(True, weighted, taps)(given, (address(y), 4 * oh * ow), nthreads)
        return y
    y = guarded_like((n, -(-c // 8), oh, ow, 8))
    given = [address(x_), x_.nbytes // max(n, 1), 32 * h * w, 32 * w, n, c, *words[0], *words[1], oh, ow, 32 * oh * ow]
    kernel(False, weighted, taps)(given, (address(y), y.nbytes // max(n, 1)), nthreads)
    return unblocked(y, c)


def weighted_sum(x: Any, rows: Any, columns: Any) -> Any:
    picked = x.astype("f8")[:, :, rows[0]][:, :, :, :, columns[0]]  # n, c, oh, ta, ow, tb
    return np.einsum("nchawb,ha,wb->nchw", picked, rows[1], columns[1])


@pytest.mark.parametrize("row_major", [False, True])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_tables(row_major: bool, shape: tuple[int, ...]) -> None:
    n, c, h, w, oh, ow = shape
    x = np.random.default_rng(0).standard_normal((n, c, h, w)).astype("f4")
    for taps in (1, 2, 5):
        rows, columns = random_axis(h, oh, taps, 1), random_axis(w, ow, taps, 2)
        exact = weighted_sum(x, rows, columns)
        bound = EPS * (2 * taps + 4) * weighted_sum(np.abs(x), *((i, np.abs(v)) for i, v in (rows, columns))) + 1e-30
        literal = 2 if taps == 2 else None
        first = run(x, rows, columns, row_major=row_major, weighted=True, taps=literal)
        assert (np.abs(first - exact) <= bound).all()
        for nthreads in THREADS[1:]:
            again = run(x, rows, columns, row_major=row_major, weighted=True, taps=literal, nthreads=nthreads)
            assert np.array_equal(first, again)
    copied = run(x, rows, columns, row_major=row_major, weighted=False)
    assert np.array_equal(copied, x[:, :, rows[0][:, 0]][:, :, :, columns[0][:, 0]])


@pytest.mark.parametrize("row_major", [False, True])
def test_half_pixel_linear_as_onnx_runtime(row_major: bool) -> None:
    runtime = pytest.importorskip("onnxruntime")
    from onnx import TensorProto, helper

    x = np.random.default_rng(0).standard_normal((1, 8, 5, 7)).astype("f4")
    sizes = helper.make_tensor("sizes", TensorProto.INT64, [4], [1, 8, 11, 13])
    node = helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], mode="linear")
    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in "xy"]
    graph = helper.make_graph([node], "g", info[:1], info[1:], [sizes])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = runtime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])

    def axis(extent: int, out: int) -> Any:
        at = np.clip((np.arange(out) + 0.5) * extent / out - 0.5, 0, extent - 1)
        low = np.floor(at).astype(int)
        return np.stack([low, np.minimum(low + 1, extent - 1)], 1), np.stack([1 - (at - low), at - low], 1)

    y = run(x, axis(5, 11), axis(7, 13), row_major=row_major, weighted=True, taps=2)
    # ONNX Runtime computes its weights in float32 from coordinates up to 7: errors of 7 eps times the slope.
    assert np.abs(y - session.run(None, {"x": x})[0]).max() < 1e-5
