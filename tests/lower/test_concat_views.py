"""Parts of Concats, and what Split and Slice take out, live inside other buffers wherever they may, and only there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitopt
from jitopt.ir.clone import clone
from jitopt.ir.dims import Dim, symbol
from jitopt.ir.graph import Graph, Value
from jitopt.ir.interpreter import Interpreter
from jitopt.lower.groups import CONCAT_VIEWS
from jitopt.ops import find
from jitopt.passes.infer import infer
from jitopt.runtime.executor import Executor
from jitopt.runtime.guard import GuardedArrays, GuardedMemory
from jitopt.runtime.steps import BARRIER
from jitopt.runtime.text import describe_plan, print_plan
from jitopt.runtime.text_parser import parse_plan
from jitopt.runtime.verifier import verify_plan
from jitopt.verify import compare

N = symbol("n")
BATCHES: dict[str, tuple[Dim, tuple[int, ...]]] = {"1": (1, (1,)), "2": (2, (2,)), "n": (N, (1, 3))}
MOVES = {"Concat", "Split", "Slice"}


def floats(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(len(shape) + sum(shape)).standard_normal(shape).astype(np.float32)


class Net:
    """A graph under construction on an image of 16 channels."""

    def __init__(self, batch: Dim = 1, size: int = 6) -> None:
        self.graph = Graph("views")
        self.x = self.graph.input("x", "float32", (batch, 16, size, size))
        self.wide = self.conv(self.x, 16, 16)

    def conv(self, x: Value, inputs: int, outputs: int, kernel: int = 1) -> Value:
        weights = self.graph.constant(floats(outputs, inputs, kernel, kernel))
        return self.graph.add("Conv", [x, weights], pads=[kernel // 2] * 4)  # type: ignore[no-any-return]

    def add(self, op: str, *inputs: Value, **attrs: Any) -> Any:
        return self.graph.add(op, list(inputs), **attrs)

    def concat(self, *parts: Value, axis: int = 1) -> Value:
        return self.graph.add("Concat", list(parts), axis=axis)  # type: ignore[no-any-return]

    def ints(self, *numbers: int) -> Value:
        return self.graph.constant(np.array(numbers))


def moves(session: jitopt.Session) -> int:
    """Kernels of a run that carry out a Concat, Split or Slice."""
    return sum(bool(MOVES.intersection(group["operators"])) for group in session.explain().as_dict()["groups"])


def check(graph: Graph, feeds: dict[str, Any], copies: int) -> jitopt.Session:
    """The compiled graph gives what the reference gives, between protected pages, with the same bits on any number of
    threads and with every move carried out; its plans verify; it has so many kernels that move."""
    typed = clone(graph)
    infer(typed)
    expected = list(Interpreter(typed, find).run(feeds).values())
    session = jitopt.compile(clone(graph), num_threads=1)
    plain = jitopt.compile(clone(graph), num_threads=1, disable=[CONCAT_VIEWS])
    assert moves(session) == copies <= moves(plain)
    bits = [a.tobytes() for a in plain.run(None, feeds)]
    program, addresses = session._program, session._model.addresses()
    for nthreads in (1, 2, 3, 8):
        arrays, memory = GuardedArrays(), GuardedMemory()
        executor = Executor(program, addresses, nthreads, memory=memory)
        inputs = [arrays.copy(np.asarray(feeds[port.name])) for port in program.inputs]
        found = executor.run(inputs, program.outputs)
        arrays.check()
        memory.check()
        for array, wanted in zip(found, expected, strict=True):
            assert compare(array, wanted)
        assert [a.tobytes() for a in found] == bits
        for plan in Executor(program, addresses, nthreads).plans(inputs):
            described = describe_plan(program, plan)
            verify_plan(described)
            assert parse_plan(print_plan(described)) == described
    return session


def check_batches(build: Callable[[Net], None], batch: str, copies: int) -> None:
    dim, sizes = BATCHES[batch]
    for size in sizes:
        net = Net(dim)
        build(net)
        check(net.graph, {"x": floats(size, 16, 6, 6)}, copies)


@pytest.mark.parametrize("batch", BATCHES)
def test_branches_store_into_the_result(batch: str) -> None:
    def build(net: Net) -> None:
        sizes = (16, 24, 8, 11)  # the last part may end within a block
        joined = net.concat(
            *(net.add("Relu", net.conv(net.wide, 16, c, k)) for c, k in zip(sizes, (1, 3, 1, 3), strict=True))
        )
        net.graph.output(net.conv(joined, sum(sizes), 9), "y")

    check_batches(build, batch, copies=0)


@pytest.mark.parametrize("batch", BATCHES)
def test_parts_that_end_within_a_block_are_joined_row_major(batch: str) -> None:
    def build(net: Net) -> None:
        joined = net.concat(net.conv(net.wide, 16, 11), net.conv(net.wide, 16, 5), net.conv(net.wide, 16, 3))
        net.graph.output(net.conv(net.add("Relu", joined), 19, 9), "y")

    check_batches(build, batch, copies=0)  # the reorders store into the result


@pytest.mark.parametrize("batch", BATCHES)
def test_a_dense_block_is_one_growing_buffer(batch: str) -> None:
    """Every layer reads a prefix: three concats deep, with pointwise and pooled readers of the prefixes."""

    def build(net: Net) -> None:
        grown, channels = net.wide, 16
        for layer in range(4):
            scale, shift = (net.graph.constant(floats(1, channels, 1, 1) + i) for i in range(2))
            ready = net.add("Relu", net.add("Add", net.add("Mul", grown, scale), shift))
            grown, channels = net.concat(grown, net.conv(ready, channels, 8, 3)), channels + 8
            if layer == 1:
                pooled = net.add("MaxPool", grown, kernel_shape=[2, 2])
        net.graph.output(net.add("GlobalAveragePool", grown), "y")
        net.graph.output(pooled, "pooled")

    check_batches(build, batch, copies=0)


@pytest.mark.parametrize("batch", BATCHES)
def test_a_dense_block_that_joins_all_layers_each_time(batch: str) -> None:
    def build(net: Net) -> None:
        layers = [net.wide]
        for _ in range(3):
            joined = net.concat(*layers) if len(layers) > 1 else net.wide
            layers.append(net.conv(net.add("Relu", joined), 16 + 8 * (len(layers) - 1), 8, 3))
        net.graph.output(net.conv(net.concat(*layers), 40, 4), "y")

    check_batches(build, batch, copies=0)


@pytest.mark.parametrize("batch", BATCHES)
def test_every_kind_of_kernel_reads_and_writes_parts(batch: str) -> None:
    def build(net: Net) -> None:
        add, x = net.add, net.wide
        depthwise = add("Conv", x, net.graph.constant(floats(16, 1, 3, 3)), group=16, pads=[1] * 4)
        grouped = add("Conv", x, net.graph.constant(floats(12, 4, 3, 3)), group=4, pads=[1] * 4)
        wider = net.conv(add("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2]), 16, 8)
        scales = net.graph.constant(np.array([1, 1, 2, 2], np.float32))
        larger: Value = net.graph.add("Resize", [wider, None, scales])
        transposed = add("ConvTranspose", wider, net.graph.constant(floats(8, 8, 2, 2)), strides=[2, 2])
        pooled = add("AveragePool", x, kernel_shape=[3, 3], pads=[1] * 4)
        squashed = add("Mul", x, add("Sigmoid", net.conv(add("GlobalAveragePool", x), 16, 16)))
        inner = net.concat(depthwise, net.conv(net.concat(pooled, transposed), 24, 16))
        joined = net.concat(inner, transposed, squashed, larger, grouped)
        for index, y in enumerate((
            add("Conv", joined, net.graph.constant(floats(76, 1, 3, 3)), group=76),
            add("ConvTranspose", joined, net.graph.constant(floats(76, 3, 2, 2))),
            add("MaxPool", joined, kernel_shape=[2, 2]), add("GlobalMaxPool", joined), add("Tanh", joined),
            add("Conv", inner, net.graph.constant(floats(8, 8, 1, 1)), group=4), add("Neg", inner),
        )):  # fmt: skip
            net.graph.output(y, f"y{index}")

    check_batches(build, batch, copies=1)


@pytest.mark.parametrize("batch", BATCHES)
def test_what_cannot_be_placed_is_copied_alone(batch: str) -> None:
    """A graph output, the second use of a part, a constant, an input; a part of two Concats lives in one of them."""

    def build(net: Net) -> None:
        out, part = net.conv(net.wide, 16, 8), net.conv(net.wide, 16, 8, 3)
        first = net.concat(part, out, part)
        net.graph.output(net.conv(first, 24, 4), "y")
        net.graph.output(net.conv(net.concat(net.add("Relu", part), net.wide, part), 32, 4), "z")
        net.graph.output(out, "out")

    check_batches(build, batch, copies=2)


@pytest.mark.parametrize("batch", BATCHES)
def test_a_reorder_stores_into_the_result(batch: str) -> None:
    def build(net: Net) -> None:
        net.graph.output(net.conv(net.concat(net.x, net.wide), 32, 8), "y")

    check_batches(build, batch, copies=0)


def test_a_constant_part_is_copied() -> None:
    net = Net()
    joined = net.concat(net.wide, net.graph.constant(floats(1, 8, 6, 6)), net.conv(net.wide, 16, 8, 3))
    net.graph.output(net.conv(joined, 32, 8), "y")
    check(net.graph, {"x": floats(1, 16, 6, 6)}, copies=1)


class Rows(Net):
    """Row-major values of the shape."""

    def __init__(self, *shape: Dim) -> None:
        self.graph = Graph("rows")
        self.x = self.graph.input("x", "float32", shape)
        self.left, self.right = self.add("Tanh", self.x), self.add("Abs", self.x)


@pytest.mark.parametrize(
    ("shape", "axis", "copies"),
    [((3, 4), 0, 0), ((1, 3, 4), 1, 0), ((1, 1, 5), -1, 0), ((5,), 0, 0), ((2, 3), 1, 0), ((2, 3, 4), 2, 1)],
)
def test_row_major_parts(shape: tuple[int, ...], axis: int, copies: int) -> None:
    """Along the outermost axis in one piece, along the next image for image, beyond that not at all."""
    net = Rows(*shape)
    net.graph.output(net.add("Neg", net.concat(net.left, net.right, axis=axis)), "y")
    check(net.graph, {"x": floats(*shape)}, copies)
    net = Rows(N, *shape[1:])
    net.graph.output(net.add("Neg", net.concat(net.left, net.x, net.right, axis=axis)), "y")
    check(net.graph, {"x": floats(*shape)}, 1)  # of x


def test_the_result_may_be_an_output_and_a_part() -> None:
    """The caller's array takes the parts, so it is no part of another; an empty part is nothing."""
    net = Rows(N, 3)
    none = net.add("Neg", net.add("Slice", net.left, net.ints(0), net.ints(0), net.ints(0)))
    joined = net.concat(net.left, none, net.right, axis=0)
    net.graph.output(joined, "y")
    net.graph.output(net.add("Neg", net.concat(joined, net.add("Exp", net.left), axis=0)), "z")
    check(net.graph, {"x": floats(2, 3)}, copies=1)


