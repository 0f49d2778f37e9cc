"""Chains of multiplications and additions of constants become one of each.

    ((x * a + b) * c) / d + e   =>   x * (a * c / d) + (b * c / d + e)

The constants are combined in float64 and rounded once. They may have any shapes that broadcast to the shape of one of
them. A chain that adds first keeps its order where multiplying first would cancel: see `MOST_CANCELLATION`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jitopt.ir.graph import Node, Value
from jitopt.passes.base import Refusal
from jitopt.passes.facts import Array, inner_use_only, numeric_constant, same_type
from jitopt.passes.rules import Builder, Replacement, RulePass

# x * scale + shift cancels where |shift| is large beside the result; (x + t) * scale does not. Up to this size of the
# shift the lost bits stay below 1e-5 of the result's scale in float32.
MOST_CANCELLATION = 100.0
_MAPS = frozenset({"Mul", "Add", "Sub", "Div"})


class MergeAffine(RulePass):
    name = "merge-affine"
    description = "chains of Mul, Add, Sub and Div by constants become one Mul and one Add"
    exactness = "bounded"
    bound = "one rounding of each constant instead of one of each step"
    roots = _MAPS
    outermost_first = True

    def rule(self, node: Node, build: Builder) -> Replacement | Refusal | None:
        chain: list[Node] = []
        x = node.output
        while (link := _link(x, first=not chain)) is not None:
            chain.append(link[0])
            x = link[1]
        if len(chain) < 2:
            return None
        scale, shift = np.ones(()), np.zeros(())
        tame = True
        with np.errstate(all="ignore"):
            for step in reversed(chain):
                scale, shift = _then(step, scale, shift)
                tame = tame and _is_tame(scale, x.dtype.numpy)
        multiplies, adds = bool(np.any(scale != 1)), bool(np.any(shift != 0))
        if multiplies + adds >= len(chain):
            return None
        reason = _obstacle(chain, scale, shift, x) if tame else "a step may overflow or vanish, the whole would not"
        if reason is not None:
            return Refusal(reason)
        new = x
        if multiplies:
            new = build.add("Mul", [new, build.constant(scale.astype(x.dtype.numpy), f"{node.name}/scale")],
                            name=f"{node.name}/scaled" if adds else node.name)  # fmt: skip
        if adds:
            new = build.add("Add", [new, build.constant(shift.astype(x.dtype.numpy), f"{node.name}/shift")])
        ops = ", ".join(step.op for step in reversed(chain))
        left = ", ".join(["Mul"] * multiplies + ["Add"] * adds) or "nothing"
        return Replacement({node.output: new}, f"{ops} => {left}")


def _link(value: Value, *, first: bool) -> tuple[Node, Value] | None:
    """The node that makes `value` of another value and a float constant, for nobody but one reader."""
    node = value.producer
    if node is None or node.op not in _MAPS or not (first or inner_use_only(value)):
        return None
    for x, constant in ((node.arg(0), node.arg(1)), (node.arg(1), node.arg(0))):
        array = numeric_constant(constant)
        if array is not None and array.dtype.kind == "f" and x.constant is None and same_type(x, value):
            return None if node.op == "Div" and x is node.arg(1) else (node, x)
    return None


def _then(step: Node, scale: Array, shift: Array) -> tuple[Array, Array]:
    """x * scale + shift followed by one step of the chain."""
    left, right = numeric_constant(step.arg(0)), numeric_constant(step.arg(1))
    array = left if right is None else right
    assert array is not None
    c = array.astype(np.float64)
    if step.op == "Mul":
        return scale * c, shift * c
    if step.op == "Div":
        return scale / c, shift / c
    if step.op == "Add":
        return scale, shift + c
    return (-scale, c - shift) if right is None else (scale, shift - c)


def _is_tame(scale: Array, dtype: np.dtype[Any] | None) -> bool:
    """Far from where a product with it overflows or vanishes: the steps and the whole do so for the same x."""
    if dtype is None:
        return False
    limits = np.finfo(dtype)
    size = np.abs(scale[scale != 0])
    return bool(np.all((size < np.sqrt(float(limits.max))) & (size > np.sqrt(float(limits.tiny)))))


def _obstacle(chain: list[Node], scale: Array, shift: Array, x: Value) -> str | None:
    dtype = x.dtype.numpy
    assert dtype is not None
    with np.errstate(all="ignore"):
        narrow = (scale.astype(dtype), shift.astype(dtype))
    if not all(np.all(np.isfinite(a)) for a in narrow):
        return f"the combined constants do not fit {x.dtype}"
    largest = max(v.constant.size for n in chain for v in n.inputs if v is not None and v.constant is not None)
    if max(scale.size, shift.size) > largest:
        return "the combined constants would be larger than each of them"
    if chain[-1].op in ("Add", "Sub") and dtype.itemsize < 8 and np.any(np.abs(shift) > MOST_CANCELLATION):
        return "multiplying first would cancel"
    return None
