"""Recurrent operators: every activation, the batch-first layout, sequences of length 0 and 1."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jitopt.errors import ModelError, ShapeError
from jitopt.ops import find
from jitopt.ops.operator import Operator, Sample
from jitopt.ops.recurrent import operands
from jitopt.verify import compare_all
from tests.ops import oracle

ACTIVATIONS = """Relu Tanh Sigmoid Softsign Softplus Affine ScaledTanh HardSigmoid LeakyRelu ThresholdedRelu Elu relu"""


def operator(name: str) -> Operator:
    found = find(name)
    assert found is not None
    return found


def case(name: str, inputs: list[Any], outputs: int, **attrs: Any) -> oracle.Case:
    return oracle.Case(operator(name), 14, Sample(tuple(inputs), {"hidden_size": 6, **attrs}, outputs=outputs))


@pytest.mark.parametrize("activation", ACTIVATIONS.split())
@pytest.mark.parametrize("given", [{"activation_alpha": [0.3], "activation_beta": [0.7]}, {}], ids=["given", "default"])
def test_every_activation(activation: str, given: dict[str, Any]) -> None:
    if not given and activation in ("Affine", "ScaledTanh", "ThresholdedRelu"):
        pytest.skip("ONNX Runtime takes 0 for what the standard leaves open or sets to 1")
    one = case("LSTM", operands(4, 1, states=2), 3, activations=["Sigmoid", activation, "Tanh"], **given)
    _, ours = oracle.run_ours(one)
    assert (found := compare_all(ours, oracle.run_onnxruntime(one))), found.reason


@pytest.mark.parametrize(("name", "gates", "states"), [("RNN", 1, 1), ("GRU", 3, 1), ("LSTM", 4, 2)])
def test_batch_first_is_the_same_with_the_axes_swapped(name: str, gates: int, states: int) -> None:
    x, w, r, b, lengths, *initial = operands(gates, 2, states=states)
    _, plain = oracle.run_ours(case(name, [x, w, r, b, lengths, *initial], states + 1, direction="bidirectional"))
    swapped = [np.ascontiguousarray(a.swapaxes(0, 1)) for a in (x, *initial)]
    inputs = [swapped[0], w, r, b, lengths, *swapped[1:]]
    graph, found = oracle.run_ours(case(name, inputs, states + 1, direction="bidirectional", layout=1))
    assert [v.shape for v in graph.outputs] == [a.shape for a in found]
    y, *finals = plain
    assert compare_all(found, [y.transpose(2, 0, 1, 3), *(f.swapaxes(0, 1) for f in finals)])


def test_a_long_sequence_beside_short_ones_equals_each_alone() -> None:
    x, w, r, b, _, h, c = operands(4, 2, states=2)
    lengths = np.array([5, 1, 3], np.int32)
    _, (y, y_h, y_c) = oracle.run_ours(case("LSTM", [x, w, r, b, lengths, h, c], 3, direction="bidirectional"))
    for i, n in enumerate(lengths):
        alone = [x[:n, i : i + 1], w, r, b, None, h[:, i : i + 1], c[:, i : i + 1]]
        _, found = oracle.run_ours(case("LSTM", alone, 3, direction="bidirectional"))
        assert compare_all(found, [y[:n, :, i : i + 1], y_h[:, i : i + 1], y_c[:, i : i + 1]])
        assert not y[n:, :, i].any()


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"activations": ["Tanh"] * 3}, ModelError, "3 activations"),
        ({"direction": "sideways"}, ModelError, "sideways"),
        ({"hidden_size": 5}, ShapeError, "W of shape"),
        ({"direction": "bidirectional"}, ShapeError, "W of shape"),
        ({"clip": -1.0}, ModelError, "clip"),
    ],
)
def test_what_does_not_fit_is_refused(change: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        oracle.build_graph(case("GRU", operands(3, 1)[:4], 2, **change))
