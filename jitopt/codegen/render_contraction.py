"""Matrix products and convolutions: the library's kernels with the group's epilogue."""

from __future__ import annotations

from jitopt.codegen.render import Module
from jitopt.codegen.render_finish import operands_tuple, render_finish
from jitopt.lower.contraction import GEMM_WORDS
from jitopt.lower.convolution import CONV_WORDS, DEPTHWISE_WORDS
from jitopt.lower.spec import KernelSpec


def render_gemm(spec: KernelSpec) -> Module:
    """Constants: `layout` of B, `heights` and `panel` of the tiles. Words: GEMM_WORDS, then the epilogue's."""
    m = Module(spec)
    words = render_finish(m, blocked=False)
    m.use("gemm", "make_gemm")
    m.lines(
        0, "gemm = make_gemm(", f"    {_tiles(spec)},",
        f'    finish=finish, finish_tail=finish_tail, layout="{spec.constant("layout")}",', ")", "", "",
    )  # fmt: skip
    m.kernel()
    m.scratch()
    m.line(1, f"operands = {operands_tuple(words)}")
    m.line(1, f"gemm({', '.join(GEMM_WORDS)}, scratch, operands, tid, nthreads)")
    return m


def render_conv(spec: KernelSpec) -> Module:
    """Templates "conv" and "conv_transposed"; constants: `block` of the input, `heights` and `panel` of the tiles.

    Words: CONV_WORDS, then the epilogue's.
    """
    m = Module(spec)
    words = render_finish(m, blocked=True)
    factory = f"make_{spec.template}"
    m.use("conv.direct" if spec.template == "conv" else "conv.transposed", factory)
    m.lines(
        0, f"{spec.template} = {factory}(", f"    {_tiles(spec)},",
        f"    block={spec.constant('block')}, finish=finish, finish_tail=finish_tail,", ")", "", "",
    )  # fmt: skip
    m.kernel()
    m.scratch()
    m.line(1, f"operands = {operands_tuple(words)}")
    m.line(1, f"{spec.template}({', '.join(CONV_WORDS)}, scratch, operands, tid, nthreads)")
    return m


def render_depthwise(spec: KernelSpec) -> Module:
    """Constants: `kernel`, `stride` and `dilation` along the width, `columns` of a tile. Words: DEPTHWISE_WORDS, ..."""
    m = Module(spec)
    words = render_finish(m, blocked=True)
    m.use("conv.depthwise", "make_depthwise")
    sizes = ", ".join(f"{name}={spec.constant(name)}" for name in ("kernel", "stride", "dilation", "columns"))
    m.line(0, "depthwise = make_depthwise(")
    m.lines(0, f"    lanes={spec.lanes}, {sizes},", "    finish=finish, finish_tail=finish_tail,", ")", "", "")
    m.kernel()
    m.scratch()
    m.line(1, f"operands = {operands_tuple(words)}")
    m.line(1, f"depthwise({', '.join(DEPTHWISE_WORDS)}, scratch, operands, tid, nthreads)")
    return m


def _tiles(spec: KernelSpec) -> str:
    return f"lanes={spec.lanes}, heights={spec.constant('heights')}, panel={spec.constant('panel')}"