def test_parts_that_others_read_as_they_are_stay_where_they_are() -> None:
    """Read by a host step, returned under another shape, written in another segment."""
    net = Rows(N, 3)
    net.graph.output(net.add("CumSum", net.left, net.ints(0)), "sums")
    net.graph.output(net.add("Reshape", net.right, net.ints(-1)), "flat")
    net.graph.output(net.add("Neg", net.concat(net.left, net.right, axis=0)), "y")
    check(net.graph, {"x": floats(2, 3)}, copies=1)
    net = Rows(N, 3)
    summed = net.add("Relu", net.add("CumSum", net.left, net.ints(0)))
    net.graph.output(net.add("Neg", net.concat(summed, net.right, net.add("Exp", summed), axis=0)), "y")
    check(net.graph, {"x": floats(2, 3)}, copies=1)


@pytest.mark.parametrize("rows", [1, N])
def test_readers_that_need_one_piece(rows: Dim) -> None:
    """A matrix product and a Reshape take parts in one piece only."""
    for reader in ("MatMul", "Reshape"):
        net = Rows(rows, 8)
        operand = net.graph.constant(floats(8, 4)) if reader == "MatMul" else net.ints(-1, 2)
        net.graph.output(net.add("Abs", net.add(reader, net.left, operand)), "z")
        net.graph.output(net.add("Neg", net.concat(net.left, net.right)), "y")
        check(net.graph, {"x": floats(1 if rows == 1 else 3, 8)}, copies=0 if rows == 1 else 1)


