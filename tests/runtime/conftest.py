"""Fixtures of the runtime tests: small kernels, compiled once a session."""

from __future__ import annotations

import numpy as np
import pytest

from jitopt.codegen.compiler import KernelSource, compile_kernels
from jitopt.codegen.host import choose_target
from jitopt.codegen.loader import KernelLibrary
from jitopt.runtime.steps import STEP_WORDS

COUNT_SHARES = """
from jitopt_kernels.abi import word
from jitopt_kernels.simd import load_scalar, store_scalar


def kernel(args, tid, nthreads):
    at = word(args, 4) + 16 * tid
    store_scalar(at, load_scalar(at, "int64") + 1)
    store_scalar(at + 8, nthreads)
"""
"""Word 4 addresses pairs of int64, one a thread: how often share tid ran, and the last nthreads."""

REVERSE = """
from jitopt_kernels.abi import share, word
from jitopt_kernels.simd import load_scalar, store_scalar


def kernel(args, tid, nthreads):
    x, y, count = word(args, 4), word(args, 5), word(args, 6)
    lo, hi = share(count, 1, tid, nthreads)
    for i in range(lo, hi):
        store_scalar(y + 8 * i, load_scalar(x + 8 * (count - 1 - i), "int64") * 3 + i)
"""
"""int64 y[i] = 3 x[count - 1 - i] + i: every share reads what another share of the step before wrote."""

ASK_TO_STOP = """
from jitopt_kernels.abi import word
from jitopt_kernels.simd import store_scalar


def kernel(args, tid, nthreads):
    store_scalar(word(args, 4), 1)
"""
"""Writes 1 to the int64 that word 4 addresses."""

HALVE = """
from jitopt_kernels.abi import word
from jitopt_kernels.simd import load, store


def kernel(args, tid, nthreads):
    store(word(args, 5) + 32 * tid, load(word(args, 4), "float32", 8) * 0.5)
"""
"""Eight float32 of word 4, halved, to word 5, once a thread."""

TEXTS = {"count_shares": COUNT_SHARES, "reverse": REVERSE, "ask_to_stop": ASK_TO_STOP, "halve": HALVE}


@pytest.fixture(scope="session")
def kernels():
    """Addresses of the kernels above by name."""
    target = choose_target()
    sources = {name: KernelSource.of(text, target) for name, text in TEXTS.items()}
    compiled = compile_kernels(list(sources.values()), target)
    with KernelLibrary(target) as library:
        yield {name: library.add(source.key, compiled[source.key].object) for name, source in sources.items()}


class Table:
    """A step table under construction; keeps the argument blocks and the arrays they address alive."""

    def __init__(self) -> None:
        self._steps: list[tuple[int, int, int, int]] = []
        self._kept: list[object] = []

    def add(self, kernel: int, *operands: int | np.ndarray, flags: int = 0) -> None:
        words = [operand if isinstance(operand, int) else operand.ctypes.data for operand in operands]
        block = np.array([0, 0, 0, 0, *words], np.int64)
        self._kept.append((block, operands))
        self._steps.append((kernel, block.ctypes.data, flags, len(self._steps)))

    def words(self) -> np.ndarray:
        return np.array(self._steps, np.int64).reshape(-1, STEP_WORDS)


@pytest.fixture
def table():
    """An empty step table."""
    return Table()
