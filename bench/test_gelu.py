"""GELU exact and approximate against the same formulas written with SciPy and NumPy, on one thread."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy import special

from bench.conftest import Time
from jitopt.cli.cases import pointwise

Array = npt.NDArray[np.float32]
COUNT = 1 << 20
ROOT_HALF, ROOT, ALPHA = np.float32(math.sqrt(0.5)), np.float32(math.sqrt(2 / math.pi)), np.float32(1.702)
HALF, ONE, CUBIC = np.float32(0.5), np.float32(1), np.float32(0.044715)

SCIPY: dict[str, Callable[[Array], Array]] = {
    "exact": lambda x: HALF * x * (ONE + special.erf(x * ROOT_HALF)),
    "tanh": lambda x: HALF * x * (ONE + np.tanh(ROOT * (x + CUBIC * x * x * x))),
    "sigmoid": lambda x: x * special.expit(ALPHA * x),
}


@pytest.mark.parametrize("form", SCIPY)
def test_gelu(timed: Time, benchmark: Any, form: str) -> None:
    case = pointwise((COUNT,), ("Gelu",))
    (x,) = case.feeds.values()
    found = timed(case, "GELU", gelu=form)
    best = math.inf
    for _ in range(10):
        start = time.perf_counter()
        SCIPY[form](x)
        best = min(best, time.perf_counter() - start)
    exact = 0.5 * x.astype(np.float64) * (1 + special.erf(x.astype(np.float64) / math.sqrt(2)))
    ours, theirs = _answer(case, form), SCIPY[form](x)
    benchmark.extra_info.update(
        form=form, elements=COUNT, scipy_seconds=best, times_faster=best / found["seconds"],
        max_error=float(np.abs(ours - exact).max()), scipy_max_error=float(np.abs(theirs - exact).max()),
    )  # fmt: skip


def _answer(case: Any, form: str) -> Array:
    import jitopt

    result: Array = jitopt.compile(case.graph, gelu=form, num_threads=1).run(None, case.feeds)[0]
    return result
