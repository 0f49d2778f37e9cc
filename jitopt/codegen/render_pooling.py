"""Pooling kernels: the library's with the group's epilogue."""

from __future__ import annotations

from jitopt.codegen.render import Module
from jitopt.codegen.render_finish import operands_tuple, render_finish
from jitopt.lower.pooling import POOL_ROWS_WORDS, POOL_WORDS
from jitopt.lower.spec import KernelSpec


def render_pool(spec: KernelSpec) -> Module:
    """Templates "pool" (blocked) and "pool_rows" (row-major); constants are the library's keyword arguments."""
    m = Module(spec)
    blocked = spec.template == "pool"
    factory, library_words = ("make_pool", POOL_WORDS) if blocked else ("make_pool_rows", POOL_ROWS_WORDS)
    words = render_finish(m, blocked)
    m.use("pool", factory)
    options = "".join(f", {name}={value!r}" for name, value in spec.constants)
    m.lines(0, f"pool = {factory}(lanes={spec.lanes}, finish=finish, finish_tail=finish_tail{options})", "", "")
    m.kernel()
    m.line(1, f"operands = {operands_tuple(words)}")
    m.line(1, f"pool({', '.join(library_words)}, operands, tid, nthreads)")
    return m
