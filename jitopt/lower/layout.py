"""Layouts: blocked through convolution regions, row-major elsewhere, Reorder nodes at the borders.

One walk in topological order. A convolution reads and writes blocked values; what follows stays blocked as long as its
kernel can; everything else reads row-major. Each value is reordered at most once a direction, and a graph output is
always row-major.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from jitopt.ir.graph import ROW_MAJOR, Graph, Layout, Node, Value
from jitopt.ir.types import TensorType
from jitopt.lower.convolution import reads_row_major
from jitopt.lower.shuffle import shuffle_from
from jitopt.lower.template import template_of
from jitopt.lower.windows import whole_blocks
from jitopt.ops import operator_of
from jitopt.ops.operator import Kind


def assign_layouts(graph: Graph, lanes: int) -> None:
    """Choose layouts for blocks of `lanes` channels and insert Reorder nodes. Types must be inferred."""
    _Assigner(graph, lanes).run()


def _has_rank(value: Value) -> bool:
    return isinstance(value.type, TensorType) and value.type.shape is not None


class _Assigner:
    def __init__(self, graph: Graph, lanes: int) -> None:
        self.graph, self.layout = graph, Layout(lanes)
        self._twins: dict[tuple[Value, Layout], Value] = {}
        self._replaced: list[Node] = []  # by nodes of our own, later ones first
        self._full: dict[tuple[Value, int], Value] = {}  # constants as tensors of full rank

    def run(self) -> None:
        for node in self.graph.nodes:
            if node in self._replaced:
                continue
            rule = _RULES.get(node.op)
            if rule is None and operator_of(node).kind is Kind.MAP:
                rule = _Assigner.map
            ranked = all(v is None or _has_rank(v) for v in (*node.inputs, *node.outputs))
            if rule is None or not ranked or not rule(self, node):
                self.row_major(node)
        for value in list(dict.fromkeys(self.graph.outputs)):
            if value.layout.block:
                self._row_major_output(value)
        for node in self._replaced:
            self.graph.remove(node)
        for node in self.graph.nodes:  # made for a kernel that then refused
            if node.op == "jitopt.Reorder" and not node.output.uses and not self.graph.is_output(node.output):
                self.graph.remove(node)
        self.graph.sort()

    # changing values --------------------------------------------------------------------------------------------
    def to(self, value: Value, layout: Layout) -> Value:
        """The value in that layout: itself, a Reorder made now, or the one made before."""
        if value.layout == layout:
            return value
        found = self._twins.get((value, layout))
        if found is None:
            found = self._constant(value, layout) if value.constant is not None else self._reorder(value, layout)
            self._twins[value, layout] = found
            self._twins[found, value.layout] = value
        return found

    def _reorder(self, value: Value, layout: Layout) -> Value:
        out: Value = self.graph.add("jitopt.Reorder", [value], name=self.graph.fresh_name(f"{value.name}/{layout}"))
        out.type, out.layout = value.type, layout
        return out

    def _constant(self, value: Value, layout: Layout) -> Value:
        twin = self.graph.constant(value.constant, name=f"{value.name}/{layout}")
        twin.layout = layout
        return twin

    def row_major(self, node: Node) -> bool:
        for index, value in enumerate(node.inputs):
            if value is not None:
                node.set_input(index, self.to(value, ROW_MAJOR))
        for index, value in enumerate(node.captures):
            node.set_capture(index, self.to(value, ROW_MAJOR))
        return True

    def _row_major_output(self, value: Value) -> None:
        plain = self.to(value, ROW_MAJOR)
        plain.name, value.name = value.name, plain.name
        self.graph.outputs = [plain if v is value else v for v in self.graph.outputs]

    def blockable(self, value: Value) -> bool:
        """A float32 [N, C, spatial...] with a known C."""
        t = value.type
        return (
            isinstance(t, TensorType) and t.dtype.name == "float32" and t.shape is not None and len(t.shape) in (3, 4)
            and isinstance(t.shape[1], int)
        )  # fmt: skip

    # rules: True where the node was dealt with ------------------------------------------------------------------
    def convolution(self, node: Node) -> bool:
        """Blocked in and out; the first convolution of an image reads row-major."""
        if not self.blockable(node.arg(0)) or not self.blockable(node.output):
            return False
        node.output.layout = self.layout
        stem = reads_row_major(node, self.layout.block)
        node.set_input(0, self.to(node.arg(0), ROW_MAJOR if stem else self.layout))
        if template_of(node) is None:
            node.output.layout = ROW_MAJOR
            return False
        return True

    def follow(self, node: Node) -> bool:
        """Blocked if the input is, where the kernel exists."""
        if not node.arg(0).layout.block or len(node.outputs) > 1 or not self.blockable(node.output):
            return False
        node.output.layout = node.arg(0).layout
        if template_of(node) is None:
            node.output.layout = ROW_MAJOR
            return False
        return True

    def pool(self, node: Node) -> bool:
        """Blocked from a block's worth of channels on, even if that takes a Reorder."""
        x = node.arg(0)
        if len(node.outputs) > 1 or not self.blockable(x) or not self.blockable(node.output):
            return False
        channels = x.shape[1]
        if not x.layout.block and isinstance(channels, int) and channels >= self.layout.block:
            node.set_input(0, self.to(x, self.layout))
        return self.follow(node)

    def concat(self, node: Node) -> bool:
        values = [v for v in node.inputs if v is not None]
        axis = operator_of(node).attrs(node).axis % len(node.output.shape)
        if not any(v.layout.block for v in values) or not all(map(self.blockable, (*values, node.output))):
            return False
        channels = [v.shape[1] for v in values]
        if axis != 1 or any(not isinstance(c, int) or c % self.layout.block for c in channels[:-1]):
            return False
        for index, value in enumerate(values):
            node.set_input(index, self.to(value, self.layout))
        node.output.layout = self.layout
        return True

    def windows(self, node: Node) -> bool:
        """Blocked if the input is, where whole blocks of channels are taken out."""
        x = node.arg(0)
        if not x.layout.block or not all(map(self.blockable, node.outputs)) or template_of(node) is None:
            return False
        if not whole_blocks(node, self.layout):
            return False
        for value in node.outputs:
            value.layout = self.layout
        return True

    def reshape(self, node: Node) -> bool:
        """The channel shuffle that a Reshape begins, if its input is blocked."""
        x, found = node.arg(0), shuffle_from(node)
        if found is None or not x.layout.block or x.dtype.name != "float32":
            return False
        nodes, groups = found
        last = nodes[-1].output
        out: Value = self.graph.add(
            "jitopt.ChannelShuffle", [x], name=self.graph.fresh_name(f"{last.name}/shuffled"), groups=groups
        )
        out.type, out.layout = last.type, x.layout
        self.graph.replace(last, out)
        self._replaced += nodes[::-1]
        return True

    def map(self, node: Node) -> bool:
        """Blocked where some full-size input is and all others can follow."""
        out = node.output
        if template_of(node) is None or not self.blockable(out):
            return False
        if not any(v is not None and v.layout.block and v.shape == out.shape for v in node.inputs):
            return False
        chosen = [None if v is None else self._operand(v, out) for v in node.inputs]
        if any(c is None and v is not None for c, v in zip(chosen, node.inputs, strict=True)):
            return False
        for index, found in enumerate(chosen):
            if found is not None:
                node.set_input(index, found())
        out.layout = self.layout
        return True

    def _operand(self, value: Value, out: Value) -> Callable[[], Value] | None:
        """How an operand gets into the blocked domain of `out`; None where it cannot."""
        if not isinstance(value.type, TensorType) or value.type.shape is None or len(value.shape) > len(out.shape):
            return None
        padded = (1,) * (len(out.shape) - len(value.shape)) + tuple(value.shape)
        if padded[1] == 1 and out.shape[1] != 1:
            return lambda: self.to(value, ROW_MAJOR)
        if value.dtype.name != "float32":
            return None
        if value.constant is not None:
            return lambda: self.to(self._full_rank(value, padded), self.layout)
        if len(value.shape) == len(out.shape) and value.shape[1] == out.shape[1]:
            return lambda: self.to(value, self.layout)
        return None

    def _full_rank(self, value: Value, shape: tuple[object, ...]) -> Value:
        if len(value.shape) == len(shape):
            return value
        found = self._full.get((value, len(shape)))
        if found is None:
            assert value.constant is not None
            found = self.graph.constant(np.reshape(value.constant, shape), name=f"{value.name}/full")
            self._full[value, len(shape)] = found
        return found


_RULES: dict[str, Callable[[_Assigner, Node], bool]] = {
    "BatchNormalization": _Assigner.follow,
    "Conv": _Assigner.convolution,
    "ConvTranspose": _Assigner.convolution,
    "MaxPool": _Assigner.pool,
    "AveragePool": _Assigner.pool,
    "GlobalAveragePool": _Assigner.follow,
    "GlobalMaxPool": _Assigner.follow,
    "Resize": _Assigner.follow,
    "Concat": _Assigner.concat,
    "Reshape": _Assigner.reshape,
    "Split": _Assigner.windows,
    "Slice": _Assigner.windows,
}
