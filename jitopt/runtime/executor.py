"""Runs a program: binds its segments to the shapes of the feeds, calls the driver, runs host steps between.

A frame holds what one set of shapes needs: the environment and, per segment, its plan and the bindings that are free.
Frames are kept in a bounded LRU; a run takes a binding out, so that runs of one session may overlap.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from jitopt.errors import ExecutionError, MemoryLimitError, RunCancelled, ShapeError
from jitopt.ir.dims import Environment
from jitopt.ir.interpreter import Interpreter, ending_when
from jitopt.lower.checks import verify_extents
from jitopt.lower.program import POOL, TABLE, Address, HostStep, Port, Program, Segment, Step
from jitopt.lower.spec import KernelSpec
from jitopt.ops import find
from jitopt.runtime.binding import Binding, SegmentPlan, plan_segment
from jitopt.runtime.driver import ticks_per_second
from jitopt.runtime.feeds import bind_extents, shapes_of
from jitopt.runtime.host import run_host_step
from jitopt.runtime.launch import RunOptions
from jitopt.runtime.memory import HEAP, Memory
from jitopt.runtime.results import Arrays, Results

MAX_FRAMES = 16
_ERRORS = {1: "index {value} is out of range"}


class StepTimes:
    """Times of one run: every step with its seconds on the calling thread, and the whole."""

    def __init__(self) -> None:
        self.steps: list[tuple[Step | HostStep, float]] = []
        self.total = 0.0

    def add(self, steps: Sequence[Step], seconds: Sequence[float]) -> None:
        """Enter the entries of a step table; the phases of a step count as one."""
        for step, taken in zip(steps, seconds, strict=True):
            if self.steps and self.steps[-1][0] is step:
                taken += self.steps.pop()[1]
            self.steps.append((step, taken))


class Frame:
    """Plans and free bindings for one set of shapes."""

    def __init__(self, environment: Environment) -> None:
        self.environment = environment
        self.plans: dict[int, SegmentPlan] = {}
        self.free: dict[int, list[Binding]] = {}

    @property
    def idle_bytes(self) -> int:
        """Bytes of the pools that no run uses."""
        return sum(binding.plan.pool_bytes for bindings in list(self.free.values()) for binding in list(bindings))


class Executor:
    """Runs one program with compiled kernels; safe to call from several threads.

    `max_memory` bounds the bytes of constants, pools and what a run allocates beside them.
    """

    def __init__(
        self, program: Program, kernels: Mapping[KernelSpec, int], nthreads: int, *, flush_denormals: bool = True,
        max_memory: int | None = None, memory: Memory = HEAP,
    ) -> None:  # fmt: skip
        self.program, self.kernels, self.nthreads = program, kernels, nthreads
        self.flush_denormals = flush_denormals
        self.memory, self.max_memory = memory, max_memory
        self._frames: OrderedDict[tuple[Any, ...], Frame] = OrderedDict()
        self._lock = threading.Lock()
        self._busy_bytes = 0  # of the pools that runs under way use
        self._weight_bytes = sum(b.array.nbytes for b in program.constants if b.array is not None)
        self._interpreters = {step: Interpreter(step.node.graph, find) for step in program.host_steps}

    def like(self, program: Program, kernels: Mapping[KernelSpec, int]) -> Executor:
        """An executor of another program under this one's settings."""
        return Executor(
            program, kernels, self.nthreads, flush_denormals=self.flush_denormals, max_memory=self.max_memory,
            memory=self.memory,
        )  # fmt: skip

    # shapes -----------------------------------------------------------------------------------------------------
    def frame(self, key: tuple[Any, ...], values: Mapping[str, int] | None = None) -> Frame:
        """The frame of a key; made if it is new, for the symbol values or, without them, for the shapes of the key.

        Raises ShapeError for extents the model cannot take.
        """
        with self._lock:
            found = self._frames.get(key)
            if found is not None:
                self._frames.move_to_end(key)
                return found
        name = self.program.name
        environment = Environment(bind_extents(self.program.inputs, key, name) if values is None else values)
        verify_extents(self.program.checks, environment, name)
        with self._lock:
            found = self._frames.setdefault(key, Frame(environment))
            while len(self._frames) > MAX_FRAMES:
                self._frames.popitem(last=False)
        return found

    def plan(self, frame: Frame, index: int) -> SegmentPlan:
        """The plan of segment `index` for the frame's shapes.

        Raises MemoryLimitError before anything is allocated, ShapeError where an extent is not known.
        """
        found = frame.plans.get(index)
        if found is None:
            segment = self.program.parts[index]
            assert isinstance(segment, Segment)
            try:
                outside = self._bytes_outside(segment, frame.environment)
                self._afford(outside, "arrays")
                found = plan_segment(segment, frame.environment, self.kernels, self.nthreads, self.memory)
            except KeyError as error:
                raise ShapeError(
                    f"the extent {error} is not known", model=self.program.name,
                    remedy="run the session, or give feeds",
                ) from None  # fmt: skip
            except ZeroDivisionError:
                raise ShapeError("the model divides by an extent of 0", model=self.program.name) from None
            self._afford(found.pool_bytes + outside, "a pool and arrays")
            frame.plans[index] = found
        return found

    @staticmethod
    def _bytes_outside(segment: Segment, environment: Environment) -> int:
        """Bytes that running the segment allocates beside its pool: tables, results, values for other segments."""
        tables = {a.buffer: None for s in segment.steps for a in s.args if isinstance(a, Address)}
        written = {r.buffer: None for s in segment.steps for r in s.writes if r.buffer.kind != POOL}
        return sum(environment(b.size) for b in {**written, **{b: None for b in tables if b.kind == TABLE}})

    def _afford(self, size: int, what: str, using: int = 0) -> None:
        """Raises MemoryLimitError where `size` bytes more, with the constants and the bytes in use, are too many."""
        if self.max_memory is not None and size + using + self._weight_bytes > self.max_memory:
            raise MemoryLimitError(
                f"these shapes need {what} of {size:,} bytes; with {self._weight_bytes:,} bytes of constants"
                f"{f' and {using:,} bytes of other runs' if using else ''} that is more than the limit of "
                f"{self.max_memory:,}",
                model=self.program.name, remedy="raise max_memory or feed smaller inputs",
            )  # fmt: skip

    def environment(self, inputs: Sequence[Any]) -> Environment:
        """Values of the symbols that the inputs' shapes bind."""
        return Environment(bind_extents(self.program.inputs, shapes_of(inputs), self.program.name))

    def bind(self, shapes: Sequence[tuple[int, ...] | None]) -> None:
        """Plan for the inputs' shapes, in port order, as far as they decide it."""
        frame = self.frame(tuple(shapes))
        for index, part in enumerate(self.program.parts):
            if not isinstance(part, Segment):
                return
            self.plan(frame, index)

    def plans(self, inputs: Sequence[Any] | None) -> list[SegmentPlan]:
        """Plans of all segments for these inputs; without inputs for the latest shapes, or the program's static ones.

        Raises ShapeError where the shapes are not known.
        """
        if inputs is not None:
            frame = self.frame(shapes_of(inputs))
        else:
            with self._lock:
                frame = next(reversed(self._frames.values()), None) or Frame(Environment({}))
        return [self.plan(frame, i) for i, part in enumerate(self.program.parts) if isinstance(part, Segment)]

    # running ----------------------------------------------------------------------------------------------------
    def run(
        self, inputs: Sequence[Any], outputs: Sequence[Port], out: Sequence[Any] | None = None,
        options: RunOptions | None = None, times: StepTimes | None = None,
    ) -> list[Any]:  # fmt: skip
        """Results of the output ports for input arrays in port order (checked by `feeds.read_feeds`).

        `out` are arrays for the results, of the ports' dtypes and ranks, that share no memory with the inputs or each
        other. `times` receives how long every step took.
        """
        begin = time.perf_counter()
        key: tuple[Any, ...] = shapes_of(inputs)
        frame = self.frame(key)
        results = Results(self.program, outputs, out, self.memory)
        results.expect(frame.environment)
        arrays: Arrays = {port.buffer: array for port, array in zip(self.program.inputs, inputs, strict=True)}
        try:
            for index, part in enumerate(self.program.parts):
                if options is not None and options.terminate:
                    raise RunCancelled("the run was ended by its options", model=self.program.name)
                if isinstance(part, Segment):
                    self._run_segment(frame, index, arrays, results, options, times)
                    continue
                start = time.perf_counter()
                with nullcontext() if options is None else ending_when(lambda: options.terminate):
                    found = run_host_step(part, arrays, frame.environment, self._interpreters[part])
                if times is not None:
                    times.steps.append((part, time.perf_counter() - start))
                if found:
                    key = (*key, *found.values())
                    frame = self.frame(key, {**frame.environment.values, **found})
                    results.expect(frame.environment)
            finished = results.take(arrays, frame.environment)
        except MemoryError as error:
            raise MemoryLimitError(
                f"there is not enough memory for this run: {error}", model=self.program.name,
                remedy="feed smaller inputs",
            ) from error  # fmt: skip
        if times is not None:
            times.total = time.perf_counter() - begin
        return finished

    def _run_segment(
        self, frame: Frame, index: int, arrays: Arrays, results: Results, options: RunOptions | None,
        times: StepTimes | None,
    ) -> None:  # fmt: skip
        plan = self.plan(frame, index)
        for _, buffer, _ in plan.patches:
            if buffer not in arrays:
                arrays[buffer] = results.allocate(buffer, frame.environment)
        binding = self._take(frame, index, plan)
        try:
            binding.patch({b: a.ctypes.data for b, a in arrays.items() if isinstance(a, np.ndarray)})
            stamps = None if times is None else np.zeros((len(plan.steps), 2), np.int64)
            finished = binding.launch(options, stamps)
            error = binding.error()
        finally:
            self._give_back(frame, index, binding)
        if times is not None and stamps is not None:
            times.add(plan.steps, ((stamps[:, 1] - stamps[:, 0]) / ticks_per_second()).tolist())
        if error is not None:
            step, code, value = error
            raise ExecutionError(_ERRORS[code].format(value=value), model=self.program.name, node=step.nodes[0])
        if not finished:
            raise RunCancelled("the run was ended by its options", model=self.program.name)

    def _take(self, frame: Frame, index: int, plan: SegmentPlan) -> Binding:
        """A binding no other run uses, with a pool of its own. Raises MemoryLimitError where another is too many."""
        with self._lock:
            free = frame.free.setdefault(index, [])
            if free:
                self._busy_bytes += plan.pool_bytes
                return free.pop()
            if self.max_memory is not None:
                self._afford(plan.pool_bytes, "another pool", self._busy_bytes)
                self._make_room(self.max_memory - self._weight_bytes - self._busy_bytes - plan.pool_bytes)
            self._busy_bytes += plan.pool_bytes
        try:
            return Binding(plan, self.memory.pool(plan.placement), self.nthreads, self.flush_denormals)
        except BaseException:
            with self._lock:
                self._busy_bytes -= plan.pool_bytes
            raise

    def _make_room(self, size: int) -> None:
        """Drop idle pools of the shapes that were met longest ago until the rest take no more than `size` bytes."""
        idle = [(frame, frame.idle_bytes) for frame in self._frames.values()]
        total = sum(size for _, size in idle)
        for frame, freed in idle:
            if total <= size:
                return
            frame.free.clear()
            total -= freed

    def _give_back(self, frame: Frame, index: int, binding: Binding) -> None:
        with self._lock:
            self._busy_bytes -= binding.plan.pool_bytes
            frame.free.setdefault(index, []).append(binding)
