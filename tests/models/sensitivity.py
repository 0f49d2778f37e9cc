"""Could the comparison of a model's answers fail? Measured on the reference alone, in tolerances."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import onnx

from bench import inputs, models
from jitopt.verify import compare

from . import surgery
from .reference import Feeds, Reference

ENOUGH = 10.0  # tolerances


@dataclass(frozen=True)
class Sensitivity:
    """`differences`: by output, how far the answers to two inputs are apart, for the two that differ most.

    `movements`: by convolution or matmul (first, middle, last), how far zeroing a sixteenth of its output channels
    moves the answer, for the input on which it moves least. `scales`: by output, the largest value over all inputs.
    """

    differences: dict[str, float]
    movements: dict[str, float]
    scales: dict[str, float]

    @property
    def different(self) -> bool:
        """Every output differs enough between two inputs."""
        return min(self.differences.values()) >= ENOUGH

    @property
    def moved(self) -> bool:
        """Every one of the zeroings moves the answer enough."""
        return min(self.movements.values()) >= ENOUGH


def answers(graph: onnx.GraphProto) -> list[str]:
    """What is compared: the graph's outputs, and what a final Softmax or Sigmoid is applied to."""
    outputs = [output.name for output in graph.output]
    return outputs + [name for name in surgery.before_activations(graph) if name not in outputs]


def measure(name: str) -> Sensitivity:
    """The sensitivity of a model of the manifest on its inputs; Ifs are replaced by the branch the inputs take."""
    feeds = inputs.inputs(name)
    model = surgery.without_ifs(onnx.load(models.load(name)), feeds[0])
    return measure_model(model, feeds)


def measure_model(model: onnx.ModelProto, feeds: list[Feeds]) -> Sensitivity:
    """The same of a model without Ifs, on the given feeds."""
    names = answers(model.graph)
    nodes = surgery.first_middle_last(surgery.weighted_nodes(model.graph))
    raw = [f"raw:{node.output[0]}" for node in nodes]
    masked = Reference(surgery.masked(model, nodes), names + raw)
    ones = {f"mask:{node.output[0]}": np.ones(1, np.float32) for node in nodes}
    base = [masked.run({**feed, **ones}) for feed in feeds]

    differences = {
        name: max(_distance(a[index], b[index]) for a, b in itertools.combinations(base, 2))
        for index, name in enumerate(names)
    }
    movements: dict[str, float] = {}
    for index, node in enumerate(nodes):
        mask = np.ones(surgery.mask_shape(node, base[0][len(names) + index].shape), np.float32)
        mask[: max(1, len(mask) // 16)] = 0
        zeroed = {**ones, f"mask:{node.output[0]}": mask}
        moved = [masked.run({**feed, **zeroed})[: len(names)] for feed in feeds]
        movements[node.output[0]] = min(
            max(compare(a, b).tolerances for a, b in zip(now, was, strict=False))
            for now, was in zip(moved, base, strict=True)
        )
    scales = {name: max(float(np.abs(each[index]).max()) for each in base) for index, name in enumerate(names)}
    return Sensitivity(differences, movements, scales)


def _distance(a: np.ndarray, b: np.ndarray) -> float:
    """In tolerances; answers of different shapes say nothing here."""
    return compare(a, b).tolerances if a.shape == b.shape else 0.0
