"""Random operators: the distributions they promise, and seeds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jitopt.errors import ModelError
from jitopt.ops import find
from jitopt.ops.operator import Sample
from tests.ops import oracle

Array = np.ndarray[Any, Any]


def draw(name: str, *inputs: Array, **attrs: Any) -> Array:
    operator = find(name)
    assert operator is not None
    _, (found,) = oracle.run_ours(oracle.Case(operator, 22, Sample(inputs, attrs)))
    return np.asarray(found)


def test_moments() -> None:
    normal = draw("RandomNormal", shape=[200, 200], mean=3.0, scale=0.5)
    assert abs(normal.mean() - 3.0) < 0.02 and abs(normal.std() - 0.5) < 0.02
    uniform = draw("RandomUniformLike", np.zeros((200, 200), np.float32), low=-2.0, high=4.0)
    assert -2.0 <= uniform.min() < -1.99 and 3.99 < uniform.max() <= 4.0 and abs(uniform.mean() - 1.0) < 0.05
    assert abs(draw("Bernoulli", np.full((200, 200), 0.3, np.float32), dtype=7).mean() - 0.3) < 0.02


def test_multinomial_draws_by_probability() -> None:
    logits = np.log(np.array([[0.1, 0.6, 0.3], [8.0, 1.0, 1.0]], np.float32))
    drawn = draw("Multinomial", logits, sample_size=20000, dtype=7)
    for row, expected in zip(drawn, ([0.1, 0.6, 0.3], [0.8, 0.1, 0.1]), strict=True):
        assert np.abs(np.bincount(row, minlength=3) / 20000 - expected).max() < 0.02


def test_a_seed_repeats_and_its_absence_does_not() -> None:
    assert np.array_equal(draw("RandomNormal", shape=[9], seed=4.0), draw("RandomNormal", shape=[9], seed=4.0))
    assert not np.array_equal(draw("RandomNormal", shape=[9]), draw("RandomNormal", shape=[9]))
    assert not np.array_equal(draw("RandomNormal", shape=[9], seed=4.0), draw("RandomNormal", shape=[9], seed=5.0))


def test_integers_have_no_normal_distribution() -> None:
    with pytest.raises(ModelError, match="int64"):
        draw("RandomNormalLike", np.zeros(3, np.int64))
