"""How weights are packed for the kernels, and how much scratch kernels need; loads neither Numba nor llvmlite.

The caller packs constants once, in a process that never imports Numba. Scratch sizes are bytes of one thread and
accept symbolic extents: they use + * // only.
"""

from __future__ import annotations

from typing import Any

import numpy as np

SCRATCH_PANELS = 4  # panels of B a thread copies at a time, where B is not packed


def pack_b(b: np.ndarray[Any, Any], lanes: int, panel: int) -> np.ndarray[Any, Any]:
    """Pack B[..., K, N] into panels [..., ceil(N / width), K, width] with width = panel * lanes, zero-padded."""
    *batch, k, n = b.shape
    width = panel * lanes
    panels = -(-n // width)
    padded = np.zeros((*batch, k, panels * width), np.float32)
    padded[..., :n] = b
    return np.ascontiguousarray(np.moveaxis(padded.reshape(*batch, k, panels, width), -2, -3))


def gemm_scratch(k: Any, lanes: int, panel: int) -> Any:
    """Scratch of one thread for the layouts "rows" and "columns"; `k` may be symbolic."""
    return k * (SCRATCH_PANELS * panel * lanes * 4)
