"""Single kernels to measure: a small graph, feeds for it, and how much work it is.

The time that counts is the kernel's own, on the driver's clock: reorders at the borders of a convolution do not count,
nor does what a call from Python costs.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import jitopt
from jitopt.explain import REORDERS
from jitopt.ir.graph import Graph, Value
from jitopt.lower.program import HostStep
from jitopt.runtime.executor import StepTimes

Array = np.ndarray[Any, Any]
SEED = 1


@dataclass(frozen=True)
class Case:
    """One kernel: floating-point operations of a run (a multiply-add is two), and bytes it must read and write."""

    name: str
    graph: Graph
    feeds: dict[str, Array]
    flops: float
    bytes_moved: float


@dataclass(frozen=True)
class Speed:
    """Best time of a kernel in seconds, and how often it was timed; `kernels` is what a run executes."""

    seconds: float
    runs: int
    kernels: int

    def gflops(self, case: Case) -> float:
        return case.flops / self.seconds / 1e9

    def gbs(self, case: Case) -> float:
        return case.bytes_moved / self.seconds / 1e9


def measure(session: jitopt.Session, case: Case, runs: int = 50, seconds: float = 2.0) -> Speed:
    """The shortest time of the session's kernels over `runs` runs, fewer where they take longer than `seconds`.

    The shortest, as the machine's peak is the best it has shown; results go to arrays that are written every time, so
    that no fresh page of memory is paid for.
    """
    out = session.run(None, case.feeds)
    best, kernels, done = math.inf, 0, 0
    end = time.perf_counter() + seconds
    while done < runs and (done < 3 or time.perf_counter() < end):
        own = kernel_seconds(session, case.feeds, out)
        best, kernels, done = min(best, sum(own)), len(own), done + 1
    return Speed(best, done, kernels)


def kernel_seconds(session: jitopt.Session, feeds: Mapping[str, Array], out: Sequence[Array]) -> list[float]:
    """Seconds of every kernel and host step of one run, reorders apart; results go into `out`."""
    executor, times = session._executor, StepTimes()
    inputs = [feeds[port.name] for port in session.get_inputs()]
    executor.run(inputs, executor.program.outputs, out, times=times)
    return [took for step, took in times.steps if isinstance(step, HostStep) or step.spec.template not in REORDERS]


class _Builder:
    def __init__(self, name: str) -> None:
        self.graph, self.feeds = Graph(name), dict[str, Array]()
        self.rng = np.random.default_rng(SEED)

    def input(self, name: str, shape: Sequence[int]) -> Value:
        self.feeds[name] = self.rng.standard_normal(tuple(shape), np.float32)
        return self.graph.input(name, "float32", tuple(shape))

    def weight(self, shape: Sequence[int], fan_in: int = 1) -> Value:
        return self.graph.constant(self.rng.standard_normal(tuple(shape), np.float32) / np.float32(math.sqrt(fan_in)))

    def case(self, value: Value, flops: float, elements: float) -> Case:
        self.graph.output(value, name="y")
        return Case(self.graph.name, self.graph, self.feeds, flops, 4.0 * elements)


def _named(what: str, then: Sequence[str]) -> str:
    return " + ".join((what, *then))


def epilogue(builder: _Builder, value: Value, shape: Sequence[int], operators: Sequence[str]) -> Value:
    """Put operators behind a value: "Residual" adds one more input, "Add" a constant, others take the value alone."""
    for name in operators:
        match name:
            case "Residual":
                value = builder.graph.add("Add", [value, builder.input("residual", shape)])
            case "Add" | "Mul":
                value = builder.graph.add(name, [value, builder.weight(())])
            case _:
                value = builder.graph.add(name, [value])
    return value


def conv(
    shape: Sequence[int], filters: int, kernel: int, *, stride: int = 1, pad: int | None = None, groups: int = 1,
    then: Sequence[str] = (), bias: bool = True,
) -> Case:  # fmt: skip
    """A square convolution of [batch, channels, height, width]; `pad` is kernel // 2 by default."""
    batch, channels, height, width = shape
    pad = kernel // 2 if pad is None else pad
    rows, columns = ((extent + 2 * pad - kernel) // stride + 1 for extent in (height, width))
    strided = f"/{stride}" * (stride > 1)
    builder = _Builder(_named(f"conv {kernel}x{kernel} {channels}->{filters} {height}x{width}{strided}", then))
    fan_in = channels // groups * kernel * kernel
    operands = [builder.input("x", shape), builder.weight((filters, channels // groups, kernel, kernel), fan_in)]
    if bias:
        operands.append(builder.weight((filters,)))
    value = builder.graph.add(
        "Conv", operands, kernel_shape=(kernel, kernel), pads=(pad,) * 4, strides=(stride, stride), group=groups
    )
    out = (batch, filters, rows, columns)
    value = epilogue(builder, value, out, then)
    count = math.prod(out)
    moved = math.prod(shape) + filters * fan_in + count * (1 + ("Residual" in then))
    return builder.case(value, 2.0 * fan_in * count, moved)


def gemm(shape: Sequence[int], *, then: Sequence[str] = (), bias: bool = True) -> Case:
    """[m, k] times a constant [k, n], for shape (m, k, n), plus a bias."""
    m, k, n = shape
    builder = _Builder(_named(f"gemm {m}x{k}x{n}", then))
    value = builder.graph.add("MatMul", [builder.input("x", (m, k)), builder.weight((k, n), k)])
    if bias:
        value = builder.graph.add("Add", [value, builder.weight((n,))])
    value = epilogue(builder, value, (m, n), then)
    return builder.case(value, 2.0 * m * k * n, m * k + k * n + m * n * (1 + ("Residual" in then)))


def pointwise(shape: Sequence[int], operators: Sequence[str] = ("Gelu",)) -> Case:
    """A chain of operators over one tensor."""
    builder = _Builder(f"{' '.join(operators)} over {math.prod(shape):,}")
    value = epilogue(builder, builder.input("x", shape), shape, operators)
    count = math.prod(shape)
    return builder.case(value, float(count * len(operators)), count * (2 + ("Residual" in operators)))


def reduce(shape: Sequence[int], operator: str = "Softmax") -> Case:
    """Softmax, LayerNormalization or a Reduce operator along the last axis."""
    builder = _Builder(f"{operator} over {'x'.join(map(str, shape))}")
    x, count = builder.input("x", shape), math.prod(shape)
    if operator.startswith("Reduce"):
        axes = builder.graph.constant(np.array([-1], np.int64))
        value, written = builder.graph.add(operator, [x, axes], keepdims=1), count // max(shape[-1], 1)
    elif operator == "LayerNormalization":
        value, written = builder.graph.add(operator, [x, builder.weight(shape[-1:]), builder.weight(shape[-1:])]), count
    else:
        value, written = builder.graph.add(operator, [x], axis=-1), count
    return builder.case(value, float(count), count + written)


def batched(outer: int, shape: Sequence[int]) -> Case:
    """[outer, m, k] times [outer, k, n], for shape (m, k, n): the products of attention."""
    m, k, n = shape
    builder = _Builder(f"matmul {outer} x {m}x{k}x{n}")
    value = builder.graph.add("MatMul", [builder.input("a", (outer, m, k)), builder.input("b", (outer, k, n))])
    return builder.case(value, 2.0 * outer * m * k * n, outer * (m * k + k * n + m * n))


def chain(length: int) -> tuple[str, ...]:
    """`length` cheap operators, none of which a pass merges with its neighbour."""
    return tuple(("Add", "Relu", "Mul", "Abs")[i % 4] for i in range(length))


KINDS: dict[str, Callable[..., Case]] = {"conv": conv, "gemm": gemm, "pointwise": pointwise, "reduce": reduce}
