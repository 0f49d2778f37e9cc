"""Random graphs with feeds, for property tests.

    graph, feeds = random_graph(random_choices(7), nodes=20)          from a seed
    @given(graphs())                                                   through hypothesis, which shrinks them

Graphs mix maps, movement, reductions, contractions and shape arithmetic with what passes feed on: nodes that change
nothing, repeated nodes, dead nodes, constants, several outputs. `exact=True` leaves out operators whose NumPy results
depend on memory layout (exponentials, sums, products of matrices), so that outputs can be compared bit by bit even
when layouts change.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

from jitopt.ir.graph import Graph, Value
from jitopt.passes.infer import infer_node

Choose = Callable[[int], int]  # n -> one of 0 .. n - 1


def random_choices(seed: int) -> Choose:
    return random.Random(seed).randrange


def graphs(max_nodes: int = 16, exact: bool = False) -> st.SearchStrategy[tuple[Graph, dict[str, Any]]]:
    """Strategy of (graph, feeds)."""

    @st.composite
    def build(draw: st.DrawFn) -> tuple[Graph, dict[str, Any]]:
        nodes = draw(st.integers(1, max_nodes))
        return random_graph(lambda n: draw(st.integers(0, n - 1)), nodes, exact)

    return build()


def random_graph(choose: Choose, nodes: int, exact: bool = False) -> tuple[Graph, dict[str, Any]]:
    """A graph of about so many nodes, and feeds for it that hold zeros of both signs and infinities."""
    building = _Building(choose)
    table = EXACT_STEPS if exact else EXACT_STEPS + OTHER_STEPS
    for _ in range(nodes):
        value = table[choose(len(table))](building)
        for v in value if isinstance(value, tuple) else (value,):
            if v is not None and v.dtype.name == "float32":
                building.values.append(v)
    building.finish()
    return building.graph, building.feeds


class _Building:
    def __init__(self, choose: Choose) -> None:
        self.choose = choose
        self.graph = Graph("random")
        self.rng = np.random.default_rng(choose(100))
        self.feeds: dict[str, Any] = {}
        self.values = [self._input(name, shape) for name, shape in (("a", (2, 3, 4, 5)), ("b", (2, 3, 4, 5)))]

    def _input(self, name: str, shape: tuple[int, ...]) -> Value:
        array = self.rng.uniform(-2, 2, shape).astype(np.float32)
        array.flat[:4] = [0.0, -0.0, np.inf, 1.0]
        self.feeds[name] = array
        return self.graph.input(name, "float32", shape)

    def pick(self, rank: int | None = None) -> Value:
        """A value, of that rank if there is one."""
        fitting = [v for v in self.values if rank is None or len(v.shape) == rank] or self.values
        return fitting[-1 - self.choose(min(len(fitting), 6))]

    def add(self, op: str, inputs: list[Value | None], outputs: int = 1, **attrs: Any) -> Any:
        result = self.graph.add(op, inputs, outputs=outputs, **attrs)
        node = (result if outputs == 1 else result[0]).producer
        infer_node(node)
        return result

    def constant(self, array: Any) -> Value:
        return self.graph.constant(np.asarray(array), "c")

    def ints(self, *values: int) -> Value:
        return self.constant(np.array(values, np.int64))

    def floats(self, *shape: int, low: float = -2.0, high: float = 2.0) -> Value:
        return self.constant(self.rng.uniform(low, high, shape).astype(np.float32))

    def one_of(self, *options: Any) -> Any:
        return options[self.choose(len(options))]

    def finish(self) -> None:
        """Outputs: the last value and up to two others, each under its own name."""
        chosen = dict.fromkeys([self.values[-1], self.pick(), self.pick()])
        for i, value in enumerate(chosen):
            if value.producer is None:
                value = self.add("Identity", [value])
            self.graph.output(value, f"out{i}")


# steps --------------------------------------------------------------------------------------------------------------
def _map(*ops: str) -> Callable[[_Building], Value]:
    return lambda b: b.add(b.one_of(*ops), [b.pick()])


def _constant_for(b: _Building, x: Value, special: bool) -> Value:
    shape = x.shape
    kept = len(shape) if not shape else b.choose(len(shape) + 1)
    dims = [d if b.choose(2) else 1 for d in shape[len(shape) - kept :]]
    if special:
        return b.constant(np.full(dims, b.one_of(0.0, -0.0, 1.0, 2.0), np.float32))
    return b.floats(*dims, low=0.5)


def _binary(b: _Building) -> Value:
    x = b.pick()
    c = _constant_for(b, x, special=b.choose(2) == 0)
    op = b.one_of("Add", "Sub", "Mul", "Div")
    swapped = op != "Div" and b.choose(4) == 0  # c / x would blow up the last bit of an x near zero
    return b.add(op, [c, x] if swapped else [x, c])


def _residual(b: _Building) -> Value | None:
    x, y = b.pick(), b.pick()
    return b.add(b.one_of("Add", "Mul", "Max"), [x, y]) if x.shape == y.shape else None


def _nothing(b: _Building) -> Value:
    x = b.pick()
    op = b.one_of("Identity", "Dropout", "Cast", "Reshape", "Transpose", "Expand", "Concat", "Slice", "Pad")
    rank = len(x.shape)
    inputs: dict[str, list[Value | None]] = {
        "Reshape": [x, b.ints(*x.shape)],
        "Expand": [x, b.ints(*x.shape)],
        "Slice": [x, b.ints(*[0] * rank), b.ints(*[99] * rank)],
        "Pad": [x, b.ints(*[0] * (2 * rank))],
    }
    attrs = {"Cast": {"to": 1}, "Transpose": {"perm": list(range(rank))}, "Concat": {"axis": 0}}.get(op, {})
    if rank == 0 and op in ("Concat", "Slice", "Pad"):
        return b.add("Identity", [x])
    return b.add(op, inputs.get(op, [x]), **attrs)


def _pair(b: _Building) -> Value:
    x = b.pick()
    op = b.one_of("Relu", "Abs", "Neg", "Floor", "Ceil")
    if b.choose(3) == 0:
        return b.add("Cast", [b.add("Cast", [x], to=b.one_of(11, 10))], to=1)
    return b.add(op, [b.add(op, [x])])


def _transpose(b: _Building) -> Value:
    x = b.pick()
    perm = list(range(len(x.shape)))
    random.Random(b.choose(24)).shuffle(perm)
    y = b.add("Transpose", [x], perm=perm)
    if b.choose(2):
        return y
    y = b.add(b.one_of("Neg", "Relu", "Abs"), [y])
    return b.add("Transpose", [y], perm=[perm.index(i) for i in range(len(perm))])


def _reshape(b: _Building) -> Value:
    x = b.pick()
    total = int(np.prod([int(d) for d in x.shape], dtype=np.int64))
    fits = [t for t in ((-1,), (2, -1), (6, -1), (2, 3, -1), (-1, 5), (2, 3, 4, 5), (6, 4, 5)) if _divides(t, total)]
    return b.add("Reshape", [x, b.ints(*fits[b.choose(len(fits))])])


def _divides(target: tuple[int, ...], total: int) -> bool:
    known = int(np.prod([d for d in target if d != -1], dtype=np.int64))
    return total % known == 0 if -1 in target else total == known


def _computed_reshape(b: _Building) -> Value:
    x = b.pick()
    if not x.shape:
        return b.add("Neg", [x])
    first = b.add("Slice", [b.add("Shape", [x]), b.ints(0), b.ints(1)])
    return b.add("Reshape", [x, b.add("Concat", [first, b.ints(-1)], axis=0)])


def _concat_split(b: _Building) -> Any:
    x = b.pick()
    axes = [i for i, d in enumerate(x.shape) if d in (2, 4)]
    if not axes:
        return None
    axis = axes[b.choose(len(axes))]
    parts = b.add("Split", [x], outputs=2, axis=axis, num_outputs=2)
    return parts if b.choose(2) else b.add("Concat", [parts[1], parts[0]], axis=axis)


def _constants(b: _Building) -> Value:
    c = b.add(b.one_of("Neg", "Relu", "Abs"), [b.floats(3, 1, 1)])
    c = b.add("Reshape", [c, b.ints(b.one_of(1, 3), -1)]) if b.choose(2) else c
    return b.add("Mul", [b.add("Neg", [c]), b.floats()])


def _again(b: _Building) -> Value | None:
    """A node like an earlier one."""
    nodes = [n for n in b.graph if len(n.outputs) == 1]
    if not nodes:
        return None
    node = nodes[b.choose(len(nodes))]
    return b.add(node.op, list(node.inputs), **node.attrs)


def _dead(b: _Building) -> None:
    b.add("Abs", [b.add("Neg", [b.pick()])])


def _reduce(b: _Building) -> Value:
    x = b.pick()
    op = b.one_of("ReduceMean", "ReduceMax", "ReduceSum")
    if not x.shape:
        return b.add("Neg", [x])
    return b.add(op, [x, b.ints(b.choose(len(x.shape)))], keepdims=b.choose(2))


def _softmax(b: _Building) -> Value:
    x = b.add("Clip", [b.pick(), b.floats(low=-5.0, high=-4.0), b.floats(low=4.0, high=5.0)])
    return b.add("Softmax", [x], axis=-1) if x.shape else x


def _conv(b: _Building) -> Value:
    x = b.pick(rank=4)
    if len(x.shape) != 4:
        return b.add("Tanh", [x])
    x = b.add("Clip", [x, b.floats(low=-5.0, high=-4.0), b.floats(low=4.0, high=5.0)])
    channels, m = int(x.shape[1]), b.one_of(2, 3)
    bias = [b.floats(m)] if b.choose(2) else []
    y = b.add("Conv", [x, b.floats(m, channels, 1, 1), *bias], pads=[b.choose(2)] * 4)
    if b.choose(2):
        params = [b.floats(m), b.floats(m), b.floats(m), b.floats(m, low=0.5)]
        y = b.add("BatchNormalization", [y, *params])
    return b.add("Mul", [y, b.floats(m, 1, 1)]) if b.choose(2) else y


def _matmul(b: _Building) -> Value:
    x = b.add("Tanh", [b.pick()])
    if len(x.shape) < 2:
        return x
    y = b.add("MatMul", [x, b.floats(int(x.shape[-1]), 4)])
    return b.add("Add", [y, b.floats(4)]) if b.choose(2) else y


def _activation(b: _Building) -> Value:
    x = b.pick()
    if b.choose(2):
        return b.add("Mul", [x, b.add("Sigmoid", [x])])
    inner = b.add("Erf", [b.add("Div", [x, b.constant(np.float32(np.sqrt(2)))])])
    half = b.add("Mul", [x, b.constant(np.float32(0.5))])
    return b.add("Mul", [half, b.add("Add", [inner, b.constant(np.float32(1))])])


EXACT_STEPS: list[Callable[[_Building], Any]] = [
    _map("Relu", "Neg", "Abs", "Floor"), _binary, _binary, _residual, _nothing, _nothing, _pair, _transpose, _reshape,
    _computed_reshape, _concat_split, _constants, _again, _dead,
]  # fmt: skip
OTHER_STEPS: list[Callable[[_Building], Any]] = [
    _map("Tanh", "Sigmoid", "Exp"), _reduce, _softmax, _conv, _matmul, _activation,
]  # fmt: skip
