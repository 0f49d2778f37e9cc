"""Reductions along axes: sums, norms, extrema, means; and the running sums CumSum and CumProd."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np

from jitopt.ir.bounds import larger, smaller
from jitopt.ir.dims import Dim, Shape
from jitopt.ir.dtypes import DType
from jitopt.ir.graph import Node
from jitopt.ops import cases
from jitopt.ops.cast import convert
from jitopt.ops.contents import axes_of, fresh_shape, known_ints, operand_length
from jitopt.ops.geometry import ints
from jitopt.ops.operator import INDICES, Array, Attribute, Attrs, Kind, Operator, Param, Sample
from jitopt.ops.rules import UnknownRank, reduced, require, same_as_first, shape_of
from jitopt.ops.signature import WIDE_NUMERIC, declare, dtypes
from jitopt.ops.upgrades import attribute_to_input

Axes = tuple[int, ...]
Function = Callable[[Array, Axes], Any]
SWITCH = Attribute("int", 0, choices=(0, 1))
KEEP = Attribute("int", 1, choices=(0, 1))
_INT64 = dtypes("int64")
_EXTREMA = WIDE_NUMERIC | dtypes("int8 uint8")


def _axes(attrs: Attrs, given: Sequence[int] | None, rank: int) -> Axes:
    """The axes to reduce: all of them where none are named, none of them if the node says so."""
    if not given:
        return () if attrs.noop_with_empty_axes else tuple(range(rank))
    return tuple(axes_of(given, rank))


def _rule(node: Node, attrs: Attrs) -> Sequence[Shape | None]:
    shape = shape_of(node)
    given = known_ints(node.input(1))
    if node.input(1) is None or given is not None:
        return [reduced(shape, _axes(attrs, given, len(shape)), bool(attrs.keepdims))]
    length = operand_length(node, 1)
    if attrs.keepdims or length == 0:
        return [fresh_shape(node, len(shape))]
    if length is None:
        raise UnknownRank
    return [fresh_shape(node, len(shape) - length)]


def reduction(
    name: str, function: Function, *, since: tuple[int, ...], allowed: frozenset[DType] = WIDE_NUMERIC,
    input_since: int = 18, combine: Callable[[Dim, Dim], Dim] | None = None,
) -> Operator:  # fmt: skip
    """Declare a reduction: `function(x, axes)` keeps the reduced axes with extent 1; empty sets included.

    `input_since`: the opset at which the axes became an input. `combine` folds two elements of known content.
    """

    def reference(attrs: Attrs, x: Array, axes: Array | None = None) -> Array:
        chosen = _axes(attrs, None if axes is None else axes.reshape(-1).tolist(), x.ndim)
        if not chosen and x.ndim and attrs.noop_with_empty_axes:
            return function(x[None], (0,))[0]  # type: ignore[no-any-return]
        out = convert(np.asarray(function(x, chosen)), x.dtype)
        return out.reshape(ints(reduced(x.shape, chosen, bool(attrs.keepdims))))

    def content(attrs: Attrs, node: Node, x: Array | None, axes: Array | None = None) -> Array | None:
        """Of a list of dims reduced to one."""
        if x is None or combine is None or x.ndim != 1 or not x.size or attrs.noop_with_empty_axes:
            return None
        out = np.empty((1,) if attrs.keepdims else (), object)
        out[...] = reduce(combine, x.tolist())
        return out

    return declare(
        name, Kind.REDUCE, (Param("data", allowed), Param("axes", _INT64, "A", optional=True)),
        (Param("reduced", allowed),), _rule, reference, since=since, content=None if combine is None else content,
        upgrades=((input_since, attribute_to_input("axes", 1)),), samples=_samples(since, input_since, allowed),
        attributes={"keepdims": KEEP, "noop_with_empty_axes": SWITCH},
    )  # fmt: skip


def _samples(since: tuple[int, ...], input_since: int, allowed: frozenset[DType]) -> Callable[[], list[Sample]]:
    def build() -> list[Sample]:
        x, whole = cases.floats(3, 4, 5, low=0.2, high=3), cases.ints(3, 4, low=1, high=5)
        new = [
            cases.sample(x, cases.vector(1), opset=input_since),
            cases.sample(x, cases.vector(-1, 0), keepdims=0, opset=input_since),
            cases.sample(x, opset=input_since),
            cases.sample(x, None, keepdims=0, opset=input_since),
            cases.sample(x, cases.vector(), noop_with_empty_axes=1, opset=input_since),
            cases.sample(x, cases.vector(), keepdims=1, opset=input_since),
            cases.sample(cases.floats(3, 0, 2), cases.vector(0), opset=input_since),
            cases.sample(cases.floats(low=1.0), keepdims=0, opset=input_since),
            cases.sample(x.astype("float64"), cases.vector(0, 2), opset=input_since),
            cases.sample(whole, cases.vector(0), opset=input_since),
            cases.sample(whole.astype("int32"), cases.vector(1), opset=input_since),
        ]
        old = [
            cases.sample(x, axes=[1], opset=7),
            cases.sample(x, axes=[0, 2], keepdims=0, opset=7),
            cases.sample(x, opset=7),
            cases.sample(x, axes=[-1], opset=11),
            cases.sample(whole.astype("int32"), axes=[0], opset=7),
        ]
        return new + old

    return build


def _sum(x: Array, axes: Axes) -> Array:
    return np.asarray(np.sum(x, axis=axes, keepdims=True, dtype=np.float64 if x.dtype.kind == "f" else x.dtype))


def _mean(x: Array, axes: Axes) -> Array:
    return np.asarray(np.mean(x, axis=axes, keepdims=True, dtype=np.float64))


def _square(x: Array) -> Array:
    return x.astype(np.float64) ** 2 if x.dtype.kind == "f" else x * x


def _log_sum_exp(x: Array, axes: Axes) -> Array:
    """log(sum(exp(x))) about the largest element, so that nothing overflows."""
    wide = x.astype(np.float64)
    top = np.max(wide, axis=axes, keepdims=True, initial=-np.inf)
    top = np.where(np.isfinite(top), top, 0.0)
    return np.asarray(np.log(np.sum(np.exp(wide - top), axis=axes, keepdims=True)) + top)


def _extreme(function: Any, first: bool) -> Function:
    """Maximum (`first`) or minimum; of an empty set the end of the type's range."""

    def find(x: Array, axes: Axes) -> Array:
        if x.dtype.kind == "b":
            return np.asarray((np.any if first else np.all)(x, axis=axes, keepdims=True))
        if x.dtype.kind == "f":
            return np.asarray(function(x, axis=axes, keepdims=True, initial=-np.inf if first else np.inf))
        info = np.iinfo(x.dtype)
        return np.asarray(function(x, axis=axes, keepdims=True, initial=info.min if first else info.max))

    return find


