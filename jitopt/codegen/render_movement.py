"""Kernels that only move elements.

copy         `pieces` strided copies, each over its own nest of `axes` loops. Words per piece p: p<p>_src, p<p>_dst,
             extents p<p>_n<a>, byte strides p<p>_s<a> of the source and p<p>_d<a> of the destination (all but its last)
gather, take, to_blocked, from_blocked, shuffle   one call of the library's kernel with the words in order
"""

from __future__ import annotations

from jitopt.codegen.render import Module, itemsize
from jitopt.lower.spec import KernelSpec


def render_copy(spec: KernelSpec) -> Module:
    """The module of a "copy" spec; constants: `axes` and `inner` (a tuple, one entry a piece) and `dtype`."""
    m = Module(spec)
    dtype, axes, inner = spec.constant("dtype"), spec.constant("axes"), spec.constant("inner")
    for kind, factory, name in (
        ("unit", "make_copy_row", "copy_row"),
        ("strided", "make_copy_strided_row", "spread_row"),
    ):
        if kind in inner:
            m.use("movement", factory)
            m.line(0, f'{name} = {factory}(dtype="{dtype}", lanes={spec.lanes})')
    m.lines(0, "", "")
    m.kernel()
    m.use("loops", "axis_share", "shared_axis")
    for piece, (count, kind) in enumerate(zip(axes, inner, strict=True)):
        _copy_piece(m, f"p{piece}", count, kind, itemsize(dtype))
    return m


def _copy_piece(m: Module, p: str, axes: int, inner: str, size: int) -> None:
    last = axes - 1
    m.line(1, f"axis = shared_axis({m.word_address(f'{p}_n0')}, {axes}, nthreads)")
    for a in range(axes):
        grain = m.spec.lanes if a == last else 1
        m.line(1, f"lo{a}, hi{a} = axis_share(axis == {a}, {p}_n{a}, {grain}, tid, nthreads)")
    for a in range(last):
        m.line(1 + a, f"for i{a} in range(lo{a}, hi{a}):")
    source = "".join(f" + i{a} * {p}_s{a}" for a in range(last))
    target = "".join(f" + i{a} * {p}_d{a}" for a in range(last))
    step = str(size) if inner == "unit" else f"{p}_s{last}"
    m.line(1 + last, f"src = {p}_src{source} + lo{last} * {step}")
    m.line(1 + last, f"dst = {p}_dst{target} + lo{last} * {size}")
    if inner == "unit":
        m.line(1 + last, f"copy_row(dst, src, hi{last} - lo{last})")
    else:
        m.line(1 + last, f"spread_row(dst, src, {p}_s{last}, hi{last} - lo{last})")


def render_gather(spec: KernelSpec) -> Module:
    """Constants: `dtype` and `index`, the element types moved and of the indices."""
    m = Module(spec)
    m.use("movement", "make_gather")
    dtype, index = spec.constant("dtype"), spec.constant("index")
    m.lines(0, f'gather_rows = make_gather(dtype="{dtype}", lanes={spec.lanes}, index="{index}")', "", "")
    m.kernel()
    m.line(1, f"gather_rows(args, {', '.join(spec.words)}, tid, nthreads)")
    return m


def render_take(spec: KernelSpec) -> Module:
    """Constants: `dtype`, `axes`."""
    m = Module(spec)
    m.use("movement", "make_take")
    dtype, axes = spec.constant("dtype"), spec.constant("axes")
    m.lines(0, f'take = make_take(dtype="{dtype}", lanes={spec.lanes}, axes={axes})', "", "")
    m.kernel()
    m.line(1, f"take(x, y, fill, {m.word_address('t0')}, {m.word_address('n0')}, tid, nthreads)")
    return m


def render_reorder(spec: KernelSpec) -> Module:
    """Templates "to_blocked", "from_blocked" and "shuffle"."""
    m = Module(spec)
    m.use("movement", f"make_{spec.template}")
    m.lines(0, f"{spec.template} = make_{spec.template}(lanes={spec.lanes})", "", "")
    m.kernel()
    m.line(1, f"{spec.template}({', '.join(spec.words)}, tid, nthreads)")
    return m


def render_gather_nd(spec: KernelSpec) -> Module:
    """Constants: `dtype`, `depth`."""
    m = Module(spec)
    m.use("movement", "make_gather_nd")
    dtype, depth = spec.constant("dtype"), spec.constant("depth")
    m.lines(0, f'gather_nd = make_gather_nd(dtype="{dtype}", lanes={spec.lanes}, depth={depth})', "", "")
    m.kernel()
    m.line(1, f"gather_nd(args, x, indices, y, count, row, {m.word_address('n0')}, tid, nthreads)")
    return m


def render_lrn(spec: KernelSpec) -> Module:
    """Words: LRN_WORDS."""
    m = Module(spec)
    m.use("lrn", "make_lrn")
    m.use("abi", "float_word")
    m.lines(0, f"lrn = make_lrn(lanes={spec.lanes})", "", "")
    m.kernel()
    floats = ("scale", "bias", "beta")
    args = ", ".join(f"float_word({w})" if w in floats else w for w in spec.words)
    m.line(1, f"lrn({args}, tid, nthreads)")
    return m
