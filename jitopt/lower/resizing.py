"""Resize of spatial axes: index and weight tables made when shapes are bound, one kernel for every mode."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jitopt.ir.dims import Dim, product
from jitopt.ir.graph import Node, Value
from jitopt.lower import epilogue
from jitopt.lower.epilogue import ACCUMULATOR, Epilogue
from jitopt.lower.program import TABLE, Address, Buffer, Step
from jitopt.lower.spec import KernelSpec, table, unique
from jitopt.lower.tables import Table
from jitopt.lower.template import Template, serve, unusable
from jitopt.ops import operator_of
from jitopt.ops.contents import axes_of, known

if TYPE_CHECKING:
    from jitopt.lower.context import Context
    from jitopt.lower.groups import Group

_TABLES = ("row_index", "row_weight", "row_taps", "column_index", "column_weight", "column_taps", "out_h", "out_w")
# Argument words of "resize" (blocked) and "resize_rows" (row-major) kernels, in the order of the library's parameters.
RESIZE_WORDS = ("x", "x_image", "x_block", "x_row", "images", "channels", *_TABLES, "y_block")
RESIZE_ROWS_WORDS = ("x", "x_plane", "x_row", "planes", *_TABLES)
TAPS = {"nearest": 1, "linear": 2, "cubic": 4}


@dataclass(frozen=True)
class Resampled:
    """One spatial axis: extents, and the model's scale (None: out / extent); untouched axes have `same`."""

    extent: Dim
    out: Dim
    scale: float | None
    same: bool


def resampled_axes(node: Node) -> list[Resampled] | None:
    """All axes of the input, or None where scales and sizes are not known when shapes are bound."""
    attrs = operator_of(node).attrs(node)
    x, y = node.arg(0).shape, node.output.shape
    chosen = list(range(len(x))) if attrs.axes is None else axes_of(attrs.axes, len(x))
    scales, sizes = node.input(2), node.input(3)
    given: dict[int, float | None] = {}
    if scales is not None and scales.constant is not None and scales.constant.size:
        given = {a: float(s) for a, s in zip(chosen, scales.constant.ravel(), strict=True)}
    elif known(sizes) is not None and attrs.keep_aspect_ratio_policy == "stretch":
        given = dict.fromkeys(chosen)
    else:
        return None
    found = []
    for axis, (extent, out) in enumerate(zip(x, y, strict=True)):
        scale = given.get(axis, 1.0)
        found.append(Resampled(extent, out, scale, extent == out and scale in (None, 1.0)))
    return found


class Resize(Template):
    """Resize of the last one or two axes in modes nearest, linear and cubic without antialiasing."""

    name = "resize"

    def refuses(self, node: Node) -> str | None:
        reason = unusable([node.arg(0), node.output], frozenset({"float32"}))
        if reason is not None:
            return reason
        attrs = operator_of(node).attrs(node)
        if attrs.antialias or attrs.coordinate_transformation_mode == "tf_crop_and_resize":
            return "antialiasing and cropping have no kernel"
        axes = resampled_axes(node)
        if axes is None:
            return "scales or sizes are not known when shapes are bound"
        if len(axes) not in (3, 4) or not all(a.same for a in axes[:2]):
            return "only one or two spatial axes can be resized"
        return "input and output differ in layout" if node.arg(0).layout != node.output.layout else None

    def absorbs(self, group: Group, node: Node, where: str) -> bool:
        blocked = group.anchor.output.layout.block > 0
        return where == "after" and blocked and epilogue.absorbs(group, node, group.anchor.output, 1)

    def takes_images(self, group: Group, value: Value) -> bool:
        return group.anchor.output.layout.block > 0

    def lower(self, group: Group, context: Context) -> list[Step]:
        node = group.anchor
        x, y = node.arg(0), node.output
        attrs = operator_of(node).attrs(node)
        axes = resampled_axes(node)
        assert axes is not None
        spatial = [Resampled(1, 1, 1.0, True)] * (4 - len(axes)) + axes[2:]
        ep = Epilogue(group, context, y, 1 if y.layout.block else 2)
        body, words, args = ep.finish(ACCUMULATOR)
        tables: list[Any] = []
        for name, axis in zip(("h", "w"), spatial, strict=True):
            taps = 1 if axis.same else TAPS[attrs.mode]
            tables += [*_tables(f"{node.name}.{name}", axis, attrs, taps), taps]
        out = [a.out for a in spatial]
        height, width = (a.extent for a in spatial)
        constants: dict[str, Any] = {"weighted": attrs.mode != "nearest"}
        if not any(a.same for a in spatial):
            constants["taps"] = TAPS[attrs.mode]
        pixels, lanes = height * width, context.lanes
        head: list[Any] = [context.address(x)]
        if y.layout.block:
            vec = lanes * 4
            head += [context.image_bytes(x), pixels * vec, width * vec, x.shape[0], x.shape[1], *tables, *out]
            head.append(product(out) * vec)
            template, library_words = "resize", list(RESIZE_WORDS)
        else:
            head += [pixels * 4, width * 4, x.shape[0] * x.shape[1], *tables, *out]
            template, library_words = "resize_rows", list(RESIZE_ROWS_WORDS)
        spec = KernelSpec(template, lanes, table(constants), body, unique((*library_words, *words)))
        work = product(y.shape) * 4 * TAPS[attrs.mode] ** 2
        return [context.step(spec, [*head, *args], [x, *ep.reads], ep.writes, group, work=work)]


def _tables(name: str, axis: Resampled, attrs: Any, taps: int) -> list[Address]:
    """Index and weight tables of one axis, [taps][out] each."""
    mode = "same" if axis.same else attrs.mode
    scale = 0.0 if axis.scale is None else axis.scale
    args = (
        mode, attrs.coordinate_transformation_mode, attrs.nearest_mode, float(attrs.cubic_coeff_a),
        bool(attrs.exclude_outside), scale, axis.extent, axis.out,
    )  # fmt: skip
    return [
        Address(Buffer(f"{name}.{kind}", TABLE, axis.out * taps * size, table=Table(f"resize_{kind}", args)))
        for kind, size in (("index", 8), ("weight", 4))
    ]


serve(Resize(), "Resize")
