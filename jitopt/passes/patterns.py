"""Patterns as data: what a piece of graph looks like, whatever the order of its commutative operands.

    x = Any("x")
    SILU = Product(x, Op("Sigmoid", x))
    GELU = Product(x, Op("Add", Op("Erf", Product(x, scale=2**-0.5)), Scalar(1.0)), scale=0.5)

    found = match(GELU, node)      # Match, Refusal (it fits, but an inner value has another reader) or None
    found["x"]                     # the value bound to x

`Product` is a tree of Mul nodes (and of Div by a scalar constant) in any association and order, its scalar constants
multiplied into one factor; so one pattern covers (x * 0.5) * y, 0.5 * (x * y) and x * y / 2.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from typing import TypeAlias

from jitopt.ir.graph import Node, Value
from jitopt.passes.base import Refusal
from jitopt.passes.facts import numeric_constant

COMMUTATIVE = frozenset({"Add", "Mul", "Max", "Min", "And", "Or", "Xor", "Equal"})
_TOLERANCE = {"float16": 2e-3, "bfloat16": 1e-2}  # of constants an exporter rounded; 1e-5 for wider types


@dataclass(frozen=True)
class Any:
    """Any value; the same name means the same value."""

    name: str


@dataclass(frozen=True)
class Constant:
    """Any constant, bound to `name`."""

    name: str


@dataclass(frozen=True)
class Scalar:
    """A constant of one element: `number` (up to rounding), or any, bound to `name`."""

    number: float | None = None
    name: str = ""


class Op:
    """A node of operator `op` (or one of several) with these operands and no further ones, and these attributes.

    `name` binds its first output.
    """

    def __init__(self, op: str | tuple[str, ...], *args: Pattern, name: str = "", **attrs: object) -> None:
        self.ops = (op,) if isinstance(op, str) else op
        self.args, self.name, self.attrs = args, name, attrs


class Product:
    """`scale` times the factors, in any association and order; scale None takes any and binds it to `scale_name`."""

    def __init__(self, *factors: Pattern, scale: float | None = 1.0, scale_name: str = "") -> None:
        self.factors, self.scale, self.scale_name = factors, scale, scale_name


@dataclass(frozen=True)
class OneOf:
    """The first of several alternatives that fits."""

    options: tuple[Pattern, ...]


Pattern: TypeAlias = Any | Constant | Scalar | Op | Product | OneOf


@dataclass(frozen=True)
class Match:
    """Bindings of names to values, of scales to numbers, and the nodes the pattern covers."""

    values: Mapping[str, Value] = field(default_factory=dict)
    numbers: Mapping[str, float] = field(default_factory=dict)
    nodes: tuple[Node, ...] = ()

    def __getitem__(self, name: str) -> Value:
        return self.values[name]

    def bind(self, name: str, value: Value) -> Match:
        return Match({**self.values, name: value}, self.numbers, self.nodes) if name else self

    def cover(self, *nodes: Node) -> Match:
        return Match(self.values, self.numbers, self.nodes + nodes)


def match(pattern: Pattern, node: Node) -> Match | Refusal | None:
    """Fit the pattern to the node's first output.

    A Refusal where it fits but a value inside it is read from outside or is a graph output.
    """
    refusal: Refusal | None = None
    for found in _value(pattern, node.output, Match()):
        outside = _read_from_outside(found, node)
        if outside is None:
            return found
        refusal = Refusal(f"'{outside.name}' inside the pattern has another reader")
    return refusal


def _read_from_outside(found: Match, root: Node) -> Value | None:
    inside = {*found.nodes, root}
    for node in inside - {root}:
        for value in node.outputs:
            if node.graph.is_output(value) or any(reader not in inside for reader, _ in value.uses):
                return value
    return None


def scalar_of(value: Value | None) -> float | None:
    """The number a one-element numeric constant holds."""
    array = numeric_constant(value)
    return None if array is None or array.size != 1 else float(array.reshape(())[()])


def close(value: Value, number: float, wanted: float) -> bool:
    """`number`, a constant that meets `value`, is `wanted` up to how exporters round."""
    return math.isclose(number, wanted, rel_tol=_TOLERANCE.get(value.dtype.name, 1e-5))


def _value(pattern: Pattern, value: Value, so_far: Match) -> Iterator[Match]:
    if isinstance(pattern, Any):
        bound = so_far.values.get(pattern.name)
        if bound is None or bound is value:
            yield so_far.bind(pattern.name, value)
    elif isinstance(pattern, Constant):
        if value.constant is not None:
            yield so_far.bind(pattern.name, value)
    elif isinstance(pattern, Scalar):
        number = scalar_of(value)
        if number is not None and (pattern.number is None or close(value, number, pattern.number)):
            yield so_far.bind(pattern.name, value)
    elif isinstance(pattern, Op):
        yield from _op(pattern, value, so_far)
    elif isinstance(pattern, Product):
        yield from _product(pattern, value, so_far)
    else:
        for option in pattern.options:
            yield from _value(option, value, so_far)


def _op(pattern: Op, value: Value, so_far: Match) -> Iterator[Match]:
    node = value.producer
    if node is None or node.op not in pattern.ops or node.output is not value:
        return
    given = [v for v in node.inputs if v is not None]
    if len(given) != len(pattern.args) or len(given) != len(node.inputs) or not _attributes_fit(pattern.attrs, node):
        return
    orders: Sequence[Sequence[Value]] = [given]
    if node.op in COMMUTATIVE and len(given) == 2 and given[0] is not given[1]:
        orders = [given, given[::-1]]
    for order in orders:
        for found in _values(pattern.args, order, so_far):
            yield found.cover(node).bind(pattern.name, value)


def _values(patterns: Sequence[Pattern], values: Sequence[Value], so_far: Match) -> Iterator[Match]:
    if not patterns:
        yield so_far
        return
    for found in _value(patterns[0], values[0], so_far):
        yield from _values(patterns[1:], values[1:], found)


def _attributes_fit(wanted: Mapping[str, object], node: Node) -> bool:
    for name, value in wanted.items():
        given = node.attrs.get(name)
        if isinstance(value, float) and isinstance(given, (int, float)):
            if not math.isclose(given, value, rel_tol=1e-5):
                return False
        elif given != value:
            return False
    return True


@dataclass(frozen=True)
class _Factors:
    """One way to read a value as a product."""

    scale: float
    leaves: tuple[Value, ...]
    nodes: tuple[Node, ...]


def _product(pattern: Product, value: Value, so_far: Match) -> Iterator[Match]:
    most = len(pattern.factors)
    for reading in _readings(value, most):
        if not reading.nodes or len(reading.leaves) != most:
            continue
        found = so_far.cover(*reading.nodes)
        if pattern.scale is None:
            found = Match(found.values, {**found.numbers, pattern.scale_name: reading.scale}, found.nodes)
        elif not close(value, reading.scale, pattern.scale):
            continue
        seen = set()
        for order in permutations(reading.leaves):
            if order not in seen:
                seen.add(order)
                yield from _values(pattern.factors, order, found)


def _readings(value: Value, most: int) -> Iterator[_Factors]:
    """Every way to read `value` as a product of at most `most` factors, itself as the one factor first."""
    number = scalar_of(value)
    if number is not None:
        yield _Factors(number, (), ())
        return
    if most >= 1:
        yield _Factors(1.0, (value,), ())
    node = value.producer
    if node is None or node.op not in ("Mul", "Div"):
        return
    left, right = node.arg(0), node.arg(1)
    if node.op == "Div":
        divisor = scalar_of(right)
        if divisor:
            for a in _readings(left, most):
                yield _Factors(a.scale / divisor, a.leaves, (*a.nodes, node))
        return
    for a in _readings(left, most):
        for b in _readings(right, most - len(a.leaves)):
            yield _Factors(a.scale * b.scale, a.leaves + b.leaves, (*a.nodes, *b.nodes, node))
