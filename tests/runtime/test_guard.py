"""Guard pages: touching a byte outside a buffer is a fault or is found afterwards; inside is not."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jitopt.runtime.guard import PAGE, GuardedArrays, GuardedPool, guard_pages
from jitopt.runtime.planner import Buffer

OVERRUN = """
import ctypes, sys
from jitopt.runtime.guard import GuardedPool, guard_pages
from jitopt.runtime.planner import Buffer
buffers = [Buffer(size, 0, 0) for size in (10, 5000, 4096)]
pool = GuardedPool(guard_pages(buffers))
index, past = int(sys.argv[1]), int(sys.argv[2])
ctypes.c_char.from_address(pool.address + pool.placement.offsets[index] + buffers[index].size - 1 + past).value
print("alive")
"""


@pytest.mark.parametrize("index", [0, 1, 2])
@pytest.mark.parametrize("past", [0, 1])
def test_one_byte_past_the_end_is_a_fault(index, past):
    done = subprocess.run([sys.executable, "-c", OVERRUN, str(index), str(past)], capture_output=True, check=False)
    assert (done.returncode, done.stdout) == ((-11, b"") if past else (0, b"alive\n"))


@given(st.lists(st.integers(0, 3 * PAGE), max_size=10))
def test_every_buffer_has_pages_of_its_own(sizes):
    buffers = [Buffer(size, 0, 0) for size in sizes]
    placement = guard_pages(buffers)
    ends = [offset + size for offset, size in zip(placement.offsets, sizes, strict=True)]
    assert all(end % PAGE == 0 for end in ends)
    for end, following in zip([0, *ends], [*placement.offsets, placement.pool_bytes], strict=True):
        assert following >= end + PAGE


def test_whole_buffers_can_be_written_and_writes_in_front_are_found():
    buffers = [Buffer(100, 0, 0), Buffer(PAGE + 1, 0, 0), Buffer(0, 0, 0)]
    with GuardedPool(guard_pages(buffers)) as pool:
        for offset, buffer in zip(pool.placement.offsets, buffers, strict=True):
            ctypes.memset(pool.address + offset, 1, buffer.size)
        pool.check()
        ctypes.memset(pool.address + pool.placement.offsets[1] - 1, 0, 1)
        with pytest.raises(MemoryError, match="in front of buffer 1"):
            pool.check()
        ctypes.memset(pool.address + pool.placement.offsets[1] - 1, 0xA5, 1)


def test_guarded_arrays_end_at_a_page():
    arrays = GuardedArrays()
    values = np.arange(35, dtype="f4").reshape(5, 7)
    copy = arrays.copy(values)
    np.testing.assert_array_equal(copy, values)
    assert (copy.ctypes.data + copy.nbytes) % PAGE == 0
    assert arrays.empty((0, 3), "i8").shape == (0, 3)
    arrays.check()
