"""GELU in three forms: what the cheaper ones save and how far they are off."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import jitopt
from jitopt.ir.graph import Graph

COUNT, REACH, RUNS = 1 << 14, 8.0, 100
# Form -> largest error it may have against the exact GELU in float64: rounding, and the approximations' own.
FORMS = {"exact": 2e-6, "tanh": 5e-4, "sigmoid": 2.1e-2}


def gelu() -> list[dict[str, Any]]:
    """For each form its best time, on the driver's clock, one thread, turn about, and its largest error."""
    graph = Graph("gelu")
    graph.output(graph.add("Gelu", [graph.input("x", "float32", (COUNT,))]), name="y")
    x = np.linspace(-REACH, REACH, COUNT, dtype=np.float32)
    exact = np.array([0.5 * v * (1 + math.erf(v / math.sqrt(2))) for v in x.tolist()])
    sessions = {form: jitopt.compile(graph, gelu=form, num_threads=1) for form in FORMS}
    best = dict.fromkeys(FORMS, math.inf)
    for _ in range(RUNS):
        for form, session in sessions.items():
            best[form] = min(best[form], sum(step.seconds for step in session.profile({"x": x}, 1).steps))
    errors = {form: float(np.abs(s.run(None, {"x": x})[0] - exact).max()) for form, s in sessions.items()}
    return [
        {
            "form": form, "elements": COUNT, "us": best[form] * 1e6, "relative_time": best[form] / best["exact"],
            "max_error": errors[form], "bound": bound, "ok": errors[form] <= bound,
        }
        for form, bound in FORMS.items()
    ]  # fmt: skip
