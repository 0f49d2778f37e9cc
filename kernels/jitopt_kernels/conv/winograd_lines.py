"""Winograd's transforms of one row or column of a tile: products with B^T and A^T, for m = 2 and m = 4.

The points of `winograd_packing.POINTS` come in pairs +-p, so each pair of rows is an even part plus and minus an odd
one. A line is m + 2 Vecs (m for outputs) at equal steps in memory, in bytes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jitopt_kernels.simd import fma, inlined, load, store
from jitopt_kernels.winograd_packing import POINTS


def make_input_line(lanes: int, outputs: int) -> Any:
    """line(x, x_step, y, y_step): B^T of m + 2 Vecs. For each point p, row +-p is even +- odd."""
    if outputs == 2:

        @inlined
        def line_2(x, x_step, y, y_step):
            d0, d1 = load(x, "float32", lanes), load(x + x_step, "float32", lanes)
            d2, d3 = load(x + 2 * x_step, "float32", lanes), load(x + 3 * x_step, "float32", lanes)
            store(y, d2 - d0)
            store(y + y_step, d2 + d1)
            store(y + 2 * y_step, d2 - d1)
            store(y + 3 * y_step, d3 - d1)

        return line_2
    a, b, aa, bb, aabb, aa_bb = _constants(*POINTS[4])

    @inlined
    def line_4(x, x_step, y, y_step):
        d0, d1 = load(x, "float32", lanes), load(x + x_step, "float32", lanes)
        d2, d3 = load(x + 2 * x_step, "float32", lanes), load(x + 3 * x_step, "float32", lanes)
        d4, d5 = load(x + 4 * x_step, "float32", lanes), load(x + 5 * x_step, "float32", lanes)
        even_a, odd_a = fma(d2, -bb, d4), fma(d1, -bb, d3) * a
        even_b, odd_b = fma(d2, -aa, d4), fma(d1, -aa, d3) * b
        store(y, fma(d0, aabb, fma(d2, -aa_bb, d4)))
        store(y + y_step, even_a + odd_a)
        store(y + 2 * y_step, even_a - odd_a)
        store(y + 3 * y_step, even_b + odd_b)
        store(y + 4 * y_step, even_b - odd_b)
        store(y + 5 * y_step, fma(d1, aabb, fma(d3, -aa_bb, d5)))

    return line_4


def make_output_line(lanes: int, outputs: int) -> Any:
    """line(x, x_step, y, y_step): A^T of m + 2 Vecs, with the sum and difference of each pair of points."""
    if outputs == 2:

        @inlined
        def line_2(x, x_step, y, y_step):
            m0, m1 = load(x, "float32", lanes), load(x + x_step, "float32", lanes)
            m2, m3 = load(x + 2 * x_step, "float32", lanes), load(x + 3 * x_step, "float32", lanes)
            store(y, m0 + (m1 + m2))
            store(y + y_step, (m1 - m2) + m3)

        return line_2
    a, b, aa, bb, _, _ = _constants(*POINTS[4])
    aaa, bbb = np.float32(a * aa), np.float32(b * bb)

    @inlined
    def line_4(x, x_step, y, y_step):
        m0, m1 = load(x, "float32", lanes), load(x + x_step, "float32", lanes)
        m2, m3 = load(x + 2 * x_step, "float32", lanes), load(x + 3 * x_step, "float32", lanes)
        m4, m5 = load(x + 4 * x_step, "float32", lanes), load(x + 5 * x_step, "float32", lanes)
        even_a, odd_a, even_b, odd_b = m1 + m2, m1 - m2, m3 + m4, m3 - m4
        store(y, m0 + (even_a + even_b))
        store(y + y_step, fma(odd_b, b, odd_a * a))
        store(y + 2 * y_step, fma(even_b, bb, even_a * aa))
        store(y + 3 * y_step, fma(odd_b, bbb, fma(odd_a, aaa, m5)))

    return line_4


def _constants(a: float, b: float) -> tuple[np.float32, ...]:
    """a, b, a^2, b^2, a^2 b^2 and a^2 + b^2, all exact for the points in use."""
    return tuple(np.float32(c) for c in (a, b, a * a, b * b, a * a * b * b, a * a + b * b))
