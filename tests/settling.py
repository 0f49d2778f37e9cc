"""Models whose answers the check behind default precision looks at, and what it makes of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jitopt import Graph, evidence
from jitopt import settle as settle_module
from jitopt.codegen.cache import Cache
from jitopt.codegen.host import choose_target
from jitopt.ir.clone import clone
from jitopt.model import CompiledModel, ModelOptions, compile_model
from jitopt.runtime.executor import Executor
from jitopt.settle import Maker, settle
from tests.networks import N, floats

OPTIONS = ModelOptions(choose_target(None))


def block(mean: float, gamma: float = 1.0, name: str = "block") -> Graph:
    """A 1x1 convolution of [1, 8, 4, 4] with whole weights, the first channel's 1000, and its BatchNormalization."""
    graph = Graph(name)
    x = graph.input("x", "float32", (1, 8, 4, 4))
    weight = np.random.default_rng(1).integers(-4, 5, (8, 8, 1, 1)).astype(np.float32)
    weight[:, 0] = 1000
    vectors = (np.full(8, v, np.float32) for v in (gamma, 0, mean, 9))
    y = graph.add("Conv", [x, graph.constant(weight, "weight")], name="conv")
    graph.output(graph.add("BatchNormalization", [y, *(graph.constant(v) for v in vectors)], name="norm"), "y")
    return graph


def cancelling(name: str = "cancelling") -> Graph:
    """Folding loses what matters: sums of a million, exact in float32, are reduced by their mean before they scale."""
    return block(1e6, name=name)


def looked_up() -> Graph:
    """Rows of a table of 5, scaled behind a product; the number of rows is free, the rows are an input."""
    graph = Graph("looked up")
    rows = graph.input("rows", "int64", (N,))
    chosen = graph.add("Gather", [graph.constant(floats(5, 8)), rows])
    product = graph.add("MatMul", [chosen, graph.constant(floats(8, 8))])
    graph.output(graph.add("Mul", [product, graph.constant(floats(8, seed=1))]), "y")
    graph.output(chosen, "chosen")
    return graph


def whole_feeds(seed: int = 0) -> dict[str, Any]:
    """Feeds with which every sum of `cancelling` is a whole number near a million."""
    x = np.random.default_rng(seed).integers(-8, 9, (1, 8, 4, 4)).astype(np.float32)
    x[:, 0] = 1000
    return {"x": x}


def maker(graph: Graph) -> Maker:
    """How `compile` makes models and executors; kernels come from the default cache."""

    def model(options: ModelOptions) -> CompiledModel:
        return compile_model(clone(graph), options, cache=Cache.default())

    def executor(compiled: CompiledModel) -> Executor:
        return Executor(compiled.program, compiled.addresses(), 1, max_memory=compiled.options.max_memory)

    return Maker(model, executor)


def settled(graph: Graph, cache: Cache | None = None, options: ModelOptions = OPTIONS, **more: Any) -> CompiledModel:
    """What `settle` makes of a graph; verdicts come from `cache`."""
    make = maker(graph)
    return settle(make.model(options), graph, make, cache=cache, **more)


def counting(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """From now on one entry a check: the caller's feeds, or None for generated ones."""
    made: list[Any] = []

    def gather(graph: Graph, feeds: Any, *rest: Any) -> Any:
        made.append(feeds)
        return evidence.gather(graph, feeds, *rest)

    monkeypatch.setattr(settle_module, "gather", gather)
    return made
