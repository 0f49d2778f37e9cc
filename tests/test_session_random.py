"""Random graphs of every kind of step agree with the interpreter, whatever is fused.

Each graph runs in default and exact precision, without fusion and without any pass, on one to four sets of extents,
with one to three shares, for vectors of 4, 8 or 16 lanes, every buffer ending at a protected page; in exact mode fused
and unfused agree in every bit. Kernels are the Python functions of their generated modules (`tests.interpreted`): what
they compute and touch is what the compiled ones do, and a graph takes a fraction of a second instead of a minute. A
compiled session runs some of the same steps in tests/test_session_options.py and tests/runtime/test_guarded_runs.py.
"""

from __future__ import annotations

from tests.children import NO_JIT, failures_of

GRAPHS = 40


def test_random_graphs() -> None:
    assert not failures_of("tests.random_runs", range(GRAPHS), seconds=60.0, environment=NO_JIT)