def _add(a: Dim, b: Dim) -> Dim:
    return a + b


def _multiply(a: Dim, b: Dim) -> Dim:
    return a * b


_USUAL = (1, 11, 13, 18)
reduction("ReduceSum", _sum, since=(1, 11, 13), input_since=13, combine=_add)
reduction("ReduceMean", _mean, since=_USUAL)
reduction(
    "ReduceProd", lambda x, axes: np.prod(x, axis=axes, keepdims=True, dtype=x.dtype), since=_USUAL, combine=_multiply
)
reduction("ReduceL1", lambda x, axes: _sum(np.abs(x), axes), since=_USUAL)
reduction("ReduceL2", lambda x, axes: np.sqrt(_sum(_square(x), axes).astype(np.float64)), since=_USUAL)
reduction("ReduceSumSquare", lambda x, axes: _sum(_square(x), axes), since=_USUAL)
reduction("ReduceLogSum", lambda x, axes: np.log(_sum(x, axes).astype(np.float64)), since=(*_USUAL, 28))
reduction("ReduceLogSumExp", _log_sum_exp, since=(*_USUAL, 28))
reduction(
    "ReduceMax",
    _extreme(np.max, True),
    since=(1, 11, 12, 13, 18, 20),
    allowed=_EXTREMA | dtypes("bool"),
    combine=larger,
)
reduction(
    "ReduceMin",
    _extreme(np.min, False),
    since=(1, 11, 12, 13, 18, 20),
    allowed=_EXTREMA | dtypes("bool"),
    combine=smaller,
)


# running sums -------------------------------------------------------------------------------------------------------
def _running(function: Any, neutral: int) -> Callable[..., Array]:
    def run(attrs: Attrs, x: Array, axis: Array) -> Array:
        along = int(axis.reshape(-1)[0])
        values = np.flip(x, along) if attrs.reverse else x
        out = function(values, axis=along, dtype=x.dtype)
        if attrs.exclusive:
            out = np.roll(out, 1, along)
            first: list[Any] = [slice(None)] * x.ndim
            first[along] = slice(0, 1)
            out[tuple(first)] = neutral
        return np.asarray(np.flip(out, along) if attrs.reverse else out)

    return run


def _running_rule(node: Node, attrs: Attrs) -> Sequence[Shape | None]:
    axis = known_ints(node.input(1))
    if axis is not None:
        require(len(axis) == 1, "the axis must be one number")
        axes_of(axis, len(shape_of(node)))
    return same_as_first(node, attrs)


def _running_samples() -> list[Sample]:
    x, axis = cases.floats(3, 4, 5), cases.scalar(1, "int32")
    flags: list[dict[str, int]] = [{}, {"reverse": 1}, {"exclusive": 1}, {"reverse": 1, "exclusive": 1}]
    out = [cases.sample(x, axis, **flag) for flag in flags]
    return [*out, cases.sample(x, cases.scalar(-1, "int64")), cases.sample(cases.ints(3, 4), axis)]


for _name, _function, _neutral, _since in (("CumSum", np.cumsum, 0, (11, 14)), ("CumProd", np.cumprod, 1, (26,))):
    declare(
        _name, Kind.REDUCE, (Param("x", WIDE_NUMERIC), Param("axis", INDICES, "T2")), (Param("y", WIDE_NUMERIC),),
        _running_rule, _running(_function, _neutral), since=_since, samples=_running_samples,
        attributes={"exclusive": SWITCH, "reverse": SWITCH},
    )  # fmt: skip
