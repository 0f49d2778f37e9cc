"""Host steps: nodes that run by their operator's NumPy reference, between native segments."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitopt.errors import ShapeError
from jitopt.ir.dims import Environment, Expr, symbols
from jitopt.ir.graph import Value
from jitopt.ir.interpreter import Interpreter
from jitopt.ir.types import TensorType
from jitopt.lower.program import CONSTANT, Buffer, HostStep


def run_host_step(
    step: HostStep, arrays: dict[Buffer, Any], environment: Environment, interpreter: Interpreter
) -> dict[str, int]:  # fmt: skip
    """Compute the node's outputs into `arrays`; returns symbols of its output shapes that only now have values.

    Raises ExecutionError naming the node where its reference fails, ShapeError where a result has another shape than
    the model says, which later steps rely on.
    """
    node = step.node
    state: dict[Value, Any] = {}
    for value, buffer in zip(node.operands, (*step.inputs, *step.captures), strict=True):
        if value is not None and buffer is not None and value.constant is None:
            state[value] = _array(value, buffer, arrays, environment)
    interpreter.run_node(node, state)
    found: dict[str, int] = {}
    for value, buffer in zip(node.outputs, step.outputs, strict=False):
        if buffer is None:
            continue
        result = state[value]
        if not isinstance(result, np.ndarray) or not isinstance(value.type, TensorType):
            arrays[buffer] = result
            continue
        arrays[buffer] = np.ascontiguousarray(result).reshape(result.shape)
        if value.type.shape is not None:
            try:
                _bind(value, result.shape, environment, found)
            except ShapeError as error:
                raise error.at(model=interpreter.graph.name, node=node.name) from None
    return found


def _bind(value: Value, shape: tuple[int, ...], environment: Environment, found: dict[str, int]) -> None:
    """Enter the extents that are symbols of their own, hold the others against what they must be."""
    dims = value.shape
    fits = len(dims) == len(shape)
    for dim, extent in zip(dims, shape, strict=False):
        try:
            expected = environment(dim)
        except KeyError:
            pure = isinstance(dim, Expr) and symbols(dim) == {str(dim)}
            expected = found.setdefault(str(dim), extent) if pure else extent
        fits = fits and expected == extent
    if not fits:
        declared = ", ".join(map(str, dims))
        raise ShapeError(f"'{value.name}' came out with the shape {shape}, the model says ({declared})")


def _array(value: Value, buffer: Buffer, arrays: dict[Buffer, Any], environment: Environment) -> Any:
    """The array of a value that lives in a buffer, under the value's own shape."""
    found: Any = buffer.array if buffer.kind == CONSTANT else arrays.get(buffer)
    if buffer.table is not None:
        found = buffer.table.fill(environment)
    if isinstance(found, np.ndarray) and isinstance(value.type, TensorType) and value.type.shape is not None:
        return found.reshape(environment.shape(value.type.shape))
    return found
