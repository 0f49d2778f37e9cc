"""Small kernel module texts for the tests of codegen and runtime."""

from __future__ import annotations

ADD_ONE = """
from jitopt_kernels.abi import share, word
from jitopt_kernels.simd import load_masked, store_masked, tail_mask


def kernel(args, tid, nthreads):
    x, y, count = word(args, 4), word(args, 5), word(args, 6)
    lo, hi = share(count, 8, tid, nthreads)
    for i in range(lo, hi, 8):
        mask = tail_mask(hi - i, 8)
        store_masked(y + 4 * i, load_masked(x + 4 * i, mask, "float32") + 1, mask)
"""
"""float32 y[i] = x[i] + 1 for i < count; words 4 to 6 are x, y, count."""


def store_value(value: int) -> str:
    """A kernel that writes `value` at the address in word 4, through a helper of the same name in every text."""
    return f"""
from numba import njit

from jitopt_kernels.abi import word
from jitopt_kernels.simd import store_scalar


@njit(inline="never")
def helper(address, tid):
    for i in range(tid, 1):
        store_scalar(address + 8 * i, {value})


def kernel(args, tid, nthreads):
    helper(word(args, 4), tid)
"""


RAISES = """
def kernel(args, tid, nthreads):
    if tid > 3:
        raise ValueError("no")
"""

CALLS_LIBM = """
import math

from jitopt_kernels.abi import word
from jitopt_kernels.simd import store_scalar


def kernel(args, tid, nthreads):
    store_scalar(word(args, 4), math.sin(float(tid)))
"""

ALLOCATES = """
import numpy as np

from jitopt_kernels.abi import word
from jitopt_kernels.simd import store_scalar


def kernel(args, tid, nthreads):
    store_scalar(word(args, 4), np.zeros(tid).sum())
"""

DOES_NOT_TYPE = """
def kernel(args, tid, nthreads):
    return args + "one"
"""

NOISY = """
import os
import sys

print("printed while the module was imported")
os.write(1, b"written to descriptor 1")
sys.stdout.flush()


def kernel(args, tid, nthreads):
    pass
"""

KILLS_ITS_COMPILER = """
import os

os.kill(os.getpid(), 9)


def kernel(args, tid, nthreads):
    pass
"""


def kills_its_compiler_once(flag: str) -> str:
    """A module whose first import kills the process; the flag file tells the second import."""
    return f"""
import os
import pathlib

flag = pathlib.Path({flag!r})
if not flag.exists():
    flag.write_text("seen")
    os.kill(os.getpid(), 9)


def kernel(args, tid, nthreads):
    pass
"""
