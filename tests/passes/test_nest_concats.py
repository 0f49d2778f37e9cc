"""Concats of what other Concats join are nested, the longest first; neighbours in another order or axis are not."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from jitopt.ir.graph import Graph
from tests.passes.helpers import fires, refuses


def joining(*lists: str, axes: Sequence[int] = ()) -> Graph:
    """Concats of the parts whose letters are listed, along axis 1 unless given."""
    graph = Graph("g")
    parts = {name: graph.add("Neg", [graph.input(name, "float32", (2, 3, 3))]) for name in "abcd"}
    for index, names in enumerate(lists):
        axis = axes[index] if axes else 1
        graph.output(graph.add("Concat", [parts[n] for n in names], axis=axis, name=names), f"y{index}")
    return graph


@pytest.mark.parametrize(
    ("lists", "changes", "sizes"),
    [
        (("ab", "abc", "abcd"), 2, [2, 2, 2]),
        (("bc", "abcd"), 1, [2, 3]),
        (("ab", "abab"), 2, [2, 2]),
        (("ab", "bc", "abc"), 1, [2, 2, 2]),
        (("aa", "aaa"), 1, [2, 2]),
    ],
    ids=str,
)
def test_runs_of_parts_are_taken_from_the_concat_that_joins_them(
    lists: tuple[str, ...], changes: int, sizes: list[int]
) -> None:
    graph = fires(lambda: joining(*lists), "nest-concats", changes, 4 + len(lists), exact=True)
    assert sorted(len(n.inputs) for n in graph if n.op == "Concat") == sorted(sizes)


def test_an_axis_may_be_counted_from_the_back() -> None:
    fires(lambda: joining("ab", "abc", axes=(-2, 1)), "nest-concats", 1, 6, exact=True)


@pytest.mark.parametrize(
    ("lists", "axes"),
    [(("ab", "bac"), (1, 1)), (("ab", "acb"), (1, 1)), (("ab", "abc"), (1, 2)), (("a", "ab"), (1, 1))],
)
def test_other_concats_stay(lists: tuple[str, ...], axes: tuple[int, ...]) -> None:
    refuses(lambda: joining(*lists, axes=axes), "nest-concats", None)
