"""Pad into the window operator that reads it: its pads grow by the padding.

Pad(0) + Conv                                   a tap outside the input adds nothing, either way
Pad(-inf) + MaxPool, Relu + Pad(0) + MaxPool    as long as every window keeps an element of the input
Pad(0) + AveragePool                            counted as elements: count_include_pad = 1
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jitopt.ir.graph import Node, Value
from jitopt.passes.base import Refusal
from jitopt.passes.facts import Array, attribute, ints_of, numeric_constant, shape_of
from jitopt.passes.rules import Builder, Replacement, RulePass

_NOT_NEGATIVE = frozenset({"Relu", "Sigmoid", "HardSigmoid", "Softmax", "Exp", "Sqrt", "Abs", "Softplus"})


class FoldPad(RulePass):
    name = "fold-pad"
    description = "constant padding before a Conv, MaxPool or AveragePool into that node's own padding"
    exactness = "bounded"
    bound = "the sign of a zero"
    roots = frozenset({"Conv", "MaxPool", "AveragePool"})

    def rule(self, node: Node, build: Builder) -> Replacement | Refusal | None:
        pad = node.arg(0).producer
        if pad is None or pad.op != "Pad" or len(node.outputs) != 1:
            return None
        found = padding(pad)
        if isinstance(found, Refusal):
            return found
        amounts, value = found
        rank = len(node.arg(0).shape)
        begin, end = amounts[:rank], amounts[rank:]
        if any(a < 0 for a in amounts):
            return Refusal("its padding crops")
        if any((*begin[:2], *end[:2])):
            return Refusal("it pads batch or channels")
        auto = attribute(node, "auto_pad")
        if auto not in ("NOTSET", "VALID"):
            return Refusal(f"auto_pad {auto} depends on the padded shape")
        own = [0] * (2 * (rank - 2)) if auto == "VALID" else list(node.attrs.get("pads") or [0] * (2 * (rank - 2)))
        pads = [a + b for a, b in zip([*begin[2:], *end[2:]], own, strict=True)]
        changed: dict[str, object] = {"pads": pads, "auto_pad": None}
        if node.op != "Conv":
            reason = _pool_obstacle(node, pad, value, own, pads)
            if reason is not None:
                return Refusal(reason)
            if node.op == "AveragePool":
                changed["count_include_pad"] = 1
        elif value != 0:
            return Refusal(f"it pads with {value}, a Conv with 0")
        elif not _is_finite(node.input(1)):
            return Refusal("0 times a weight that is not finite is NaN")
        new = build.like(node, [pad.arg(0), *node.inputs[1:]], **changed)
        if new.type != node.output.type:
            return Refusal("the shape would change")
        return Replacement({node.output: new}, f"Pad + {node.op} => {node.op}")


def padding(pad: Node) -> tuple[Sequence[int], float] | Refusal:
    """Elements added before every axis, then behind every axis, and the value; refused where not known."""
    if attribute(pad, "mode") != "constant":
        return Refusal(f"its mode is {attribute(pad, 'mode')}")
    amounts, axes = ints_of(pad.input(1)), ints_of(pad.input(3))
    shape = shape_of(pad.arg(0))
    if amounts is None or shape is None or (pad.input(3) is not None and axes is None):
        return Refusal("its amounts are not constant")
    value = 0.0
    if pad.input(2) is not None:
        constant = numeric_constant(pad.input(2))
        if constant is None or constant.size != 1:
            return Refusal("its value is not constant")
        value = float(constant.reshape(-1)[0])
    if axes is None:
        return amounts, value
    full, rank = [0] * (2 * len(shape)), len(shape)
    for i, axis in enumerate(axes):
        full[axis % rank], full[axis % rank + rank] = amounts[i], amounts[i + len(axes)]
    return full, value


def _pool_obstacle(node: Node, pad: Node, value: float, own: Sequence[int], pads: Sequence[int]) -> str | None:
    kernel = list(node.attrs["kernel_shape"])
    dilations = list(node.attrs.get("dilations") or [1] * len(kernel))
    if attribute(node, "ceil_mode"):
        return "with ceil_mode the last window depends on where padding ends"
    if any(p >= k for p, k in zip(pads, kernel * 2, strict=True)) or any(d != 1 for d in dilations):
        return "a window would see padding only"
    if node.op == "AveragePool":
        if value != 0:
            return f"it pads with {value}, a pool with 0"
        return None if attribute(node, "count_include_pad") or not any(own) else "only one of the paddings counts"
    if value == -np.inf:
        return None
    source = pad.arg(0).producer
    if value == 0 and source is not None and source.op in _NOT_NEGATIVE:
        return None
    return f"it pads with {value}, a MaxPool with -inf"


def _is_finite(value: Value | None) -> bool:
    array: Array | None = numeric_constant(value)
    return array is not None and bool(np.all(np.isfinite(array)))
