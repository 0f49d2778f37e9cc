"""Values that lie image for image inside others are read and written right along every axis; windows may be empty."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import jitopt
from jitopt.errors import CompileError
from jitopt.ir.dims import Dim, symbol
from jitopt.ir.graph import Value
from jitopt.runtime.text import describe_plan
from jitopt.runtime.verifier import verify_plan
from tests.lower.test_concat_views import Rows, check, floats

M = symbol("m")
ROWS: tuple[Dim, ...] = (1, M)  # half of the images


def in_place(session: jitopt.Session) -> int:
    """Results that kernels store in a Concat's place."""
    return session.explain().as_dict()["parts_in_place"]  # type: ignore[no-any-return]


def cut(net: Rows, x: Value, axis: int, first: int, last: int, step: int = 1) -> Value:
    return net.add("Slice", x, *map(net.ints, (first, last, axis, step)))  # type: ignore[no-any-return]


def split(net: Rows, x: Value, axis: int) -> list[Value]:
    return net.graph.add("Split", [x], axis=axis, num_outputs=2, outputs=2)  # type: ignore[no-any-return]


def moved(net: Rows, x: Value) -> list[Value]:
    """Every operator of the template "copy" on [2 * m, 4, 6], along every axis."""
    found = [net.add("Transpose", x, perm=list(order)) for order in ((1, 0, 2), (0, 2, 1), (2, 1, 0))]
    found += [net.concat(x, x, axis=axis) for axis in range(3)]
    found += [part for axis in range(3) for part in split(net, x, axis)]
    found += [cut(net, x, axis, 1, 9) for axis in range(3)]
    found += [cut(net, x, axis, -1, -9, -1) for axis in range(3)]
    found += [net.add("Tile", x, net.ints(*np.roll([2, 1, 1], axis))) for axis in range(3)]
    return [*found, net.add("Expand", x, net.ints(3, 1, 1, 1))]


def folded(net: Rows, x: Value) -> list[Value]:
    """Pointwise and row kernels; rows along the images need them in one piece."""
    found = [net.add("ReduceSum", x, net.ints(*axes), keepdims=0) for axes in ((1,), (2,), (1, 2))]
    found += [net.add("Softmax", x, axis=axis) for axis in (1, 2)]
    return [*found, net.add("Sigmoid", x), net.add("Add", x, net.graph.constant(floats(4, 1)))]


@pytest.mark.parametrize("rows", ROWS, ids=str)
@pytest.mark.parametrize("read", [moved, folded])
def test_parts_apart_are_read_along_every_axis(read: Callable[[Rows, Value], list[Value]], rows: Dim) -> None:
    net = Rows(2 * rows, 4, 6)
    net.graph.input("half", "float32", (rows,))  # an extent by itself must be some input's
    net.graph.output(net.add("Neg", net.concat(net.left, net.right)), "joined")
    for index, y in enumerate(read(net, net.right)):
        net.graph.output(y, f"y{index}")
    m = 3 if rows is M else 1
    feeds = {"x": floats(2 * m, 4, 6), "half": floats(m)}
    assert in_place(check(net.graph, feeds, copies=12 * (read is moved))) == 2


@pytest.mark.parametrize("rows", ROWS, ids=str)
def test_parts_apart_are_written_along_every_axis(rows: Dim) -> None:
    """[m, 4, 6], [2 * m, 4, 6] and [4 * m, 4, 6] become parts of [2 * m, ..., 6].

    In place are all parts but the second, which holds another in one piece: of 14 four are Concats, which are not
    counted, and the other in the second is.
    """
    net = Rows(2 * rows, 4, 6)
    half, twice = (net.graph.input(name, "float32", (n * rows, 4, 6)) for name, n in (("half", 1), ("twice", 4)))
    x, one = net.x, cut(net, net.x, 1, 0, 1)
    parts = [
        net.concat(half, half, axis=0), net.concat(half, net.add("Exp", half), axis=0), net.concat(x, x, axis=1),
        net.concat(cut(net, x, 2, 0, 3), cut(net, x, 2, 2, 5), axis=2), cut(net, twice, 0, 0, 1 << 40, 2),
        cut(net, x, 0, -1, -1 << 40, -1), cut(net, x, 1, 0, 9, 2), net.add("Tile", half, net.ints(2, 1, 1)),
        net.add("Tile", x, net.ints(1, 2, 1)), net.add("Tile", cut(net, x, 2, 0, 3), net.ints(1, 1, 2)),
        net.add("Expand", one, net.ints(1, 3, 1)), net.add("Softmax", x, axis=1),
        net.add("ReduceSum", x, net.ints(1), keepdims=1), net.left,
    ]  # fmt: skip
    net.graph.output(net.add("Neg", net.concat(*parts)), "y")
    m = 3 if rows is M else 1
    feeds = {name: floats(n * m, 4, 6) for name, n in (("x", 2), ("half", 1), ("twice", 4))}
    assert in_place(check(net.graph, feeds, copies=10)) == 11


