"""What a run gives back: arrays of the caller's, or fresh ones that share memory with nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jitopt.errors import ShapeError
from jitopt.ir.dims import Environment
from jitopt.ir.types import TensorType
from jitopt.lower.program import OUTPUT, Buffer, Port, Program
from jitopt.runtime.memory import Memory

Arrays = dict[Buffer, Any]


class Results:
    """The outputs that one run is asked for.

    Kernels write straight into the array of the first port that asks for a buffer. Every other result is a copy: of an
    output that is asked for again or lies in another's bytes, an input, a constant, a table of extents, or what a host
    step made.
    """

    def __init__(self, program: Program, ports: Sequence[Port], out: Sequence[Any] | None, memory: Memory) -> None:
        self._program, self._ports, self._out, self._memory = program, ports, out, memory
        self._direct: dict[Buffer, int] = {}
        for index, port in enumerate(ports):
            if port.buffer.kind == OUTPUT:
                self._direct.setdefault(port.buffer, index)

    def expect(self, environment: Environment) -> None:
        """Hold the caller's arrays against the shapes that are known by now. Raises ShapeError."""
        for port, array in zip(self._ports, self._out or (), strict=False):
            shape = _known_shape(port, environment)
            if shape is not None and array.shape != shape:
                raise ShapeError(
                    f"out for {port.name!r} has the shape {array.shape}, the result has {shape}",
                    model=self._program.name,
                )  # fmt: skip

    def allocate(self, buffer: Buffer, environment: Environment) -> Any:
        """The array that kernels write a buffer outside the pool into.

        For a result it has the port's shape, else it is flat and as large as the buffer is: a value in a blocked layout
        is larger than its logical shape says.
        """
        index = self._direct.get(buffer)
        if index is not None and self._out is not None:
            return self._out[index]
        tensor = buffer.type if index is None else self._ports[index].type
        assert isinstance(tensor, TensorType) and tensor.dtype.numpy is not None
        if index is None or tensor.shape is None:
            return self._memory.array((environment(buffer.size) // tensor.dtype.itemsize,), tensor.dtype.numpy)
        return self._memory.array(environment.shape(tensor.shape), tensor.dtype.numpy)

    def take(self, arrays: Arrays, environment: Environment) -> list[Any]:
        """The results in the order asked for."""
        self.expect(environment)
        return [self._result(index, port, arrays, environment) for index, port in enumerate(self._ports)]

    def _result(self, index: int, port: Port, arrays: Arrays, environment: Environment) -> Any:
        buffer = port.buffer
        array = arrays.get(buffer)
        if array is None:
            array = buffer.array if buffer.table is None else buffer.table.fill(environment)
        if not isinstance(port.type, TensorType) or not isinstance(array, np.ndarray):
            return _detached(array)
        if self._direct.get(buffer) == index:
            return array
        shape = array.shape if port.type.shape is None else environment.shape(port.type.shape)
        if self._out is None:
            return array.reshape(shape).copy()
        target = self._out[index]
        if target.shape != shape:
            raise ShapeError(
                f"out for {port.name!r} has the shape {target.shape}, the result has {shape}", model=self._program.name
            )
        target[...] = array.reshape(shape)
        return target


def _known_shape(port: Port, environment: Environment) -> tuple[int, ...] | None:
    """None where a host step has yet to tell an extent."""
    if not isinstance(port.type, TensorType) or port.type.shape is None:
        return None
    try:
        return environment.shape(port.type.shape)
    except KeyError:
        return None


def _detached(value: Any) -> Any:
    """A sequence or optional without memory of others."""
    if isinstance(value, (list, tuple)):
        return [_detached(element) for element in value]
    return value.copy() if isinstance(value, np.ndarray) else value
