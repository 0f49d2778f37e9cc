"""jitopt answers like ONNX Runtime without optimisation, on real inputs, before final activations too."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import onnx
import pytest

import jitopt
from bench import inputs, models
from jitopt.verify import compare

from . import surgery
from .cases import CASES, Case
from .reference import Float64Reference, Reference
from .sensitivity import answers


@pytest.fixture(params=CASES, ids=lambda case: case.name)
def case(request: pytest.FixtureRequest) -> Case:
    """A model whose answers must be right."""
    chosen: Case = request.param
    return chosen


def check(model: Path | onnx.ModelProto, names: Sequence[str], name: str, float64: bool = False) -> Any:
    """Compare the named tensors on every sample of a model in one session; returns the session."""
    session = jitopt.compile(model, outputs=list(names))
    reference = Float64Reference(model, names) if float64 and isinstance(model, Path) else Reference(model, names)
    for sample in inputs.samples(name):
        actual, expected = session.run(list(names), dict(sample.feeds)), reference.run(sample.feeds)
        for tensor, ours, theirs in zip(names, actual, expected, strict=True):
            result = compare(ours, theirs)
            assert result, f"{name}, {sample.label}: {tensor}: {result.reason}"
    return session


def test_answers_are_right(case: Case) -> None:
    path = models.load(case.name)
    graph = onnx.load(path).graph
    names = answers(graph)
    if case.every:
        names += [name for name in surgery.intermediates(graph) if name not in names]
    session = check(path, names, case.name, case.float64)
    if not case.host_steps:
        assert session.explain().as_dict()["host_steps"] == []


def test_answers_inside_branches_are_right(case: Case) -> None:
    model = onnx.load(models.load(case.name))
    if not any(node.op_type == "If" for node in model.graph.node):
        pytest.skip(f"{case.name} has no If")
    flat = surgery.without_ifs(model, inputs.inputs(case.name)[0])
    check(flat, answers(flat.graph), case.name)


def test_outputs_alone_are_right(case: Case) -> None:
    """Without the extra outputs, which keep some fusions from happening; and within the number of kernels asked for."""
    path = models.load(case.name)
    session, reference = jitopt.compile(path), Float64Reference(path) if case.float64 else Reference(path)
    for sample in inputs.samples(case.name):
        actual = session.run(None, dict(sample.feeds))
        for tensor, ours, theirs in zip(reference.outputs, actual, reference.run(sample.feeds), strict=True):
            result = compare(ours, theirs)
            assert result, f"{case.name}, {sample.label}: {tensor}: {result.reason}"
    if case.kernels is not None:
        assert session.explain().as_dict()["kernels_run"] <= case.kernels
