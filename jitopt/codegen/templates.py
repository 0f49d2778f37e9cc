"""Which renderer writes the module of which template."""

from __future__ import annotations

from collections.abc import Callable

from jitopt.codegen import render_contraction, render_movement, render_pointwise, render_pooling, render_rows
from jitopt.codegen.render import Module
from jitopt.lower.spec import KernelSpec

RENDERERS: dict[str, Callable[[KernelSpec], Module]] = {
    "pointwise": render_pointwise.render,
    "rows": render_rows.render,
    "gemm": render_contraction.render_gemm,
    "conv": render_contraction.render_convolution,
    "stem": render_contraction.render_convolution,
    "grouped": render_contraction.render_convolution,
    "conv_transposed": render_contraction.render_convolution,
    "winograd": render_contraction.render_convolution,
    "depthwise": render_contraction.render_convolution,
    "pool": render_pooling.render_window,
    "pool_rows": render_pooling.render_window,
    "resize": render_pooling.render_window,
    "resize_rows": render_pooling.render_window,
    "copy": render_movement.render_copy,
    "gather": render_movement.render_gather,
    "gather_nd": render_movement.render_gather_nd,
    "lrn": render_movement.render_lrn,
    "take": render_movement.render_take,
    "to_blocked": render_movement.render_reorder,
    "from_blocked": render_movement.render_reorder,
    "shuffle": render_movement.render_reorder,
}


def render(spec: KernelSpec) -> str:
    """The text of the module that defines the spec's kernel."""
    return RENDERERS[spec.template](spec).text()
