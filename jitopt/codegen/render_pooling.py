"""Pooling and resizing kernels: the library's with the group's epilogue."""

from __future__ import annotations

from jitopt.codegen.render import Module
from jitopt.codegen.render_finish import render_finish
from jitopt.lower.pooling import POOL_ROWS_WORDS, POOL_WORDS
from jitopt.lower.resizing import RESIZE_ROWS_WORDS, RESIZE_WORDS
from jitopt.lower.spec import KernelSpec

# Template -> module, factory and argument words of the library's kernel, and whether its output is blocked.
_LIBRARY = {
    "pool": ("pool", "make_pool", POOL_WORDS, True),
    "pool_rows": ("pool", "make_pool_rows", POOL_ROWS_WORDS, False),
    "resize": ("resize", "make_resize", RESIZE_WORDS, True),
    "resize_rows": ("resize", "make_resize_rows", RESIZE_ROWS_WORDS, False),
}


def render_window(spec: KernelSpec) -> Module:
    """Templates of _LIBRARY; the spec's constants are the factory's keyword arguments."""
    module, factory, library_words, blocked = _LIBRARY[spec.template]
    m = Module(spec)
    render_finish(m, blocked)
    m.use(module, factory)
    options = "".join(f", {name}={value!r}" for name, value in spec.constants)
    m.line(0, f"window = {factory}(lanes={spec.lanes}, finish=finish, finish_tail=finish_tail{options})")
    m.lines(0, "", "")
    m.kernel(library_words)
    m.line(1, f"window({', '.join(library_words)}, args, tid, nthreads)")
    return m
