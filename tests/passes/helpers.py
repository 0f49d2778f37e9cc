"""Runs one pass (or the pipeline) on a graph built by a test and compares numbers before and after."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from jitopt.ir.graph import Graph
from jitopt.ir.interpreter import Interpreter
from jitopt.ir.types import TensorType
from jitopt.ir.verifier import verify
from jitopt.ops import find
from jitopt.passes.base import PassContext, PassResult
from jitopt.passes.infer import infer
from jitopt.passes.optimize import count_nodes
from jitopt.passes.pipelines import PASSES
from jitopt.verify import compare_all

Build = Callable[[], Graph]
Feeds = Mapping[str, Any]


def floats(*shape: int, seed: int = 0, low: float = -2.0, high: float = 2.0, dtype: str = "float32") -> Any:
    return np.random.default_rng([seed, *shape]).uniform(low, high, shape).astype(dtype)


def feeds_of(graph: Graph, extents: Mapping[str, int] | None = None, seed: int = 7) -> dict[str, Any]:
    """Random feeds for the graph's inputs; symbolic extents are 2 unless given."""
    rng, feeds = np.random.default_rng(seed), {}
    for value in graph.inputs:
        assert isinstance(value.type, TensorType) and value.type.shape is not None
        shape = [d if isinstance(d, int) else (extents or {}).get(str(d), 2) for d in value.type.shape]
        dtype = value.type.dtype
        if dtype.kind == "float":
            feeds[value.name] = rng.uniform(-2, 2, shape).astype(dtype.numpy)
        else:
            feeds[value.name] = rng.integers(0, 2, shape).astype(dtype.numpy)
    return feeds


def evaluate(graph: Graph, feeds: Feeds) -> dict[str, Any]:
    return Interpreter(graph, find).run(feeds)


def ops(graph: Graph) -> list[str]:
    """Operators in order."""
    return [node.op for node in graph]


def run_pass(graph: Graph, name: str, **options: Any) -> PassResult:
    """One run of one pass, checks on, refusals kept."""
    infer(graph)
    verify(graph, find)
    context = PassContext(trace=True, **options)
    assert PASSES[name].allowed(context), f"{name} is not allowed"
    return PASSES[name].run(graph, context)


def fires(
    build: Build, name: str, changes: int, left: list[str] | int, *, feeds: Feeds | None = None, exact: bool = False,
    **options: Any,
) -> Graph:  # fmt: skip
    """The pass makes so many changes and leaves these operators (or so many nodes); numbers and names stay.

    `exact`: every bit stays. A second run changes nothing.
    """
    graph = build()
    infer(graph)
    feeds = feeds_of(graph) if feeds is None else feeds
    names = [v.name for v in graph.outputs]
    before = evaluate(graph, feeds)
    result = run_pass(graph, name, **options)
    assert len(result.changes) == changes, (result.changes, result.refusals)
    assert (count_nodes(graph) if isinstance(left, int) else ops(graph)) == left
    assert [v.name for v in graph.outputs] == names
    after = evaluate(graph, feeds)
    same_numbers(list(after.values()), list(before.values()), exact)
    assert not run_pass(graph, name, **options).changes, "a second run changes something"
    return graph


def refuses(build: Build, name: str, reason: str | None, **options: Any) -> None:
    """The pass leaves the graph alone and says why (None: it has nothing to say)."""
    graph = build()
    result = run_pass(graph, name, **options)
    assert not result.changes, result.changes
    reasons = [r.reason for r in result.refusals]
    if reason is not None:
        assert any(reason in r for r in reasons), reasons


def same_numbers(actual: list[Any], expected: list[Any], exact: bool) -> None:
    if exact:
        for a, b in zip(actual, expected, strict=True):
            assert a.dtype == b.dtype and a.shape == b.shape
            assert a.tobytes() == b.tobytes()
    else:
        result = compare_all(actual, expected)
        assert result, result.reason
