"""Runs a program: binds its segments to the shapes of the feeds, calls the driver, runs host steps between.

A frame holds what one set of shapes needs: the environment and, per segment, its plan and the bindings that are free.
Frames are kept in a bounded LRU; a run takes a binding out, so that runs of one session may overlap.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jitopt.errors import ExecutionError, MemoryLimitError, RunCancelled, ShapeError
from jitopt.ir.dims import Environment
from jitopt.ir.interpreter import Interpreter
from jitopt.ir.types import TensorType
from jitopt.lower.program import CONSTANT, OUTPUT, Buffer, HostStep, Port, Program, Segment, Step
from jitopt.lower.spec import KernelSpec
from jitopt.ops import find
from jitopt.runtime.binding import Binding, SegmentPlan, allocate_pool, plan_segment
from jitopt.runtime.driver import ticks_per_second
from jitopt.runtime.feeds import bind_symbols
from jitopt.runtime.host import run_host_step
from jitopt.runtime.launch import RunOptions
from jitopt.runtime.planner import Planner, plan_offsets

MAX_FRAMES = 16
_ERRORS = {1: "index {value} is out of range"}
Arrays = dict[Buffer, Any]


class StepTimes:
    """Times of one run: every step with its seconds on the calling thread, and the whole."""

    def __init__(self) -> None:
        self.steps: list[tuple[Step | HostStep, float]] = []
        self.total = 0.0


class Frame:
    """Plans and free bindings for one set of shapes."""

    def __init__(self, environment: Environment) -> None:
        self.environment = environment
        self.plans: dict[int, SegmentPlan] = {}
        self.free: dict[int, list[Binding]] = {}


class Executor:
    """Runs one program with compiled kernels; safe to call from several threads."""

    def __init__(
        self, program: Program, kernels: Mapping[KernelSpec, int], nthreads: int, *, flush_denormals: bool = True,
        max_memory: int | None = None, planner: Planner = plan_offsets,
    ) -> None:  # fmt: skip
        self.program, self.kernels, self.nthreads = program, kernels, nthreads
        self.flush_denormals = flush_denormals
        self.planner, self.max_memory = planner, max_memory
        self._frames: OrderedDict[tuple[Any, ...], Frame] = OrderedDict()
        self._lock = threading.Lock()
        self._interpreters = {step: Interpreter(step.node.graph, find) for step in program.host_steps}

    def like(self, program: Program, kernels: Mapping[KernelSpec, int]) -> Executor:
        """An executor of another program under this one's settings."""
        return Executor(
            program, kernels, self.nthreads, flush_denormals=self.flush_denormals, max_memory=self.max_memory,
            planner=self.planner,
        )  # fmt: skip

    # shapes -----------------------------------------------------------------------------------------------------
    def frame(self, key: tuple[Any, ...], values: Mapping[str, int]) -> Frame:
        """The frame for these symbol values, made if it is new."""
        with self._lock:
            found = self._frames.get(key)
            if found is None:
                found = self._frames[key] = Frame(Environment(values))
                while len(self._frames) > MAX_FRAMES:
                    self._frames.popitem(last=False)
            else:
                self._frames.move_to_end(key)
        return found

    def plan(self, frame: Frame, index: int) -> SegmentPlan:
        """The plan of segment `index` for the frame's shapes."""
        found = frame.plans.get(index)
        if found is None:
            segment = self.program.parts[index]
            assert isinstance(segment, Segment)
            found = plan_segment(segment, frame.environment, self.kernels, self.nthreads, self.planner)
            if self.max_memory is not None and found.pool_bytes > self.max_memory:
                raise MemoryLimitError(
                    f"these shapes need a pool of {found.pool_bytes:,} bytes, more than the limit of {self.max_memory:,}",
                    model=self.program.name, remedy="raise max_memory or feed smaller inputs",
                )  # fmt: skip
            frame.plans[index] = found
        return found

    def environment(self, inputs: Sequence[Any]) -> Environment:
        """Values of the symbols that the inputs' shapes bind."""
        return Environment(bind_symbols(self.program.inputs, inputs))

    def plans(self, inputs: Sequence[Any] | None) -> list[SegmentPlan]:
        """Plans of all segments for these inputs; without inputs for the latest shapes, or the program's static ones.

        Raises ShapeError where the shapes are not known.
        """
        if inputs is None and self._frames:
            frame = next(reversed(self._frames.values()))
        else:
            values = {} if inputs is None else bind_symbols(self.program.inputs, inputs)
            key = tuple(getattr(a, "shape", None) for a in inputs or ())
            frame = self.frame(key, values) if inputs is not None else Frame(Environment(values))
        segments = [i for i, part in enumerate(self.program.parts) if isinstance(part, Segment)]
        try:
            return [self.plan(frame, i) for i in segments]
        except KeyError as error:
            raise ShapeError(
                f"the extent {error} is not known", model=self.program.name, remedy="run the session, or give feeds"
            ) from None

    # running ----------------------------------------------------------------------------------------------------
    def run(
        self, inputs: Sequence[Any], outputs: Sequence[Port], out: Sequence[Any] | None = None,
        options: RunOptions | None = None, times: StepTimes | None = None,
    ) -> list[Any]:  # fmt: skip
        """Results of the output ports for input arrays in port order (checked by `feeds.read_feeds`).

        `times` receives how long every step took.
        """
        begin = time.perf_counter()
        arrays: Arrays = {port.buffer: array for port, array in zip(self.program.inputs, inputs, strict=True)}
        key: tuple[Any, ...] = tuple(getattr(a, "shape", None) for a in inputs)
        with self._lock:
            frame = self._frames.get(key)
        if frame is None:
            frame = self.frame(key, bind_symbols(self.program.inputs, inputs))
        for port, target in zip(outputs, out or (), strict=False):
            if port.buffer.kind == OUTPUT:
                arrays[port.buffer] = target
        for index, part in enumerate(self.program.parts):
            if isinstance(part, Segment):
                self._run_segment(frame, index, arrays, options, times)
            else:
                start = time.perf_counter()
                found = run_host_step(part, arrays, frame.environment, self._interpreters[part])
                if times is not None:
                    times.steps.append((part, time.perf_counter() - start))
                if found:
                    key = (*key, *found.values())
                    frame = self.frame(key, {**frame.environment.values, **found})
        results = [self._result(port, arrays, frame.environment, i, out) for i, port in enumerate(outputs)]
        if times is not None:
            times.total = time.perf_counter() - begin
        return results

    def _run_segment(
        self, frame: Frame, index: int, arrays: Arrays, options: RunOptions | None, times: StepTimes | None
    ) -> None:  # fmt: skip
        plan = self.plan(frame, index)
        free = frame.free.setdefault(index, [])
        try:
            binding = free.pop()
        except IndexError:
            binding = Binding(plan, allocate_pool(plan.pool_bytes), self.nthreads, self.flush_denormals)
        for _, buffer, _ in plan.patches:
            if buffer not in arrays:
                arrays[buffer] = self._allocate(buffer, frame.environment)
        binding.patch({b: a.ctypes.data for b, a in arrays.items() if isinstance(a, np.ndarray)})
        stamps = None if times is None else np.zeros((len(plan.steps), 2), np.int64)
        finished = binding.launch(options, stamps)
        if times is not None and stamps is not None:
            spans = (stamps[:, 1] - stamps[:, 0]) / ticks_per_second()
            times.steps += zip(plan.steps, spans.tolist(), strict=True)
        error = binding.error()
        free.append(binding)
        if error is not None:
            step, code, value = error
            raise ExecutionError(_ERRORS[code].format(value=value), model=self.program.name, node=step.nodes[0])
        if not finished:
            raise RunCancelled("the run was ended by its options", model=self.program.name)

    def _allocate(self, buffer: Buffer, environment: Environment) -> Any:
        """An array for what a segment writes: a result in its port's shape, else flat, as large as the buffer is.

        (A value in a blocked layout is larger than its logical shape says.)
        """
        port = next((p for p in self.program.outputs if p.buffer is buffer), None)
        tensor = buffer.type if port is None else port.type
        assert isinstance(tensor, TensorType) and tensor.dtype.numpy is not None
        if port is None or tensor.shape is None:
            return np.empty(environment(buffer.size) // tensor.dtype.itemsize, tensor.dtype.numpy)
        return np.empty(environment.shape(tensor.shape), tensor.dtype.numpy)

    def _result(
        self, port: Port, arrays: Arrays, environment: Environment, index: int, out: Sequence[Any] | None
    ) -> Any:  # fmt: skip
        array = arrays.get(port.buffer)
        if array is None and port.buffer.table is not None:
            array = port.buffer.table.fill(environment)
        elif array is None and port.buffer.kind == CONSTANT:
            array = port.buffer.array
        if not isinstance(port.type, TensorType) or not isinstance(array, np.ndarray):
            return array
        first = next(p for p in self.program.outputs if p.buffer is port.buffer)
        if port.buffer.kind == OUTPUT and first is port:
            return array
        shape = array.shape if port.type.shape is None else environment.shape(port.type.shape)
        found = array.reshape(shape)
        if out is not None:
            out[index][...] = found
            return out[index]
        return found.copy()
