"""2,000 damaged models: each is compiled and run, or refused with a JitoptError, within 10 s and without a signal.

The whole road is walked: bytes, reader, passes, lowering, rendered modules, session, feeds, run. Only Numba is left
out: kernels are the Python functions of their modules (`tests.interpreted`), for most damaged models have kernels that
no other model has, and compiling some thousands of them would take hours; compiled code is tested where the kernels
are. Pools, results, constants and tables end at protected pages, so that an access outside them is a signal here, too.
A run whose estimate exceeds MOST_WORK is left out, and one that takes longer than PATIENCE is ended by its options, as
a user would end it: damaged loops may be endless.
"""

from __future__ import annotations

from tests.children import NO_JIT, failures_of

CASES = 2000


def test_damaged_models_answer_or_are_refused() -> None:
    assert not failures_of("tests.mutations.run", range(CASES), seconds=10.0, environment=NO_JIT)