def test_a_word_that_leaves_its_part_is_refused() -> None:
    """Images of 16 bytes, 32 apart: byte 16 is another part's, where a kernel must neither begin nor end."""
    net = Rows(2, 4)
    net.graph.output(net.add("Neg", net.concat(net.left, net.right)), "joined")
    for index, y in enumerate(split(net, net.left, 0)):
        net.graph.output(y, f"y{index}")
    session = jitopt.compile(net.graph, num_threads=1)
    (plan,) = session._executor.plans([floats(2, 4)])
    described = describe_plan(session._program, plan)
    verify_plan(described)
    wrong: dict[str, tuple[Callable[[Any], Any], str]] = {
        "p1_src": (lambda place: replace(place, offset=16), "word 'p1_src' is byte 16 of '.*', which the step"),
        "y0_0": (lambda stride: stride // 2, "the loops over 'y0_at' end at byte (16|32) of '.*', which the step"),
    }  # fmt: skip
    for name, (change, message) in wrong.items():
        index, words = next((i, dict(s.words)) for i, s in enumerate(described.steps) if name in dict(s.words))
        word: Any = words[name]
        words[name] = change(word)
        steps = list(described.steps)
        steps[index] = replace(steps[index], words=tuple(words.items()))
        with pytest.raises(CompileError, match=message):
            verify_plan(replace(described, steps=tuple(steps)))


def test_windows_of_empty_windows_at_the_end() -> None:
    net = Rows(8, 30)
    none = net.graph.add("Split", [net.left, net.ints(8, 0)], outputs=2, axis=0)[1]
    for index, y in enumerate(net.graph.add("Split", [none, net.ints(16, 14)], outputs=2, axis=1)):
        net.graph.output(y, f"y{index}")
        net.graph.output(net.add("Exp", y), f"z{index}")
    net.graph.output(cut(net, cut(net, net.right, 0, 8, 8), 1, 3, 8), "corner")
    net.graph.output(net.left, "left")
    net.graph.output(net.right, "right")
    check(net.graph, {"x": floats(8, 30)}, copies=2)


@pytest.mark.parametrize("rows", [0, M], ids=str)
def test_windows_of_nothing(rows: Dim) -> None:
    """Copied, read in place, and begun past the end of what holds no byte."""
    net = Rows(rows, 30)
    for index, y in enumerate(net.graph.add("Split", [net.left, net.ints(16, 14)], outputs=2, axis=1)):
        net.graph.output(y, f"y{index}")
        net.graph.output(net.add("Exp", cut(net, net.right, 1, 16 * index, 16 + 14 * index)), f"z{index}")
    net.graph.output(net.add("MatMul", cut(net, net.left, 1, 20, 30), net.graph.constant(floats(10, 4))), "product")
    check(net.graph, {"x": floats(0, 30)}, copies=2)


def test_empty_parts_are_joined() -> None:
    net = Rows(2, 30)
    all_, none = net.graph.add("Split", [net.x, net.ints(30, 0)], outputs=2, axis=1)
    net.graph.output(net.concat(none, all_, none), "y")
    net.graph.output(net.add("Neg", none), "none")
    check(net.graph, {"x": floats(2, 30)}, copies=1)
