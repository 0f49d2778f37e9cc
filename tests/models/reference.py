"""The right answers: ONNX Runtime with every graph optimisation off, or the interpreter in float64."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx

from jitopt import load_graph
from jitopt.evidence import widened
from jitopt.ir.interpreter import Interpreter
from jitopt.ops import find

Feeds = Mapping[str, np.ndarray]
THREADS = 2


class Reference:
    """A model in ONNX Runtime, unoptimised; `outputs` may name any tensor of the top-level graph, None all outputs."""

    def __init__(self, model: Path | onnx.ModelProto, outputs: Sequence[str] | None = None) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.intra_op_num_threads, options.inter_op_num_threads = THREADS, 1
        options.log_severity_level = 3
        source: str | bytes = str(model) if isinstance(model, Path) else model.SerializeToString()
        if outputs is not None:
            source = with_outputs(model, outputs).SerializeToString()
        self.session = onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
        self.outputs = [output.name for output in self.session.get_outputs()] if outputs is None else list(outputs)

    def run(self, feeds: Feeds) -> list[np.ndarray]:
        """The values of `outputs`, in that order."""
        return self.session.run(self.outputs, dict(feeds))


class Float64Reference:
    """A model in the NumPy interpreter with every float32 tensor in float64; `outputs` as for `Reference`.

    For models on which ONNX Runtime's own rounding is nearly a tolerance: u2netp's is 0.94 of one from this answer.
    """

    def __init__(self, path: Path, outputs: Sequence[str] | None = None) -> None:
        graph = widened(load_graph(path))
        self.outputs = [value.name for value in graph.outputs] if outputs is None else list(outputs)
        self._interpreter = Interpreter(graph, find)

    def run(self, feeds: Feeds) -> list[np.ndarray]:
        """The values of `outputs`, in that order, rounded to float32 where the model's are."""
        wide = {name: array.astype(np.float64) if array.dtype == np.float32 else array for name, array in feeds.items()}
        found = self._interpreter.run(wide, self.outputs).values()
        return [array.astype(np.float32) if array.dtype == np.float64 else array for array in found]


@functools.lru_cache(maxsize=2)
def _cached(path: Path, outputs: tuple[str, ...] | None) -> Reference:
    return Reference(path, outputs)


def reference(path: Path, feeds: Feeds, outputs: Sequence[str] | None = None) -> list[np.ndarray]:
    """The model's answers to `feeds`: its outputs, or the tensors named by `outputs`."""
    return _cached(path, None if outputs is None else tuple(outputs)).run(feeds)


def with_outputs(model: Path | onnx.ModelProto, outputs: Sequence[str]) -> onnx.ModelProto:
    """A copy of the model that also puts out the named tensors; those that are outputs already stay as they are."""
    copy = onnx.load(model) if isinstance(model, Path) else clone(model)
    there = {value.name for value in copy.graph.output}
    copy.graph.output.extend(onnx.ValueInfoProto(name=name) for name in outputs if name not in there)
    return copy


def clone(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy to edit."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    return copy