def test_rows_joined_within_images_that_are_joined() -> None:
    """What was joined in one piece does not come apart."""
    net = Rows(N, 4)
    tall = net.concat(net.left, net.right, axis=0)
    net.graph.output(net.add("Neg", net.concat(tall, net.add("Exp", tall))), "y")
    check(net.graph, {"x": floats(2, 4)}, copies=1)


@pytest.mark.parametrize("batch", BATCHES)
def test_split_and_slice_take_out_whole_blocks_in_place(batch: str) -> None:
    def build(net: Net) -> None:
        wide = net.conv(net.wide, 16, 40, 3)
        pieces = net.graph.add("Split", [wide, net.ints(8, 16, 16)], axis=1, outputs=3)
        end = net.add("Slice", wide, net.ints(32), net.ints(99), net.ints(1))
        net.graph.output(net.conv(pieces[0], 8, 4, 3), "a")
        net.graph.output(net.add("GlobalAveragePool", pieces[1]), "b")
        net.graph.output(net.conv(net.concat(net.add("Relu", pieces[2]), end), 24, 4), "c")
        net.graph.output(net.conv(net.add("Slice", end, net.ints(1), net.ints(5), net.ints(2)), 8, 4), "d")

    # A view is no part of a Concat. Rows of one block of one image lie in one piece, else in many.
    check_batches(build, batch, copies=1 if batch == "1" else 2)


