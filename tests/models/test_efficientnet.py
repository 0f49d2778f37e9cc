"""Building EfficientNet-Lite0 from its checkpoint."""

from __future__ import annotations

import collections
import io
import os
import pickle

import numpy as np
import onnx
import pytest

from bench import efficientnet, inputs, models
from jitopt.verify import compare

from .reference import reference


def test_a_checkpoint_cannot_run_code() -> None:
    harmful = io.BytesIO(pickle.dumps(os.getcwd))
    with pytest.raises(pickle.UnpicklingError, match="has no place"):
        efficientnet._Reader(harmful).load()


def test_another_file_is_refused() -> None:
    with pytest.raises(ValueError, match="not a PyTorch checkpoint"):
        efficientnet.read_checkpoint(io.BytesIO(pickle.dumps(1) + pickle.dumps(2)))


def test_the_network_is_whole_and_unfolded() -> None:
    model = onnx.load(models.load("efficientnet-lite0"))
    counts = collections.Counter(node.op_type for node in model.graph.node)
    assert counts == {
        "Conv": 49,
        "BatchNormalization": 49,
        "Clip": 33,
        "Add": 9,
        "GlobalAveragePool": 1,
        "Flatten": 1,
        "Gemm": 1,
    }


def test_building_again_changes_nothing() -> None:
    built = models.load("efficientnet-lite0").read_bytes()
    again = efficientnet.build(models.source(models.entry("efficientnet-lite0")))
    assert again.SerializeToString(deterministic=True) == built


def test_it_answers_like_the_export() -> None:
    for feeds in inputs.inputs("efficientnet-lite0"):
        ours = reference(models.load("efficientnet-lite0"), feeds)[0]
        assert compare(ours, reference(models.load("efficientnet-lite0-export"), feeds)[0])
        assert np.ptp(ours) > 5
