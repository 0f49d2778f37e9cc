"""The program: a model lowered for a target, valid for every input shape.

Buffers are the program's memory; steps call kernels on them with arguments that are expressions of the input shapes;
host steps run NumPy references; segments are maximal runs of native steps. Binding a segment to shapes gives a plan.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from jitopt.ir.dims import Dim
from jitopt.ir.graph import Metadata, Node
from jitopt.ir.types import TensorType, Type
from jitopt.lower.checks import Check
from jitopt.lower.spec import KernelSpec
from jitopt.lower.tables import Table

POOL, CONSTANT, INPUT, OUTPUT, HOST, TABLE = "pool", "constant", "input", "output", "host", "table"


@dataclass(eq=False, slots=True)
class Buffer:
    """A block of memory: where it lives (`kind`), and its size in bytes as an expression.

    constant  `array` holds the bytes           input, output  the caller's arrays
    pool      planned, shared over time         host  passed between segments and host steps, outside the pool
    table     small integers computed at bind time, as `table` says
    """

    name: str
    kind: str
    size: Dim
    array: np.ndarray[Any, Any] | None = None
    table: Table | None = None
    type: TensorType | None = None

    def __str__(self) -> str:
        return f"{self.name} {self.kind} {self.size} bytes"


@dataclass(frozen=True, slots=True)
class Address:
    """The address of a buffer plus an offset in bytes."""

    buffer: Buffer
    offset: Dim = 0

    def __str__(self) -> str:
        return self.buffer.name if self.offset == 0 else f"{self.buffer.name} + {self.offset}"


@dataclass(frozen=True, slots=True)
class Region:
    """Bytes of a buffer that a step may touch: `images` times `size` of them from `offset` on, `stride` bytes apart.

    `size` None: the whole buffer.
    """

    buffer: Buffer
    offset: Dim = 0
    size: Dim | None = None
    images: Dim = 1
    stride: Dim = 0

    @property
    def whole(self) -> bool:
        return self.size is None

    @property
    def dims(self) -> tuple[Dim, ...]:
        """What has to be evaluated for `ranges`."""
        return (self.offset, self.buffer.size if self.size is None else self.size, self.images, self.stride)


def ranges(offset: int, size: int, images: int, stride: int) -> list[tuple[int, int]]:
    """The bytes [start, end) of a region whose dims are known; one range for all of more than MAX_RANGES images."""
    if images > MAX_RANGES:
        return [(offset, offset + (images - 1) * stride + size)]
    return [(at, at + size) for at in (offset + image * stride for image in range(images))]


MAX_RANGES = 64


@dataclass(frozen=True, slots=True)
class Float:
    """A float32 whose bits fill one word."""

    value: float

    def __str__(self) -> str:
        return f"{self.value!r}f"

    @property
    def bits(self) -> int:
        return int(np.float32(self.value).view(np.int32))


Arg = int | Any  # Dim | Address | Float


@dataclass(eq=False, slots=True)
class Step:
    """One kernel call: `args` fill the spec's words in order; reads and writes are what barriers and live ranges need.

    `scratch` is bytes a thread. `phases` > 1 lists the kernel once a phase with a barrier between.
    """

    spec: KernelSpec
    args: tuple[Arg, ...]
    reads: tuple[Region, ...]
    writes: tuple[Region, ...]
    nodes: tuple[str, ...] = ()
    ops: tuple[str, ...] = ()
    scratch: Dim = 0
    phases: int = 1
    work: Dim = 0  # bytes moved, or multiply-adds of a contraction: too little of it runs on one thread

    @property
    def label(self) -> str:
        return "+".join(self.ops)


@dataclass(eq=False, slots=True)
class HostStep:
    """A node run by its NumPy reference between segments.

    The node stands in a graph of its own (`ir.clone.isolate`); the buffers are those of its inputs, captures and
    outputs, in their order.
    """

    node: Node
    inputs: tuple[Buffer | None, ...]
    captures: tuple[Buffer, ...]
    outputs: tuple[Buffer | None, ...]
    reason: str = ""

    def buffers(self) -> Iterator[Buffer]:
        return iter(b for b in (*self.inputs, *self.captures, *self.outputs) if b is not None)


@dataclass(eq=False, slots=True)
class Segment:
    """Native steps between two host steps."""

    steps: list[Step] = field(default_factory=list)

    def buffers(self) -> Iterator[Buffer]:
        seen: dict[Buffer, None] = {}
        for step in self.steps:
            seen.update(dict.fromkeys(region.buffer for region in (*step.reads, *step.writes)))
        return iter(seen)


@dataclass(eq=False, slots=True)
class Port:
    """A program input or output: name, type and the buffer that carries it.

    For an output, `source` may be an input or constant buffer that is copied into a fresh array.
    """

    name: str
    type: Type
    buffer: Buffer


@dataclass(eq=False, slots=True)
class Program:
    """Everything a session needs to run a model, except kernels' object code."""

    name: str
    target: str
    inputs: list[Port]
    outputs: list[Port]
    parts: list[Segment | HostStep]
    metadata: Metadata
    checks: list[Check] = field(default_factory=list)  # of the extents, before kernels run

    @property
    def steps(self) -> list[Step]:
        return [s for part in self.parts if isinstance(part, Segment) for s in part.steps]

    @property
    def host_steps(self) -> list[HostStep]:
        return [part for part in self.parts if isinstance(part, HostStep)]

    @property
    def specs(self) -> list[KernelSpec]:
        """Distinct specs in order of first use."""
        return list(dict.fromkeys(s.spec for s in self.steps))

    @property
    def constants(self) -> list[Buffer]:
        found = {r.buffer: None for s in self.steps for r in s.reads if r.buffer.kind == CONSTANT}
        return list(found)
