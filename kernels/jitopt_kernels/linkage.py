"""What a kernel's core and its epilogue call one another by when they are linked; loads neither Numba nor llvmlite."""

from __future__ import annotations

SYMBOLS = {name: f"jitopt_{name}" for name in ("finish", "finish_tail", "prepare")}
"""The functions of an epilogue (see `simd.epilogue`), and the symbols under which a core expects them."""
