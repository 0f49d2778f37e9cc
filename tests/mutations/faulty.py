"""A child that fails in every way `tests.children` has to notice; see its protocol there."""

from __future__ import annotations

import ctypes
import sys
import time
from typing import NoReturn

FIRST, LAST = (int(text) for text in sys.argv[1:])


def leave() -> NoReturn:
    sys.exit(3)


FAULTS = {
    1: lambda: ctypes.string_at(0),
    2: lambda: time.sleep(60),
    3: lambda: print("failed 3 it is wrong", flush=True),
    5: leave,
}
for case in range(FIRST, LAST):
    print("case", case, flush=True)
    FAULTS.get(case, lambda: None)()
print("done", flush=True)
