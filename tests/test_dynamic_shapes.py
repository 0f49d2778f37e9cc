"""One session serves every input shape: right each time, with the kernels it was compiled with."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import jitopt
from bench import inputs, models
from bench.models import NotFetched
from jitopt.verify import compare
from tests.models.reference import Reference
from tests.networks import check, convolutional, floats, mixed


def sessions_of(name: str) -> tuple[Any, Reference, list[inputs.Sample]]:
    try:
        path = models.load(name)
        samples = inputs.samples(name)
    except NotFetched as reason:
        pytest.skip(str(reason))
    return jitopt.compile(path), Reference(path), samples


def shapes_in_turn(name: str, key: str, first: tuple[int, ...], second: tuple[int, ...]) -> None:
    session, reference, samples = sessions_of(name)
    by_shape = {sample.feeds[key].shape: dict(sample.feeds) for sample in samples}
    by_shape.setdefault(second, {k: np.ascontiguousarray(v[:, : second[1]]) for k, v in samples[0].feeds.items()})
    compiled = {kernel.key for kernel in session.kernels}
    addresses = session._model.addresses()
    for shape in (first, second, first):
        feeds = by_shape[shape]
        for ours, theirs in zip(session.run(None, feeds), reference.run(feeds), strict=True):
            verdict = compare(ours, theirs)
            assert verdict, f"{shape}: {verdict.reason}"
    assert {kernel.key for kernel in session.kernels} == compiled
    assert session._model.addresses() == addresses and len(session._model.library) == len(compiled)


def test_ocr_detection_at_two_sizes() -> None:
    shapes_in_turn("ocr-det", "x", (1, 3, 640, 640), (1, 3, 320, 480))


def test_minilm_at_two_lengths() -> None:
    shapes_in_turn("minilm-l3", "input_ids", (1, 128), (1, 17))


def test_small_networks_at_many_sizes() -> None:
    network, sequence = jitopt.compile(convolutional()), jitopt.compile(mixed())
    for extent in (1, 7, 2, 40, 1, 3, 0):
        if extent:
            check(network, convolutional(), {"x": floats(extent, 3, 8, 8)})
            check(sequence, mixed(), {"x": floats(extent, 20), "i": np.arange(extent) % 5})
        else:
            assert network.run(None, {"x": floats(0, 3, 8, 8)})[0].shape == (0, 10)


def test_plans_are_kept_for_shapes_met_lately() -> None:
    from jitopt.runtime.executor import MAX_FRAMES

    session = jitopt.compile(convolutional())
    for images in range(1, MAX_FRAMES + 5):
        session.run(None, {"x": floats(images, 3, 8, 8)})
        session.run(None, {"x": floats(1, 3, 8, 8)})  # met again and again, so it stays
    kept = [key[0][0] for key in session._executor._frames]
    assert len(kept) == MAX_FRAMES and kept[-1] == 1 and kept[-2] == MAX_FRAMES + 4


def test_shapes_of_several_threads() -> None:
    session = jitopt.compile(mixed())
    expected: dict[int, Any] = {}
    for length in range(1, 9):
        expected[length] = session.run(None, {"x": floats(length, 20), "i": np.arange(length) % 5})
    failures: list[str] = []

    def work(start: int) -> None:
        for turn in range(24):
            length = 1 + (start + turn) % 8
            found = session.run(None, {"x": floats(length, 20), "i": np.arange(length) % 5})
            if any(not np.array_equal(a, b) for a, b in zip(found, expected[length], strict=True)):
                failures.append(f"{length} in thread {start}")

    threads = [threading.Thread(target=work, args=(start,)) for start in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