def test_what_split_and_slice_cannot_leave_in_place() -> None:
    """Within a block, given to the caller or to a host step; the other results stay views."""
    net = Net()
    one, other = net.graph.add("Split", [net.wide, net.ints(8, 8)], axis=1, outputs=2)
    net.graph.output(net.add("CumSum", one, net.ints(1)), "sums")
    net.graph.output(net.conv(other, 8, 4), "y")
    net.graph.output(net.add("Slice", net.conv(net.wide, 16, 16), net.ints(3), net.ints(9), net.ints(1)), "z")
    check(net.graph, {"x": floats(1, 16, 6, 6)}, copies=1)


@pytest.mark.parametrize("rows", [4, N])
def test_row_major_windows(rows: Dim) -> None:
    """Views of an input and of views, in one piece and image for image; steps and inner axes are copied."""
    net = Rows(rows, 6, 5)
    top = net.add("Slice", net.x, net.ints(1), net.ints(3), net.ints(0))
    inner = net.add("Slice", top, net.ints(2), net.ints(4), net.ints(1))
    deep = net.add("Slice", inner, net.ints(1), net.ints(3), net.ints(2))
    halves = net.graph.add("Split", [net.x], axis=1, num_outputs=2, outputs=2)
    every = net.add("Slice", net.x, net.ints(0), net.ints(9), net.ints(0), net.ints(2))
    for index, y in enumerate((top, inner, deep, *halves, every)):
        net.graph.output(net.add("Exp", y), f"y{index}")
    net.graph.output(net.add("ReduceSum", halves[0], net.ints(0)), "sum")  # over images that lie apart
    check(net.graph, {"x": floats(4, 6, 5)}, copies=3)


def test_steps_in_disjoint_parts_need_no_barrier() -> None:
    """Branches that store side by side run side by side; what reads the whole waits."""
    net = Rows(50, 100)
    net.graph.output(net.add("Neg", net.concat(net.left, net.right)), "y")
    session = jitopt.compile(net.graph, num_threads=2)
    (plan,) = session._executor.plans([floats(50, 100)])
    left, right, last = describe_plan(session._program, plan).steps
    assert [(r.offset, r.size, r.images, r.stride) for s in (left, right) for r in s.writes] == [
        (0, 400, 50, 800), (400, 400, 50, 800),
    ]  # fmt: skip
    assert [s.flags for s in (left, right, last)] == [0, 0, BARRIER]
    explained = session.explain()
    assert explained.as_dict()["parts_in_place"] == 2 and "2 results stored in a Concat's place" in str(explained)


def test_a_buffer_lives_from_its_first_part_to_its_last_reader() -> None:
    net = Net()
    early = net.conv(net.wide, 16, 8)
    late = net.add("Relu", net.conv(net.add("Relu", net.conv(net.wide, 16, 16, 3)), 16, 8))
    net.graph.output(net.conv(net.concat(early, late), 16, 8), "y")
    session = jitopt.compile(net.graph)
    (plan,) = session._executor.plans([floats(1, 16, 6, 6)])
    described = describe_plan(session._program, plan)
    (buffer,) = {r.buffer for s in described.steps for r in s.writes if r.size is not None}
    uses = [i for i, s in enumerate(described.steps) if any(r.buffer == buffer for r in (*s.reads, *s.writes))]
    assert next(b.live for b in described.buffers if b.name == buffer) == (uses[0], uses[-1])
