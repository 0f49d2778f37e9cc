"""Every operator's reference, at every opset at which it changed, against ONNX Runtime; and its inference against both.

The cases come from the operators' own samples; nothing is listed here.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import onnxruntime
import pytest

from jitopt.ops import find, operators
from jitopt.ops.operator import Operator
from jitopt.verify import compare
from tests.ops import oracle
from tests.ops.exclusions import EXCLUSIONS, Exclusion, exclusion
from tests.ops.unsampled import UNSAMPLED

# Shapes that depend on data, on the length of a sequence, or on a rank that a symbol stands for.
DATA_DEPENDENT = frozenset(
    [
        "Compress", "ConcatFromSequence", "GatherND", "NonMaxSuppression", "NonZero", "OneHot", "Range", "SequenceAt",
        "Squeeze", "Unique",
    ]
)  # fmt: skip
_PAIRS = [pytest.param(op, v, id=f"{op.name}-{v}") for op, v in oracle.grouped(list(operators()))]


def _expected(case: oracle.Case) -> list[Any]:
    found = exclusion(case)
    if found is None or found.older:
        return oracle.run_onnxruntime(case if found is None else replace(case, opset=found.older))
    return oracle.run_reference_evaluator(case)


@pytest.mark.parametrize(("operator", "opset"), _PAIRS)
def test_reference(operator: Operator, opset: int) -> None:
    cases = oracle.cases(operator, opset)
    excused = operator.name in UNSAMPLED or f"{operator.name}-{opset}" in UNSAMPLED
    assert excused is not bool(cases), "no sample holds at this opset, or the excuse is out of date"
    wrong = [f"{case}: {problem}" for case in cases if (problem := _problem(case))]
    if wrong:
        pytest.fail("\n".join(wrong), pytrace=False)


def _problem(case: oracle.Case) -> str:
    graph, ours = oracle.run_ours(case)
    for value, result in zip(graph.outputs, ours, strict=True):
        if problem := oracle.misfit(value.type, result, {}, exact=False):
            return problem
    if case.operator.nondeterministic:
        return ""
    try:
        theirs = _expected(case)
    except Exception as error:  # ONNX Runtime's exceptions share no base class
        return f"no answer from the oracle: {type(error).__name__}: {str(error).splitlines()[0]}"
    for index, (result, expected) in enumerate(zip(ours, theirs, strict=True)):
        pairs = zip(result, expected, strict=True) if isinstance(result, list) else [(result, expected)]
        for a, b in pairs:
            if not (comparison := compare(a, np.asarray(b))):
                return f"output {index}: {comparison.reason}"
    return ""


@pytest.mark.parametrize(("operator", "opset"), _PAIRS)
def test_symbolic_inference(operator: Operator, opset: int) -> None:
    """With symbols for extents, substituting their values gives the result's shape; none is left unknown needlessly."""
    for case in oracle.cases(operator, opset):
        exact = operator.name not in DATA_DEPENDENT and "keep_aspect_ratio_policy" not in case.sample.attrs
        _, ours = oracle.run_ours(case)
        graph = oracle.build_graph(case, symbolic=True)
        for value, result in zip(graph.outputs, ours, strict=True):
            problem = oracle.misfit(value.type, result, oracle.extents(case), exact=exact)
            assert not problem, f"{case}: {problem}"


@pytest.mark.parametrize(("operator", "opset"), _PAIRS)
def test_inference_without_ranks(operator: Operator, opset: int) -> None:
    """Where ranks are unknown, inference claims nothing that the result denies."""
    for case in oracle.cases(operator, opset):
        _, ours = oracle.run_ours(case)
        graph = oracle.build_graph(case, ranked=False)
        for value, result in zip(graph.outputs, ours, strict=True):
            problem = oracle.misfit(value.type, result, {}, exact=False)
            assert not problem, f"{case}: {problem}"


@pytest.mark.skipif(not onnxruntime.__version__.startswith("1.32."), reason="the table is that of ONNX Runtime 1.32")
@pytest.mark.parametrize("entry", EXCLUSIONS, ids=lambda e: e.operators)
def test_exclusions_are_needed(entry: Exclusion) -> None:
    """ONNX Runtime refuses at least one case of every operator an exclusion names, or answers otherwise."""
    for name in entry.operators.split():
        operator = find(name)
        assert operator is not None
        cases = [c for v in oracle.opsets(operator) for c in oracle.cases(operator, v) if entry.concerns(c)]
        assert any(_departs(case) for case in cases), name


def _departs(case: oracle.Case) -> bool:
    try:
        theirs = oracle.run_onnxruntime(case)
    except Exception:  # ONNX Runtime's exceptions share no base class
        return True
    return not all(compare(a, b) for a, b in zip(oracle.run_ours(case)[1], theirs, strict=True))


def test_every_operator_has_samples_or_a_reason() -> None:
    missing = [o.name for o in operators() if not o.samples() and o.name not in UNSAMPLED]
    assert not missing
    known = {o.name for o in operators()} | {f"{o.name}-{v}" for o, v in oracle.grouped(list(operators()))}
    assert set(UNSAMPLED) <= known
