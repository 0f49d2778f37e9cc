"""Shape rules shared by the operators: broadcasting, reductions, extents that must agree.

A shape rule is `rule(node, attrs) -> [shape of each output]`, a shape being a tuple of dims (ints or expressions).
Rules are written as if every rank were known: `shape_of` raises UnknownRank otherwise, and whoever called the rule
(`jitopt.ops.signature.typed`) then gives every output an unknown rank. Errors name no node; the caller adds it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

from jitopt.errors import ShapeError
from jitopt.ir.dims import Dim, Expr, Shape, select_eq
from jitopt.ir.graph import Node
from jitopt.ops.operator import Attrs

ShapeRule = Callable[[Node, Attrs], Sequence[Shape | None]]


class UnknownRank(Exception):
    """A rule needs a rank nobody knows; never leaves this package."""


def require(condition: bool, text: str) -> None:
    """Raise ShapeError with `text` unless `condition`."""
    if not condition:
        raise ShapeError(text)


def show(shape: Iterable[Dim]) -> str:
    """A shape as error messages write it: (2, n, 4)."""
    return f"({', '.join(map(str, shape))})"


# what is known only once shapes are bound ---------------------------------------------------------------------------
RELATIONS: dict[str, Callable[[int, int], bool]] = {
    "equal": lambda a, b: a == b,
    "broadcast": lambda a, b: a == b or a == 1 or b == 1,
    "stretch": lambda a, b: b in (1, a),  # b repeats to a
    "at least": lambda a, b: a >= b,
    "source": lambda a, b: a >= 1 or b < 1,  # b elements can be taken from a
}


class Demand(NamedTuple):
    """Extents (or other dims) a and b must stand in `relation`, one of RELATIONS; `what` says so in an error."""

    relation: str
    a: Dim
    b: Dim
    what: str


_demands: ContextVar[list[Demand] | None] = ContextVar("demands", default=None)


@contextmanager
def collect_demands() -> Iterator[list[Demand]]:
    """The list of what rules run in this context had to leave open: extents they cannot compare are symbolic."""
    found: list[Demand] = []
    token = _demands.set(found)
    try:
        yield found
    finally:
        _demands.reset(token)


def demand(relation: str, a: Dim, b: Dim, what: str) -> None:
    """Raise ShapeError with `what` where the relation is known not to hold; note it where that cannot be known yet."""
    if a is b:
        return
    if isinstance(a, int) and isinstance(b, int):
        require(RELATIONS[relation](a, b), what)
        return
    listener = _demands.get()
    if listener is not None:
        listener.append(Demand(relation, a, b, what))


# reading a node's operands ------------------------------------------------------------------------------------------
def shape_of(node: Node, index: int = 0) -> Shape:
    """Shape of input `index`. Raises ModelError where it is missing, UnknownRank where its rank is unknown."""
    shape = node.arg(index).tensor.shape
    if shape is None:
        raise UnknownRank
    return shape


def shape_or_none(node: Node, index: int) -> Shape | None:
    """Shape of an optional input; None where it is absent."""
    return None if node.input(index) is None else shape_of(node, index)


def present(node: Node) -> list[int]:
    """Indices of the inputs that are there."""
    return [i for i, value in enumerate(node.inputs) if value is not None]


# reductions ---------------------------------------------------------------------------------------------------------
def reduced(shape: Shape, axes: Iterable[int], keepdims: bool) -> Shape:
    """`shape` with `axes` (already in range) reduced to 1, or taken out."""
    gone = set(axes)
    if keepdims:
        return tuple(1 if i in gone else d for i, d in enumerate(shape))
    return tuple(d for i, d in enumerate(shape) if i not in gone)


# broadcasting -------------------------------------------------------------------------------------------------------
def broadcast_dims(a: Dim, b: Dim) -> Dim:
    """The common extent of two axes. An axis whose extent is not known yet is taken to be 1 or to fit."""
    if a is b or a == b or b == 1:
        return a
    if a == 1:
        return b
    demand("broadcast", a, b, f"extents {a} and {b} do not broadcast")
    if isinstance(a, int):
        return a
    if isinstance(b, int) or _clips(a, b):
        return b
    return a if _clips(b, a) else select_eq(a, 1, b, a)


def _clips(a: Expr, b: Expr) -> bool:
    """a = min(b, k): wherever the two broadcast at all they are equal, so the result is b."""
    (monomial, factor), *more = a.terms
    if more or factor != 1 or len(monomial) != 1 or monomial[0].op != "min":
        return False
    args = monomial[0].args
    return any(d is b for d in args) and all(d is b or (isinstance(d, int) and d >= 1) for d in args)


def broadcast(*shapes: Shape) -> Shape:
    """NumPy's multidirectional broadcasting. Raises ShapeError where the shapes do not fit."""
    rank = max(map(len, shapes), default=0)
    out: list[Dim] = [1] * rank
    for shape in shapes:
        for axis, dim in enumerate(shape, rank - len(shape)):
            try:
                out[axis] = broadcast_dims(out[axis], dim)
            except ShapeError:
                text = " and ".join(map(show, shapes))
                raise ShapeError(f"shapes {text} do not broadcast: axis {axis} is {out[axis]} and {dim}") from None
    return tuple(out)


def broadcast_to(target: Shape, shape: Shape, what: str) -> None:
    """Check that `shape` broadcasts to `target` without changing it (ONNX's unidirectional broadcasting)."""
    text = f"{what} of shape {show(shape)} does not broadcast to {show(target)}"
    require(len(shape) <= len(target), text)
    for want, dim in zip(target[::-1], shape[::-1], strict=False):
        if dim != 1:
            demand("stretch", want, dim, text)


def differ(a: Dim, b: Dim) -> bool:
    """The two extents, which must be equal, are known not to be; noted as a demand where that cannot be known yet."""
    if isinstance(a, int) and isinstance(b, int):
        return a != b
    demand("equal", a, b, f"the extents {a} and {b} differ")
    return False


def same(a: Dim, b: Dim, what: str) -> Dim:
    """The one extent two tensors share, the known one where only one is known. Raises ShapeError if they differ."""
    demand("equal", a, b, f"{what}: {a} and {b}")
    return a if isinstance(a, int) else b


# whole rules --------------------------------------------------------------------------------------------------------
def same_as_first(node: Node, attrs: Attrs) -> Sequence[Shape | None]:
    """Every output has the first input's shape."""
    return [shape_of(node)] * len(node.outputs)


def broadcast_inputs(node: Node, attrs: Attrs) -> Sequence[Shape | None]:
    """One output: all present inputs broadcast together."""
    return [broadcast(*(shape_of(node, i) for i in present(node)))]


def scalar_outputs(node: Node, attrs: Attrs) -> Sequence[Shape | None]:
    """Every output is a scalar."""
    return [()] * len(node.outputs)
