"""ONNX Runtime beside us, where it is installed: sessions of it, and answers to check against."""

from __future__ import annotations

import importlib.util
import logging
import os
from collections.abc import Mapping
from typing import Any

from jitopt.api import load_graph
from jitopt.errors import JitoptError
from jitopt.evidence import interpret
from jitopt.ir.graph import Graph

logger = logging.getLogger("jitopt")


def runtime_installed() -> bool:
    """Whether ONNX Runtime can be imported; it is not imported for the answer."""
    return importlib.util.find_spec("onnxruntime") is not None


def runtime_session(model: str | os.PathLike[str] | Graph, threads: int, *, optimize: bool = True) -> Any:
    """An onnxruntime.InferenceSession on the CPU for a model's file or graph, silent: errors are raised.

    `optimize=False` switches its graph optimisation off: the reference to check answers against. Raises JitoptError
    with ONNX Runtime's reason where it takes the model not.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 4
    if not optimize:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    source: str | bytes = model_bytes(model) if isinstance(model, Graph) else os.fspath(model)
    try:
        return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its exceptions have no base class of their own
        raise JitoptError(f"ONNX Runtime does not load the model: {error}") from error


def model_bytes(graph: Graph) -> bytes:
    """The graph as the bytes of an ONNX file."""
    from jitopt.onnx_io import write_model

    data: bytes = write_model(graph).SerializeToString()
    return data


def reference_answers(model: str | os.PathLike[str] | Graph, feeds: Mapping[str, Any]) -> tuple[str, list[Any]]:
    """Who answered, and all outputs in order.

    ONNX Runtime without graph optimisation, where it is installed and takes the model; else the NumPy interpreter.
    """
    if runtime_installed():
        try:
            session = runtime_session(model, 1, optimize=False)
            return "ONNX Runtime, graph optimisation off", runtime_answers(session, feeds)
        except JitoptError as error:
            logger.warning("NumPy is the reference: %s", error)
    return "NumPy interpreter", interpret(load_graph(model), feeds)


def runtime_answers(session: Any, feeds: Mapping[str, Any]) -> list[Any]:
    """All outputs of an ONNX Runtime session; raises JitoptError with its reason where it does not run."""
    try:
        return list(session.run(None, dict(feeds)))
    except Exception as error:
        raise JitoptError(f"ONNX Runtime does not run the model: {error}") from error
