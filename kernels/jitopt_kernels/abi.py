"""The kernel interface seen from inside a kernel: `void kernel(args, tid, nthreads)`.

`args` addresses int64 words. Word 0 is the address of the status block, 1 the address of the whole scratch, 2 the
scratch bytes of one thread, 3 the phase; operands, extents and scalars follow from word 4 as the kernel's spec lists
them. The status block is four int64 words: state (0: no error; 1: one recorded), the address of the reporting
kernel's args, the error code, and the offending value.
"""

from __future__ import annotations

import numpy as np

from .simd import bitcast, compare_exchange, convert, inlined, load_constant, store_scalar

STATUS, SCRATCH, SCRATCH_BYTES, PHASE, FIRST_OPERAND = range(5)
WORD_BYTES = 8
STATUS_WORDS = 4
INDEX_OUT_OF_RANGE = 1


@inlined
def word(args: int, index: int) -> int:
    """Word `index` of an argument block."""
    return load_constant(args + index * WORD_BYTES, "int64")


@inlined
def float_word(value: int) -> np.float32:
    """The float32 whose bits are the low half of a word."""
    return bitcast(convert(value, "int32"), "float32")


@inlined
def share(total: int, grain: int, tid: int, nthreads: int) -> tuple[int, int]:
    """Share `tid` of `nthreads` of range(total) as (lo, hi): even, cut at multiples of `grain`, perhaps empty."""
    grains = (total + grain - 1) // grain
    each, more = grains // nthreads, grains % nthreads
    low = (each * tid + min(tid, more)) * grain
    high = low + (each + (1 if tid < more else 0)) * grain
    return min(low, total), min(high, total)


@inlined
def report(args: int, code: int, value: int) -> None:
    """Record an error in the status block of an argument block, unless one is recorded already."""
    status = word(args, STATUS)
    if compare_exchange(status, 0, 1):
        store_scalar(status + WORD_BYTES, args)
        store_scalar(status + 2 * WORD_BYTES, code)
        store_scalar(status + 3 * WORD_BYTES, value)
