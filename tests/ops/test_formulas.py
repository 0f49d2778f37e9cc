"""The device formula a MAP operator names computes what its reference does.

Formulas run as plain Python over NumPy arrays, which needs the JIT off from the start: hence a process of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import numpy as np

from jitopt.ops import operators
from jitopt.ops.operator import Kind, Operator
from jitopt.verify import compare
from tests.ops import oracle

# Lowering spells these by attribute or number of inputs; the formula named is that of the plainest form.
_SPECIAL = frozenset({"Cast", "CastLike", "Clip", "Gelu", "Max", "Min", "Mod", "Sum"})
_DTYPES = frozenset({"float32", "bool", "int32", "int64"})


def test_formulas_agree_with_references() -> None:
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    command = [sys.executable, "-m", "tests.ops.test_formulas"]
    found = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    assert not found.stdout, found.stdout


def _wrong() -> Iterator[str]:
    import jitopt_kernels.formulas as formulas

    for operator in operators():
        if operator.formula is None or operator.kind is not Kind.MAP:
            continue
        name = operator.formula.rpartition(".")[2]
        if not hasattr(formulas, name):
            yield f"{operator.name}: there is no formula {name}"
        elif operator.name not in _SPECIAL:
            yield from _disagreements(operator, getattr(formulas, name))


def _disagreements(operator: Operator, formula: object) -> Iterator[str]:
    assert callable(formula)
    for case in oracle.cases(operator, oracle.opsets(operator)[-1]):
        if case.dtype not in _DTYPES:
            continue
        graph, (expected,) = oracle.run_ours(case)
        attrs = operator.attrs(graph.nodes[0])
        scalars = [np.float32(getattr(attrs, key)) for key in operator.scalars]
        with np.errstate(all="ignore"):
            found = formula(*map(np.asarray, case.sample.inputs), *scalars)
        if not (comparison := compare(found, expected)):
            yield f"{case}: {comparison.reason}"


if __name__ == "__main__":
    for line in _wrong():
        print(line)
