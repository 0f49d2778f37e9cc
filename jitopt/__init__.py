"""jitopt: optimise an ONNX model, compile every fusion group with Numba, run it as one native call.

Names are loaded when they are first used, so that `import jitopt` costs little more than nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
_HOMES = {
    "jitopt.api": ("compile", "load_graph", "optimize"),
    "jitopt.errors": (
        "CompileError", "ExecutionError", "FeedError", "JitoptError", "MemoryLimitError", "ModelError",
        "RunCancelled", "ShapeError", "UnsupportedOperator",
    ),
    "jitopt.ir.dims": ("symbol",),
    "jitopt.ir.graph": ("Graph",),
    "jitopt.session": ("RunOptions", "Session"),
}  # fmt: skip
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

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


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'jitopt' has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
