"""Reshape, Transpose, Reshape of blocked channels is one copy that stays blocked; what only looks like it is not."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import jitopt
from jitopt.ir.graph import Value
from tests.lower.test_concat_views import BATCHES, Net, check, floats


def shuffled(net: Net, x: Value, channels: int, groups: int, *, size: int = 6, **changes: Any) -> Value:
    perm = changes.get("perm", [0, 2, 1, 3, 4])
    split = net.add("Reshape", x, net.ints(*changes.get("split", (0, groups, channels // groups, size, size))))
    turned = net.add("Transpose", split, perm=perm)
    if changes.get("inner"):
        net.graph.output(net.add("Neg", turned), "inner")
    return net.add("Reshape", turned, net.ints(*changes.get("back", (-1, channels, size, size))))  # type: ignore[no-any-return]


def templates(session: jitopt.Session) -> Counter[str]:
    return Counter(step.spec.template for step in session._program.steps)


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize(("channels", "groups"), [(12, 3), (12, 4), (40, 5), (24, 24), (136, 4), (7, 1)])
def test_a_shuffle_between_convolutions_is_one_copy(batch: str, channels: int, groups: int) -> None:
    dim, sizes = BATCHES[batch]
    for size in sizes:
        net = Net(dim)
        y = shuffled(net, net.add("Sigmoid", net.conv(net.wide, 16, channels)), channels, groups)
        y = net.add("Conv", y, net.graph.constant(floats(channels, 1, 3, 3)), group=channels)
        net.graph.output(net.add("GlobalAveragePool", y), "y")
        found = templates(check(net.graph, {"x": floats(size, 16, 6, 6)}, copies=0))
        assert (found["shuffle"], found["copy"]) == ((0, 0) if groups in (1, channels) else (1, 0))


@pytest.mark.parametrize("batch", BATCHES)
def test_a_shuffle_reads_and_writes_parts(batch: str) -> None:
    """ShuffleNet's second unit: join, shuffle, split, join, with a shuffle among the parts; the last is an output."""
    dim, sizes = BATCHES[batch]
    for size in sizes:
        net = Net(dim, size=17)  # more than a chunk of positions
        joined = net.concat(net.conv(net.wide, 16, 24), net.conv(net.wide, 16, 8))
        one, other = net.graph.add("Split", [shuffled(net, joined, 32, 2, size=17)], axis=1, num_outputs=2, outputs=2)
        again = net.concat(net.conv(one, 16, 8), shuffled(net, net.conv(other, 16, 8), 8, 2, size=17))
        net.graph.output(shuffled(net, again, 16, 8, size=17), "y")
        found = templates(check(net.graph, {"x": floats(size, 16, 17, 17)}, copies=0))
        assert (found["shuffle"], found["copy"]) == (3, 0)


LOOKALIKES: dict[str, dict[str, Any]] = {
    "another order": {"perm": [0, 2, 1, 4, 3]},
    "another shape": {"back": (-1, 24, 9, 4)},
    "another split": {"split": (0, 4, 6, 12, 3), "back": (-1, 24, 12, 3)},
    "another reader": {"inner": True},
}


@pytest.mark.parametrize("name", LOOKALIKES)
def test_what_only_looks_like_a_shuffle_is_carried_out(name: str) -> None:
    net = Net()
    net.graph.output(net.add("Abs", shuffled(net, net.conv(net.wide, 16, 24), 24, 4, **LOOKALIKES[name])), "y")
    assert templates(check(net.graph, {"x": floats(1, 16, 6, 6)}, copies=0))["shuffle"] == 0


def test_a_row_major_shuffle_stays_as_it_is() -> None:
    net = Net()
    y = shuffled(net, net.add("Relu", net.x), 16, 4)
    net.graph.output(net.add("CumSum", y, net.ints(1)), "y")
    found = templates(check(net.graph, {"x": np.abs(floats(1, 16, 6, 6))}, copies=0))
    assert (found["shuffle"], found["copy"]) == (0, 1)
