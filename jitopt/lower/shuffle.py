"""Channel shuffles of blocked values: Reshape, Transpose, Reshape as one copy that stays blocked.

[N, C, spatial...] -> [N, g, C / g, spatial...] -> [N, C / g, g, spatial...] -> [N, C, spatial...]   (Zhang et al.,
"ShuffleNet", 2017). Written as the three nodes it would need two changes of layout around a transposition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jitopt.ir.dims import product
from jitopt.ir.graph import Node, Value
from jitopt.ir.types import TensorType
from jitopt.lower.program import Step
from jitopt.lower.spec import KernelSpec
from jitopt.lower.template import Template, serve, unusable
from jitopt.ops import operator_of
from jitopt.ops.arrange import permutation

if TYPE_CHECKING:
    from jitopt.lower.context import Context
    from jitopt.lower.groups import Group

# Argument words of a "shuffle" kernel, in the order of the library's parameters.
SHUFFLE_WORDS = ("x", "y", "images", "channels", "groups", "pixels", "x_image", "y_image")


def shuffle_from(first: Node) -> tuple[list[Node], int] | None:
    """The three nodes of the channel shuffle that begins with this Reshape, and its groups; None where none does."""
    transpose = _sole_reader(first.output, "Transpose")
    last = None if transpose is None else _sole_reader(transpose.output, "Reshape")
    if transpose is None or last is None or not all(map(_ranked, (first.arg(0), first.output, last.output))):
        return None
    shape, split = first.arg(0).shape, first.output.shape
    if len(shape) < 2 or len(split) != len(shape) + 1 or last.output.shape != shape:
        return None
    groups, size = split[1:3]
    if not isinstance(groups, int) or not isinstance(size, int) or groups * size != shape[1]:
        return None
    order = permutation(operator_of(transpose).attrs(transpose), len(split))
    if (split[0], *split[3:]) != (shape[0], *shape[2:]) or order != [0, 2, 1, *range(3, len(split))]:
        return None
    return [first, transpose, last], groups


def _sole_reader(value: Value, op: str) -> Node | None:
    """The one node that reads a value, if it is of that operator and the value is no graph output."""
    readers = [node for node, index in value.uses if node.op == op and index == 0]
    alone = len(value.uses) == len(readers) == 1 and not readers[0].graph.is_output(value)
    return readers[0] if alone else None


def _ranked(value: Value) -> bool:
    return isinstance(value.type, TensorType) and value.type.shape is not None


class Shuffle(Template):
    """jitopt.ChannelShuffle: between blocked values only."""

    name = "shuffle"

    def refuses(self, node: Node) -> str | None:
        if not node.arg(0).layout.block or node.arg(0).layout != node.output.layout:
            return "input and output are not blocked"
        return unusable([node.arg(0), node.output], frozenset({"float32"}))

    def takes_images(self, group: Group, value: Value) -> bool:
        return True

    def lower(self, group: Group, context: Context) -> list[Step]:
        x, y = group.anchor.arg(0), group.anchor.output
        groups = operator_of(group.anchor).attrs(group.anchor).groups
        args = [
            context.address(x), context.address(y), x.shape[0], x.shape[1], groups, product(x.shape[2:]),
            context.image_bytes(x), context.image_bytes(y),
        ]  # fmt: skip
        spec = KernelSpec("shuffle", context.lanes, words=SHUFFLE_WORDS)
        return [context.step(spec, args, [x], [y], group, work=product(x.shape) * 8)]


serve(Shuffle(), "jitopt.ChannelShuffle")
