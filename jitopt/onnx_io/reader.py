"""Read an ONNX model into the IR."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from onnx import ModelProto

from jitopt.errors import JitoptError, ModelError
from jitopt.ir.graph import Graph, Metadata
from jitopt.ir.verifier import verify
from jitopt.onnx_io.build import Builder
from jitopt.onnx_io.external import Budget
from jitopt.onnx_io.load import Source, load
from jitopt.onnx_io.tensors import TensorReader
from jitopt.onnx_io.text import text
from jitopt.onnx_io.upgrade import tidy, upgrade
from jitopt.ops import find
from jitopt.ops.operator import Operator


def read_model(
    source: str | os.PathLike[str] | bytes | ModelProto, *, name: str | None = None, max_memory: int | None = None,
    operators: Callable[[str], Operator | None] = find,
) -> Graph:  # fmt: skip
    """The graph of an ONNX model: a path, its bytes or a ModelProto; opset 7 to the newest.

    Functions are inlined, Constant nodes and initialisers become constants (arrays as `jitopt.ir.storage` says),
    nodes of older opsets take the newest form, declared types stay on the values as hints for inference.
    `name` stands for the model in errors; `max_memory` bounds the bytes of all constants.

    Raises ModelError for a malformed or unreadable model, UnsupportedOperator for an operator not in the table,
    MemoryLimitError; each names the model and, where there is one, the node.
    """
    loaded = load(source, name)
    try:
        return _build(loaded, TensorReader(loaded.folder, Budget(max_memory)), operators)
    except JitoptError as error:
        raise error.at(model=loaded.name) from None
    except RecursionError:
        raise ModelError("functions or subgraphs are nested too deeply", model=loaded.name) from None


def _build(loaded: Source, tensors: TensorReader, operators: Callable[[str], Operator | None]) -> Graph:
    builder = Builder(loaded, tensors, operators)
    graph = builder.graph(loaded.proto.graph, loaded.opsets).graph
    upgrade(builder.written, operators)
    tidy(graph)
    graph.metadata = _metadata(loaded.proto)
    verify(graph, operators)
    return graph


def _metadata(proto: Any) -> Metadata:
    def field(name: str) -> str:
        return text(getattr(proto, name), name)

    return Metadata(
        field("producer_name"), field("producer_version"), field("domain"), int(proto.model_version),
        field("doc_string"), {text(p.key, "metadata"): text(p.value, "metadata") for p in proto.metadata_props},
    )  # fmt: skip
