"""Feeds made up from what a graph says of its inputs, for checks and the command line; seeded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from jitopt.errors import FeedError
from jitopt.ir.dims import Environment, symbols
from jitopt.ir.dtypes import DType
from jitopt.ir.graph import Graph, Value
from jitopt.ir.types import OptionalType, TensorType

Array = np.ndarray[Any, Any]
Feeds = dict[str, Any]
Extents = Mapping[str, tuple[int, ...]]
FREE_EXTENT = 64  # for a free extent of any axis but the first, which gets 1
# Free extents of the first axis, of those between and of the last one, and the most indices stay below (None: what they
# look up), tried in turn until the model takes the feeds. Sound wants some hundred samples of one recording.
ATTEMPTS = ((1, FREE_EXTENT, FREE_EXTENT, None), (2, 8, 8, 2), (1, 1, 256, 1), (1, 256, 256, 1), (1, 1, 1, 1))

# Operators through which an integer stays the same index, and those that look it up: (operand of data, of indices).
_CARRIERS = frozenset({"Cast", "Concat", "Expand", "Flatten", "Identity", "Reshape", "Slice", "Squeeze", "Transpose",
                       "Unsqueeze"})  # fmt: skip
_LOOKUPS = {"Gather": (0, 1), "GatherElements": (0, 1)}


def attempts(
    graph: Graph, shapes: Mapping[str, Sequence[int]] | None
) -> Iterator[tuple[Extents, Callable[[int], Feeds]]]:
    """Ways to feed a typed graph, to be tried in turn until it takes one: extents by input, and feeds by seed.

    `shapes` are the inputs' extents where they are known. Raises FeedError, as feeds by seed do, for an input no values
    can be made up for.
    """
    lookups = index_bounds(graph)
    known = {name: tuple(map(int, shape)) for name, shape in (shapes or {}).items()}
    seen: set[tuple[Any, ...]] = set()
    for first, between, last, most in ATTEMPTS:
        extents = known or free_extents(graph.inputs, first, between, last)
        below = {name: bound if most is None else min(bound, most) for name, bound in lookups.items()}
        plan = (*extents.items(), *below.items())
        if plan not in seen:
            seen.add(plan)
            yield extents, partial(_feeds, graph, extents, below)


def made_up(dtype: DType, shape: Sequence[int], rng: np.random.Generator, below: int | None = None) -> Array:
    """An array of this shape: floats of deviation 1, bytes of any value, indices `below` a bound.

    Every other integer is 1 and every bool true: a legal index, mask, length or rate. Raises FeedError for a dtype
    without such values.
    """
    kind = dtype.numpy
    if kind is None or kind.kind not in "fiubc":
        raise FeedError(f"values of type {dtype} cannot be made up")
    if kind.kind in "fc":
        return rng.standard_normal(tuple(shape), np.float32).astype(kind)
    if below is not None:
        return rng.integers(0, max(below, 1), tuple(shape)).astype(kind)
    if kind.kind != "b" and kind.itemsize == 1:
        return rng.integers(0, np.iinfo(kind).max, tuple(shape), kind, endpoint=True)
    return np.ones(tuple(shape), kind)


def free_extents(inputs: Sequence[Value], first: int, between: int, last: int) -> dict[str, tuple[int, ...]]:
    """Extents of the tensors among the inputs; the axis where a symbol is met first says which of the three it gets.

    Raises FeedError where an extent that is an expression becomes negative.
    """
    tensors = {v.name: v.type.shape for v in inputs if isinstance(v.type, TensorType) and v.type.shape is not None}
    values: dict[str, int] = {}
    for shape in tensors.values():
        for axis, dim in enumerate(shape):
            for name in sorted(symbols(dim)):
                values.setdefault(name, first if axis == 0 else last if axis == len(shape) - 1 else between)
    environment = Environment(values)
    found = {name: environment.shape(shape) for name, shape in tensors.items()}
    for name, extents in found.items():
        if min(extents, default=0) < 0:
            raise FeedError(f"input {name!r} would get the shape {extents}")
    return found


def index_bounds(graph: Graph) -> dict[str, int]:
    """For every integer input that looks something up: the extent its elements must stay below, where it is known."""
    found: dict[str, int] = {}
    for value in graph.inputs:
        if not isinstance(value.type, TensorType) or value.type.dtype.kind not in ("int", "uint"):
            continue
        extents = [e for e in _lookup_extents(graph, value) if isinstance(e, int)]
        if extents:
            found[value.name] = min(extents)
    return found


def _lookup_extents(graph: Graph, value: Value) -> Iterator[Any]:
    """Extents of the axes that the value, or what only moves its elements, is an index into."""
    seen, waiting = {value}, [value]
    while waiting:
        carrier = waiting.pop()
        for node in graph.consumers(carrier):
            places = _LOOKUPS.get(node.op)
            if places is not None and node.input(places[1]) is carrier:
                shape = node.arg(places[0]).tensor.shape
                if shape is not None:
                    yield shape[int(node.attrs.get("axis", 0))]
            elif node.op in _CARRIERS and (node.op == "Concat" or node.input(0) is carrier):
                fresh = [v for v in node.outputs if v not in seen]
                seen.update(fresh)
                waiting += fresh


def _feeds(
    graph: Graph, extents: Extents, below: Mapping[str, int], seed: int
) -> Feeds:  # fmt: skip
    feeds: Feeds = {}
    rng = np.random.default_rng(seed)
    for value in graph.inputs:
        if isinstance(value.type, OptionalType):
            feeds[value.name] = None
        elif isinstance(value.type, TensorType) and value.name in extents:
            try:
                feeds[value.name] = made_up(value.type.dtype, extents[value.name], rng, below.get(value.name))
            except FeedError as error:
                raise FeedError(f"input {value.name!r}: {error.message}") from None
        else:
            raise FeedError(f"no values can be made up for input {value.name!r} of type {value.type}")
    return feeds


def shuffled(feed: Any, rng: np.random.Generator) -> Any:
    """The feed with its elements in another order, so still of legal values; floats a quarter smaller as well."""
    if isinstance(feed, list):
        return [shuffled(item, rng) for item in feed]
    if not isinstance(feed, np.ndarray):
        return feed
    moved = rng.permutation(feed.reshape(-1)).reshape(feed.shape)
    return (moved * feed.dtype.type(0.75)) if feed.dtype.kind in "fc" else moved
