"""Inputs on the command line: numbers, files, and indices that are made up."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitopt
from jitopt.cli.feeds import make_feeds


def options(*inputs: tuple[str, str]) -> argparse.Namespace:
    return argparse.Namespace(inputs=list(inputs), shapes=[], seed=0)


@pytest.fixture
def session() -> Any:
    """Looks rows of a table of 5 up, and scales them by a number."""
    graph = jitopt.Graph("lookup")
    ids, scale = graph.input("ids", "int64", (1, 64)), graph.input("scale", "float32", ())
    table = graph.constant(np.random.default_rng(0).random((5, 3), np.float32))
    graph.output(graph.add("Mul", [graph.add("Gather", [table, ids]), scale]))
    return jitopt.compile(graph)


def test_a_number_is_an_input(session: Any) -> None:
    feeds = make_feeds(session.get_inputs(), options(("scale", "2.5"), ("ids", "3")))
    assert feeds["scale"] == np.float32(2.5) and feeds["scale"].shape == ()
    assert feeds["ids"].dtype == np.int64 and (feeds["ids"] == 3).all()


def test_a_file_of_that_name_comes_first(session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with Path("2.5").open("wb") as file:
        np.save(file, np.float32(7))
    assert make_feeds(session.get_inputs(), options(("scale", "2.5")))["scale"] == 7


def test_indices_are_random_and_legal(session: Any) -> None:
    assert session.index_bounds() == {"ids": 5}
    ids = make_feeds(session.get_inputs(), options(), below=session.index_bounds())["ids"]
    assert set(np.unique(ids)) == set(range(5))
