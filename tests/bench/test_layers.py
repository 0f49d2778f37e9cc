"""Single layers: read off a model, built again, measured, shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench import layer_shapes, layer_tables, layers
from bench.adapters import CONTESTANTS, Contestant, installed
from bench.layer_shapes import Layer
from jitopt.demo import digits
from jitopt.ir.graph import Graph
from jitopt.peer import interpret

STRIDED = Layer(
    "Conv", (1, 8, 9, 7), (12, 2, 3, 3), (1, 12, 5, 4), (("group", 4), ("pads", (1,) * 4), ("strides", (2, 2)))
)


def test_layers_of_a_model() -> None:
    graph, images, _ = digits.load()
    found = layer_shapes.layers_in(graph, {"image": images[:1, None].astype(np.float32)})
    assert sum(found.values()) == 4 and all(layer.op == "Conv" and layer.x[0] == 1 for layer in found)
    first = next(iter(found))
    assert first.x == (1, 1, 8, 8) and first.w[1:] == (1, 3, 3) and first.y[2:] == (8, 8)
    assert first.name == f"3x3 1->{first.w[0]} 8x8"


def test_equal_layers_are_one_whatever_defaults_they_spell_out() -> None:
    graph = Graph("two")
    x = graph.input("x", "float32", (1, 4, 5, 5))
    weight = graph.constant(np.zeros((4, 4, 3, 3), np.float32))
    y = graph.add("Conv", [x, weight], pads=(1, 1, 1, 1))
    y = graph.add(
        "Conv", [y, weight], pads=(1, 1, 1, 1), kernel_shape=(3, 3), strides=(1, 1), dilations=(1, 1), group=1
    )
    graph.output(graph.add("Conv", [y, weight], pads=(1, 1, 1, 1), strides=(1, 2)))
    found = layer_shapes.layers_in(graph, {"x": np.zeros((1, 4, 5, 5), np.float32)})
    assert {layer.name: count for layer, count in found.items()} == {"3x3 4->4 5x5": 2, "3x3 4->4 5x5/1x2": 1}


def test_a_layer_is_what_its_shapes_say() -> None:
    assert STRIDED.name == "3x3 8->12 9x7/2 g4"
    assert STRIDED.flops == 2 * (2 * 9) * (12 * 5 * 4) and STRIDED.bytes_touched == 4 * (12 * 2 * 9 + 12 * 5 * 4)
    first, second = (interpret(STRIDED.graph(seed), STRIDED.feeds())[0] for seed in (0, 1))
    assert first.shape == STRIDED.y and not np.allclose(first, second)


def test_a_transposed_layer() -> None:
    layer = Layer("ConvTranspose", (1, 3, 4, 4), (3, 5, 2, 2), (1, 5, 8, 8), (("strides", (2, 2)),))
    assert layer.name == "transposed 2x2 3->5 4x4/2" and layer.flops == 2 * (3 * 16) * (5 * 4)
    assert interpret(layer.graph(0), layer.feeds())[0].shape == layer.y


def test_copies_fill_the_last_cache() -> None:
    assert layers.copies_needed(1 << 20, 32 << 20) == 48
    assert layers.copies_needed(100 << 20, 32 << 20) == 2
    assert layers.copies_needed(1 << 10, 32 << 20) == 0


def test_the_last_cache(tmp_path: Path) -> None:
    assert layers.last_cache(tmp_path) == 32 << 20
    for index, size in enumerate(("32K", "512K", "16M")):
        (tmp_path / f"index{index}").mkdir()
        (tmp_path / f"index{index}" / "size").write_text(size + "\n")
    assert layers.last_cache(tmp_path) == 16 << 20


def test_runs_in_turn() -> None:
    log: list[int] = []
    call = layers.in_turn([lambda i=i: log.append(i) for i in range(3)])  # type: ignore[misc]
    for _ in range(4):
        call()
    assert log == [0, 1, 2, 0, 1, 2, 0]


def test_one_layer_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layers, "last_cache", lambda: 2 * STRIDED.bytes_touched)
    names = installed(["jitopt", "onnxruntime"])
    found = layers.one_layer(STRIDED, 1, names, 0.0)
    assert found["remark"] == "" and found["copies"] == 3
    for state in ("warm", "cold"):
        assert set(found[state]["runs"]) == set(names) and found[state]["kernel"] > 0
        assert min(found[state]["runs"].values()) > 0


def test_who_refuses_a_layer_is_told_and_the_others_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> Any:
        raise RuntimeError("no such layer")

    monkeypatch.setitem(CONTESTANTS, "refuser", Contestant("refuser", "refuser", (), refuse))
    monkeypatch.setattr(layers, "MOST", 0)
    found = layers.one_layer(STRIDED, 1, ["jitopt", "refuser"], 0.0)
    assert found["absent"] == {"refuser": "RuntimeError: no such layer"}
    assert set(found["warm"]["runs"]) == {"jitopt"} and found["warm"]["ratio"] is None and "cold" not in found


def test_tables() -> None:
    state: dict[str, Any] = {"kernel": 1e-3, "runs": {"jitopt": 2e-3, "onnxruntime": 1e-3}, "ratio": 0.5, "best": "x"}
    row = {"layer": "1x1", "models": {"a": 1, "b": 2}, "threads": 1, "flops": 5e7, "remark": "", "warm": state}
    found = {
        "machine": {"peaks": [{"threads": 1, "fma_gflops": 100.0}]}, "missing": {},
        "rows": [row, {"layer": "bad", "models": {}, "threads": 1, "flops": 1.0, "remark": "differs"}],
    }  # fmt: skip
    assert layer_tables.kernels(found, 1).splitlines()[2:] == [
        "| 1x1 | a, b 2x | 50.0 | 1000.0 | 50.0 | 50% |  |  |  |"
    ]
    assert layer_tables.runs(found, 1).splitlines()[2:] == [
        "| 1x1 | 2000.0 | 1000.0 | 0.50 |  |  |  |",
        "| geometric mean |  |  | 0.50 |  |  |  |",
    ]
    assert layer_tables.line(row) == "1x1, 1 thread: warm 50.0 GFLOP/s, ratio 0.50"
    assert layer_tables.line(found["rows"][1]) == "bad, 1 thread: differs"  # type: ignore[index]
