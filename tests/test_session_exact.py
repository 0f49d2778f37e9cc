"""precision="exact", compiled: fusing changes no bit, and neither do the other rows of a batch.

(The same over random graphs, by Python kernels, is in tests/test_session_random.py.)
"""

from __future__ import annotations

import numpy as np

import jitopt
from jitopt import Graph
from tests.networks import check, convolutional, floats


def test_fused_and_unfused_agree_in_every_bit() -> None:
    fused = jitopt.compile(convolutional(), precision="exact")
    unfused = jitopt.compile(convolutional(), precision="exact", disable="fusion", num_threads=3)
    assert any(len(g["members"]) > 1 for g in fused.explain().as_dict()["groups"])
    assert all(len(g["members"]) == 1 for g in unfused.explain().as_dict()["groups"])
    for images in (1, 5):
        feeds = {"x": floats(images, 3, 8, 8)}
        for a, b in zip(check(fused, convolutional(), feeds), unfused.run(None, feeds), strict=True):
            assert a.tobytes() == b.tobytes()


def test_a_row_of_a_batch_is_that_row_alone() -> None:
    """Batches of all sizes up to a whole tile and beyond, so that each row meets every tile height."""
    session = jitopt.compile(convolutional(), precision="exact")
    images = floats(17, 3, 8, 8)
    alone = [session.run(None, {"x": images[i : i + 1]})[0].tobytes() for i in range(len(images))]
    for count in range(2, len(images) + 1):
        rows = session.run(None, {"x": images[:count]})[0]
        assert [rows[i : i + 1].tobytes() for i in range(count)] == alone[:count], count


def test_denormals_survive_in_exact_mode_only() -> None:
    graph = Graph("tiny")
    graph.output(graph.add("Mul", [graph.input("x", "float32", (4,)), graph.constant(np.float32(0.5))], name="y"))
    tiny = np.array([1e-40, -1e-40, 2e-38, 1.0], np.float32)
    assert (
        jitopt.compile(graph, precision="exact").run(None, {"x": tiny})[0].tobytes()
        == (tiny * np.float32(0.5)).tobytes()
    )
    np.testing.assert_array_equal(jitopt.compile(graph).run(None, {"x": tiny})[0], np.array([0, 0, 0, 0.5], np.float32))
    assert np.float32(1e-40) * np.float32(0.5) > 0, "the caller's floating-point state is its own"
