"""Matrix products and convolutions: the library's kernels with the group's epilogue."""

from __future__ import annotations

from jitopt.codegen.render import Module
from jitopt.codegen.render_finish import render_finish
from jitopt.lower.contraction import GEMM_WORDS
from jitopt.lower.convolution import CONV_WORDS
from jitopt.lower.convolution_kinds import DEPTHWISE_WORDS, GROUPED_WORDS, STEM_WORDS
from jitopt.lower.convolution_winograd import WINOGRAD_WORDS
from jitopt.lower.spec import KernelSpec


def render_gemm(spec: KernelSpec) -> Module:
    """The spec's constants are the factory's keyword arguments. Words: GEMM_WORDS, then the epilogue's."""
    m = Module(spec)
    render_finish(m, blocked=False)
    m.use("gemm", "make_gemm")
    options = ", ".join(f"{name}={value!r}" for name, value in spec.constants)
    m.line(0, "gemm = make_gemm(")
    m.lines(0, f"    lanes={spec.lanes}, {options},", "    finish=finish, finish_tail=finish_tail,", ")", "", "")
    m.kernel(GEMM_WORDS)
    m.scratch()
    m.line(1, f"gemm({', '.join(GEMM_WORDS)}, scratch, args, tid, nthreads)")
    return m


# Template -> module and factory of the library's kernel, and its argument words.
_CONVOLUTIONS = {
    "conv": ("conv.direct", "make_conv", CONV_WORDS),
    "conv_transposed": ("conv.transposed", "make_conv_transposed", CONV_WORDS),
    "winograd": ("conv.winograd", "make_winograd", WINOGRAD_WORDS),
    "stem": ("conv.stem", "make_stem", STEM_WORDS),
    "depthwise": ("conv.depthwise", "make_depthwise", DEPTHWISE_WORDS),
    "grouped": ("conv.grouped", "make_grouped", GROUPED_WORDS),
}


def render_convolution(spec: KernelSpec) -> Module:
    """Templates of _CONVOLUTIONS; the spec's constants are the factory's keyword arguments."""
    module, factory, library_words = _CONVOLUTIONS[spec.template]
    m = Module(spec)
    # Of direct convolution only it was seen to pay: a residual is read once, from as many places as there are blocks.
    ahead = spec.constant("heights")[0] * spec.lanes if spec.template == "conv" else 0
    render_finish(m, blocked=True, ahead=ahead)
    m.use(module, factory)
    options = ", ".join(f"{name}={value!r}" for name, value in spec.constants)
    given = "finish=finish, finish_tail=finish_tail," + (" prepare=prepare," if ahead else "")
    m.line(0, f"{spec.template} = {factory}(")
    m.lines(0, f"    lanes={spec.lanes}, {options},", f"    {given}", ")", "", "")
    m.kernel(library_words)
    m.scratch()
    m.line(1, f"{spec.template}({', '.join(library_words)}, scratch, args, tid, nthreads)")
    return m
