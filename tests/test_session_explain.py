"""What a session tells of its insides: explain, kernels, memory."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

import jitopt
from jitopt import ShapeError
from tests.networks import convolutional, floats
from tests.test_fusion_report import with_a_host_step

KEYS = {
    "original_ops", "optimized_ops", "reduction", "original_types", "optimized_types", "fused_ops", "groups",
    "host_steps", "passes", "compile_seconds",
}  # fmt: skip


@pytest.fixture(scope="module")
def session() -> Any:
    return jitopt.compile(convolutional())


@pytest.fixture(scope="module")
def hosted() -> Any:
    return jitopt.compile(with_a_host_step())


def test_explanations_as_plain_data(session: Any) -> None:
    found = session.explain().as_dict()
    assert found.keys() >= KEYS
    json.dumps(found)
    assert found["original_types"] == dict(sorted(Counter(node.op for node in convolutional()).items()))
    assert found["original_ops"] == len(convolutional()) == 11
    assert found["optimized_ops"] == sum(found["optimized_types"].values()) == 5
    assert found["reduction"] == pytest.approx(1 - 5 / 11)
    assert found["optimized_types"] == {
        "Conv+Relu": 1, "Conv+Relu+Add": 1, "Gemm": 1, "GlobalAveragePool": 1, "Softmax": 1
    }  # fmt: skip
    assert found["fused_ops"] == 5 and found["host_steps"] == []
    assert {"fold-batchnorm"} <= {p["name"] for p in found["passes"]}
    assert all(p["changes"] > 0 and p["seconds"] >= 0 for p in found["passes"])


def test_groups_name_their_kernels(session: Any) -> None:
    found = session.explain().as_dict()
    keys = {kernel.key for kernel in session.kernels}
    assert {group["kernel"] for group in found["groups"]} == keys == set(found["compile_seconds"])
    assert found["kernels_compiled"] == len(keys) and all(s > 0 for s in found["compile_seconds"].values())
    names = {node.name for node in session._model.graph}
    for group in found["groups"]:
        assert set(group["members"]) <= names and len(group["members"]) == len(group["operators"])
    assert found["kernels_run"] + found["reorders_run"] == len(found["groups"])


def test_host_steps_say_why(hosted: Any) -> None:
    found = hosted.explain().as_dict()
    (step,) = found["host_steps"]
    assert (step["node"], step["operator"]) == ("running", "CumSum") and "no kernel" in step["reason"]
    assert found["optimized_types"]["CumSum"] == 1
    assert sum(found["optimized_types"].values()) == found["optimized_ops"] == 3


def test_explanations_as_text(session: Any, hosted: Any) -> None:
    text = str(session.explain())
    assert "11 operators became 5 steps" in text and "fold-batchnorm" in text and "Conv + Relu + Add" in text
    assert "CumSum" in str(hosted.explain()) and "host steps" in str(hosted.explain())


def test_kernels_have_source_and_assembly(session: Any) -> None:
    kernels = session.kernels
    templates = [group["template"] for group in session.explain().as_dict()["groups"]]
    assert [k.template for k in kernels] == templates and templates[2:] == ["rows", "gemm", "rows"]
    assert sum(k.steps for k in kernels) == len(session.explain().groups)
    for kernel in kernels:
        assert "def kernel(args, tid, nthreads):" in kernel.source
        compile(kernel.source, "kernel", "exec")
        assert kernel.path is not None and kernel.path.read_text() == kernel.source
        assert kernel.key[:16] in repr(kernel)
    assembly = kernels[2].assembly
    assert f"k_{kernels[2].key}" in assembly and "ret" in assembly


def test_memory(session: Any) -> None:
    with pytest.raises(ShapeError, match="'n' is not known"):
        jitopt.compile(convolutional()).memory()
    sizes = {}
    for images in (1, 4):
        found = session.memory({"x": floats(images, 3, 8, 8)})
        sizes[images] = found
        assert 0 < found.lower_bound_bytes <= found.pool_bytes <= found.unshared_bytes
        for name, offset, size in found.placement:
            assert offset >= 0 and offset + size <= found.pool_bytes, name
        assert f"pool {found.pool_bytes:,} bytes" in str(found)
    assert sizes[4].pool_bytes > sizes[1].pool_bytes and sizes[4].weight_bytes == sizes[1].weight_bytes
    session.run(None, {"x": floats(4, 3, 8, 8)})
    assert session.memory() == sizes[4]
    weights = {id(b.array): b.array.nbytes for b in session._program.constants}
    assert sizes[1].weight_bytes == sum(weights.values())


def test_memory_of_static_shapes_needs_no_feeds() -> None:
    graph = with_a_host_step()
    graph.inputs[0].type = graph.inputs[0].tensor.with_shape((6, 4))
    session = jitopt.compile(graph)
    before = session.memory()
    session.run(None, {"x": floats(6, 4)})
    assert session.memory() == before
