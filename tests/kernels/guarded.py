"""Arrays that touch a protected page, so a kernel that reads or writes outside them is killed at once."""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

import numpy as np

PAGE = mmap.PAGESIZE
_NO_ACCESS = 0
_mprotect = ctypes.CDLL(None, use_errno=True).mprotect
_mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


def guarded(array: Any, side: str = "end") -> np.ndarray[Any, Any]:
    """A copy of `array` between two protected pages, touching the one behind it ("end") or before it ("start")."""
    array = np.ascontiguousarray(array)
    pages = max(-(-array.nbytes // PAGE), 1)
    region = mmap.mmap(-1, (pages + 2) * PAGE)
    memory = np.frombuffer(region, np.uint8)
    for page in (0, pages + 1):
        if _mprotect(memory.ctypes.data + page * PAGE, PAGE, _NO_ACCESS):
            raise OSError(ctypes.get_errno(), "mprotect")
    first = PAGE if side == "start" else (pages + 1) * PAGE - array.nbytes
    out = memory[first : first + array.nbytes].view(array.dtype).reshape(array.shape)
    out[...] = array
    return out


def guarded_like(shape: Any, dtype: Any = np.float32, side: str = "end") -> np.ndarray[Any, Any]:
    """An output between protected pages, filled with a value no test expects."""
    return guarded(np.full(shape, 77, dtype), side)
