"""The step table the driver walks: four int64 words a step."""

from __future__ import annotations

STEP_WORDS = 4
"""Kernel address, address of its argument block, flags, profile slot."""

KERNEL, ARGS, FLAGS, SLOT = range(STEP_WORDS)

BARRIER = 1
"""Flag: all threads meet before the step begins."""

ONE_THREAD = 2
"""Flag: the calling thread alone runs the step, as share 0 of 1; the others go on to the next."""
