"""Every operator's samples through kernels, against the NumPy reference: the templates' conformance test.

Each sample becomes a one-node graph, once with all but its first input constant (weights, axes) and once with all
inputs fed. All kernels are compiled together first, equal specs once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest

from jitopt.codegen.cache import Cache
from jitopt.codegen.compiler import KernelSource, compile_kernels
from jitopt.codegen.host import choose_target
from jitopt.codegen.loader import KernelLibrary
from jitopt.codegen.templates import render
from jitopt.errors import JitoptError
from jitopt.ir.clone import clone
from jitopt.ir.dtypes import dtype_of
from jitopt.ir.graph import Graph
from jitopt.ir.interpreter import Interpreter
from jitopt.lower.layout import assign_layouts
from jitopt.lower.lowering import lower
from jitopt.lower.program import Program
from jitopt.ops import find, operators
from jitopt.ops.operator import Operator, Sample
from jitopt.passes.infer import infer
from jitopt.runtime.executor import Executor
from jitopt.verify import compare

TARGET = choose_target()


@dataclass(frozen=True, eq=False)
class Case:
    name: str
    graph: Graph
    program: Program
    feeds: dict[str, Any]


def build(operator: Operator, sample: Sample, fed: bool) -> tuple[Graph, dict[str, Any]]:
    """The sample as a graph; `fed`: every tensor is an input, otherwise only the first is."""
    graph = Graph("one")
    feeds: dict[str, Any] = {}
    inputs = []
    for index, array in enumerate(sample.inputs):
        if array is None:
            inputs.append(None)
        elif index == 0 or fed:
            array = np.asarray(array)
            inputs.append(graph.input(f"in{index}", dtype_of(array.dtype), array.shape))
            feeds[f"in{index}"] = array
        else:
            inputs.append(graph.constant(np.asarray(array), name=f"in{index}"))
    made = graph.add(operator.name, inputs, outputs=sample.outputs, name="node", **sample.attrs)
    for index, value in enumerate(made if isinstance(made, tuple) else (made,)):
        graph.output(value, f"out{index}")
    return graph, feeds


@cache
def cases() -> dict[str, Case]:
    """Samples that lower to at least one kernel, by name."""
    found: dict[str, Case] = {}
    for operator in operators():
        if operator.nondeterministic or operator.reference is None:
            continue
        for number, sample in enumerate(operator.samples()):
            if any(isinstance(a, list) or (a is not None and np.asarray(a).dtype == object) for a in sample.inputs):
                continue
            for fed in (False, True):
                if fed and len(sample.inputs) < 2:
                    continue
                graph, feeds = build(operator, sample, fed)
                try:
                    infer(graph)
                except JitoptError:
                    continue  # a sample of an older form, which upgrades turn into this one
                blocked = clone(graph)
                assign_layouts(blocked, TARGET.lanes)
                infer(blocked)
                program = lower(blocked, TARGET)
                if program.steps:
                    name = f"{operator.name}-{number}{'-fed' if fed else ''}"
                    found[name] = Case(name, graph, program, feeds)
    return found


@pytest.fixture(scope="module")
def addresses(request: pytest.FixtureRequest) -> Any:
    """Addresses of all kernels that the selected tests need."""
    names = {item.callspec.params.get("name") for item in request.session.items if hasattr(item, "callspec")}
    selected = [case for name, case in cases().items() if name in names]
    sources = {spec: KernelSource.of(render(spec), TARGET) for case in selected for spec in case.program.specs}
    compiled = compile_kernels(list(sources.values()), TARGET, cache=Cache.default())
    with KernelLibrary(TARGET) as library:
        yield {spec: library.add(s.key, compiled[s.key].object) for spec, s in sources.items()}


@pytest.mark.parametrize("name", cases())
def test_kernels_agree_with_the_reference(name: str, addresses: Any) -> None:
    case = cases()[name]
    expected = Interpreter(case.graph, find).run(case.feeds)
    inputs = [case.feeds[v.name] for v in case.graph.inputs]
    inputs = [np.require(a, None, ["C", "A"]) for a in inputs]
    results = []
    for nthreads in (1, 2, 3):
        executor = Executor(case.program, addresses, nthreads, flush_denormals=False)
        results.append(executor.run(inputs, case.program.outputs))
    for index, (port, array) in enumerate(zip(case.program.outputs, results[0], strict=True)):
        assert array.dtype == expected[port.name].dtype and array.shape == expected[port.name].shape
        verdict = compare(array, expected[port.name])
        assert verdict, f"{port.name}: {verdict.reason} {verdict}\n{array}\n{expected[port.name]}"
        for other in results[1:]:
            np.testing.assert_array_equal(array, other[index])
