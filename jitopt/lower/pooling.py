"""MaxPool and AveragePool, on blocked values with an epilogue and on row-major planes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jitopt.ir.dims import Dim, product
from jitopt.ir.graph import Node, Value
from jitopt.lower import epilogue
from jitopt.lower.convolution import Sliding, sliding
from jitopt.lower.epilogue import ACCUMULATOR, Epilogue
from jitopt.lower.program import Step
from jitopt.lower.spec import KernelSpec, table, unique
from jitopt.lower.template import Template, serve, unusable
from jitopt.ops import operator_of
from jitopt.ops.window import pool_window

if TYPE_CHECKING:
    from jitopt.lower.context import Context
    from jitopt.lower.groups import Group

_WINDOW = (
    "kernel_h", "kernel_w", "stride_h", "stride_w", "dilation_h", "dilation_w", "top", "left", "bottom", "right",
    "out_h", "out_w",
)  # fmt: skip
# Argument words of "pool" (blocked) and "pool_rows" (row-major) kernels, in the order of the library's parameters.
POOL_WORDS = ("x", "x_image", "x_block", "x_row", "height", "width", "images", "channels", *_WINDOW, "y_block")
POOL_ROWS_WORDS = ("x", "x_plane", "x_row", "height", "width", "planes", *_WINDOW)
_KINDS = {"MaxPool": "max", "AveragePool": "average"}


class Pool(Template):
    """Windows over one or two spatial axes."""

    name = "pool"

    def refuses(self, node: Node) -> str | None:
        reason = unusable([*node.inputs, *node.outputs], frozenset({"float32"}))
        if reason is not None:
            return reason
        if len(node.outputs) > 1:
            return "indices of maxima have no kernel"
        if len(node.output.shape) not in (3, 4):
            return f"{len(node.output.shape) - 2} spatial axes"
        if node.arg(0).layout != node.output.layout:
            return "input and output differ in layout"
        return None

    def absorbs(self, group: Group, node: Node, where: str) -> bool:
        blocked = group.anchor.output.layout.block > 0
        return where == "after" and blocked and epilogue.absorbs(group, node, group.anchor.output, 1)

    def takes_images(self, group: Group, value: Value) -> bool:
        return group.anchor.output.layout.block > 0

    def lower(self, group: Group, context: Context) -> list[Step]:
        node = group.anchor
        x, y = node.arg(0), node.output
        attrs = operator_of(node).attrs(node)
        found = pool_window(attrs, x.shape)
        win = sliding(x.shape[2:], found)
        lanes, block = context.lanes, y.layout.block
        ep = Epilogue(group, context, y, 1 if block else 2)
        body, words, args = ep.finish(ACCUMULATOR)
        constants: dict[str, Any] = {
            "kind": _KINDS[node.op],
            "include_pad": bool(getattr(attrs, "count_include_pad", 0)),
        }
        window: list[Dim] = [*win.kernel, *win.strides, *win.dilations, *win.begin, *win.end, *win.out]
        pixels, out_pixels = product(win.extent), product(win.out)
        if block:
            vec = lanes * 4
            constants |= _unrolled(win, context.target.depthwise_columns)
            head = [context.image_bytes(x), pixels * vec, win.extent[1] * vec, *win.extent, x.shape[0], x.shape[1]]
            all_args = [context.address(x), *head, *window, out_pixels * vec, *args]
            spec = KernelSpec("pool", lanes, table(constants), body, unique((*POOL_WORDS, *words)))
        else:
            head = [pixels * 4, win.extent[1] * 4, *win.extent, x.shape[0] * x.shape[1]]
            all_args = [context.address(x), *head, *window, *args]
            spec = KernelSpec("pool_rows", lanes, table(constants), body, unique((*POOL_ROWS_WORDS, *words)))
        work = product(y.shape) * product(win.kernel) * 4
        return [context.step(spec, all_args, [x, *ep.reads], ep.writes, group, work=work)]


def _unrolled(win: Sliding, columns: int) -> dict[str, Any]:
    """Compiled-in window sizes, where they are plain numbers."""
    return {"kernel": win.kernel, "stride": win.strides[1], "dilation": win.dilations[1], "columns": columns}


serve(Pool(), *_KINDS)
