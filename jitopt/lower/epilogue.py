"""Epilogues: the pointwise nodes that run on a contraction's or window's results while they are in registers.

An operand can be read from inside an anchor kernel if, within one image, it lies exactly as the output does ("unit"),
is a vector over the output's channels ("column"), or is one number ("splat"); from image to image it may move by any
stride. See `finish` in the kernel library.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jitopt.errors import CompileError
from jitopt.ir.dims import Dim
from jitopt.ir.graph import Node, Value
from jitopt.ir.types import TensorType
from jitopt.lower.access import domain_strides
from jitopt.lower.body import BodyBuilder, has_body_form
from jitopt.lower.loops import contiguous_strides, merge_axes, value_shape
from jitopt.lower.spec import Body, Operand, Store

if TYPE_CHECKING:
    from jitopt.lower.context import Context
    from jitopt.lower.groups import Group

ACCUMULATOR = "acc"
_REGISTERS = frozenset({"float32", "bool"})  # what epilogues compute with; they store float32 only


def access(value: Value, output: Value, image_axes: int, image: Dim | None = None) -> tuple[str, Dim] | None:
    """How `value` is reached from `output`'s kernel: its kind and stride from image to image, in elements.

    The first `image_axes` axes of the output, merged into one, count images. What the value's first axis counts lies
    `image` elements apart (None: one after the other).
    """
    if not isinstance(value.type, TensorType) or value.type.shape is None or value.dtype.name != "float32":
        return None
    if len(value.shape) > len(output.shape):
        return None
    try:
        strides = domain_strides(value, output, image)
    except CompileError:
        return None
    shape = value_shape(output)
    like = contiguous_strides(shape)
    block = output.layout.block
    rest = [a for a in range(image_axes, len(shape)) if shape[a] != 1]
    last = len(shape) - 1
    column = {a: (1 if a == last else block if block and a == 1 else 0) for a in rest}
    images = merge_axes(shape[:image_axes], [strides[:image_axes]])
    if len(images.extents) > 1:
        return None  # the kernel counts images with one number
    step: Dim = images.strides[0][0] if images.extents else 0
    if all(strides[a] == like[a] for a in rest):
        return "unit", step
    if all(strides[a] == column[a] for a in rest):
        return "column", step
    return ("splat", step) if all(strides[a] == 0 for a in rest) else None


def absorbs(group: Group, node: Node, output: Value, image_axes: int) -> bool:
    """Whether a pointwise node can run in the epilogue of the kernel that makes `output`."""
    if node.output.shape != output.shape or node.output.layout != output.layout:
        return False
    kinds = {v.dtype.name for v in (*node.inputs, *node.outputs) if v is not None and isinstance(v.type, TensorType)}
    if not kinds <= _REGISTERS or node.output.dtype.name != "float32" or not has_body_form(node):
        return False
    return _operands_fit(group, node, output, image_axes)


def _operands_fit(group: Group, node: Node, output: Value, image_axes: int) -> bool:
    inside = {v for n in group.nodes for v in n.outputs}
    for value in node.inputs:
        if value is None or value in inside:
            continue
        if value.constant is not None and value.constant.size == 1:
            continue
        if access(value, output, image_axes) is None:
            return False
    return True


class Epilogue:
    """Builds the finish body of a group: the anchor's own (bias, scale), then the absorbed nodes, then the stores."""

    def __init__(self, group: Group, context: Context, output: Value, image_axes: int) -> None:
        self.group, self.context, self.output, self.image_axes = group, context, output, image_axes
        self.builder = BodyBuilder()
        self.builder.know(ACCUMULATOR, "float32")
        self._transposed: tuple[Node, Dim] | None = None

    def store_as(self, transpose: Node, image: Dim) -> None:
        """Store as the Transpose would, whose images lie `image` elements apart; the kernel knows the other strides."""
        self._transposed = transpose, image

    def finish(self, result: str) -> tuple[Body, list[str], list[Any]]:
        """The body, the names of its argument words and their values; `result` is what the anchor itself computes."""
        b, context = self.builder, self.context
        b.define(self.output, result)
        for node in self.group.nodes:
            if self._transposed is not None and node is self._transposed[0]:
                b.define(node.output, b.ref(node.arg(0)))
            elif node is not self.group.anchor:
                b.add_map(node)
        stores = [(f"y{i}", v, b.ref(v)) for i, v in enumerate(self.group.outputs(context.graph))]
        words: list[str] = []
        args: list[Any] = []
        operands: dict[str, Operand] = {}
        for name, value in [*b.loads, *((n, v) for n, v, _ in stores)]:
            found = access(value, self.output, self.image_axes, context.image(value))
            if self._transposed is not None and value is self._transposed[0].output:
                found = "unit", self._transposed[1]
            if found is None:
                raise CompileError(f"'{value.name}' cannot be reached from the epilogue of {self.group}")
            kind, image = found
            operands[name] = Operand(name, value.dtype.name, kind)
            words += [f"{name}_at", f"{name}_image"]
            args += [context.address(value), image * 4]
        words += [f"{s.name}_word" for s in b.scalars]
        args += b.scalar_words
        body = Body(
            tuple(operands[n] for n, _ in b.loads), tuple(b.scalars), tuple(b.instructions),
            tuple(Store(operands[n], ref) for n, _, ref in stores),
        )  # fmt: skip
        return body, words, args

    @property
    def reads(self) -> list[Value]:
        return [v for _, v in self.builder.loads]

    @property
    def writes(self) -> list[Value]:
        return self.group.outputs(self.context.graph)
