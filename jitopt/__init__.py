"""jitopt: optimise an ONNX model, compile every fusion group with Numba, run it as one native call."""

from jitopt.api import compile, load_graph, optimize
from jitopt.errors import (
    CompileError,
    ExecutionError,
    FeedError,
    JitoptError,
    MemoryLimitError,
    ModelError,
    RunCancelled,
    ShapeError,
    UnsupportedOperator,
)
from jitopt.ir.dims import symbol
from jitopt.ir.graph import Graph
from jitopt.session import RunOptions, Session

__version__ = "0.1.0"
__all__ = [
    "CompileError",
    "ExecutionError",
    "FeedError",
    "Graph",
    "JitoptError",
    "MemoryLimitError",
    "ModelError",
    "RunCancelled",
    "RunOptions",
    "Session",
    "ShapeError",
    "UnsupportedOperator",
    "__version__",
    "compile",
    "load_graph",
    "optimize",
    "symbol",
]
