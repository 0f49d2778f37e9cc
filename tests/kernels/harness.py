"""What the kernel tests share: calling a template as a step would, one epilogue, and a bound on rounding errors."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
from jitopt_kernels.simd import inlined, load, load_masked, select, store, store_masked
from numba import njit

EPS = float(np.finfo(np.float32).eps)
THREADS = (1, 2, 3, 8)


def address(array: Any) -> int:
    """Where an array lies; 0 for none."""
    return 0 if array is None else int(array.ctypes.data)


def caller(template: Any) -> Callable[..., None]:
    """call(words, operands, nthreads): run every share of a template, one after the other, last thread first."""
    count = len(inspect.signature(getattr(template, "py_func", template)).parameters) - 3
    words_ = ", ".join(f"words[{i}]" for i in range(count))
    names = {"template": template}
    exec(f"def share_of(words, operands, tid, nthreads): template({words_}, operands, tid, nthreads)", names)
    share_of = njit(error_model="numpy")(names["share_of"])

    def call(words: Any, operands: Any, nthreads: int = 1) -> None:
        assert len(words) == count, f"{len(words)} words for {count} parameters"
        words, operands = tuple(int(w) for w in words), tuple(int(w) for w in operands)
        for tid in reversed(range(nthreads)):
            share_of(words, operands, tid, nthreads)

    return call


def bias_epilogue(lanes: int, blocked: bool) -> tuple[Any, Any]:
    """(finish, finish_tail) of y = max(v + bias, 0) for operands (y, bytes of one image of y, bias).

    NaN stays NaN. `blocked`: a partial vector is stored whole, with zeros beyond the mask.
    """

    @inlined
    def finish(v, image, offset, column, operands):
        x = v + load(operands[2] + column, "float32", lanes)
        store(operands[0] + image * operands[1] + offset, select(x < 0.0, 0.0, x))

    @inlined
    def finish_tail(v, image, offset, column, operands, mask):
        x = v + load_masked(operands[2] + column, mask, "float32")
        y = select(x < 0.0, 0.0, x)
        if blocked:
            store(operands[0] + image * operands[1] + offset, select(mask, y, 0.0))
        else:
            store_masked(operands[0] + image * operands[1] + offset, y, mask)

    return finish, finish_tail


def store_epilogue(lanes: int, blocked: bool) -> tuple[Any, Any]:
    """(finish, finish_tail) that store v alone, for operands (y, bytes of one image of y)."""

    @inlined
    def finish(v, image, offset, column, operands):
        store(operands[0] + image * operands[1] + offset, v)

    @inlined
    def finish_tail(v, image, offset, column, operands, mask):
        if blocked:
            store(operands[0] + image * operands[1] + offset, select(mask, v, 0.0))
        else:
            store_masked(operands[0] + image * operands[1] + offset, v, mask)

    return finish, finish_tail


def assert_close(got: Any, expected: Any, magnitude: Any, terms: int) -> None:
    """`got` equals `expected` (float64) within the rounding of a sum of `terms` products whose sizes add to
    `magnitude`: each of at most terms + 2 operations errs by half an ulp of a partial sum."""
    bound = (terms + 2) * EPS * np.asarray(magnitude) + 1e-30
    error = np.abs(np.asarray(got, np.float64) - expected)
    worst = np.unravel_index(np.argmax(error - bound), error.shape) if error.size else None
    assert worst is None or error[worst] <= bound[worst], f"{error[worst]} > {bound[worst]} at {worst}"
