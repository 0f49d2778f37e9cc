"""Random graphs of every kind of step there is: kernels of all templates and element types, host steps between them,
control flow with captures, extents that data decide, symbolic extents.

    graph, feeds = mixed_graph(random_choices(7), nodes=20)

Values stay small, and no step puts out what a change in the last bit would turn around (a Floor of a Tanh, say), so
that any right way to compute the graph agrees within tolerance.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jitopt.ir.dims import Expr, symbol
from jitopt.ir.graph import Graph, Value
from jitopt.ir.types import TensorType
from jitopt.passes.infer import infer_node

Choose = Callable[[int], int]
Step = Callable[["Mixed"], Any]


def mixed_graph(choose: Choose, nodes: int) -> tuple[Graph, dict[str, Any]]:
    """A graph of about so many steps, and feeds for it; about half the graphs have symbolic extents."""
    building = Mixed(choose)
    for _ in range(nodes):
        made = STEPS[choose(len(STEPS))](building)
        for value in made if isinstance(made, tuple) else (made,):
            if value is not None:
                building.values.append(value)
    building.finish()
    return building.graph, building.feeds


class Mixed:
    """A graph under construction with values to build on and feeds for its inputs."""

    def __init__(self, choose: Choose) -> None:
        self.choose = choose
        self.graph = Graph("mixed")
        self.rng = np.random.default_rng(choose(1000))
        self.feeds: dict[str, Any] = {}
        channels, height, width = self.one_of(3, 8, 11), self.one_of(4, 7), self.one_of(5, 8)
        dims: tuple[Any, ...] = (symbol("n"), channels, symbol("h"), symbol("w")) if choose(2) else (
            2, channels, height, width
        )  # fmt: skip
        shape = (2, channels, height, width)
        self.extents = {str(d): e for d, e in zip(dims, shape, strict=True) if isinstance(d, Expr)}
        self.values = [
            self.input("image", self.rng.uniform(-2, 2, shape).astype(np.float32), dims),
            self.input("rows", self.rng.uniform(-2, 2, (2, 6)).astype(np.float32), (dims[0], 6)),
            self.input("ints", self.rng.integers(-3, 4, (2, 5)), (dims[0], 5)),
        ]

    def input(self, name: str, array: Any, dims: tuple[Any, ...] | None = None) -> Value:
        self.feeds[name] = array
        return self.graph.input(name, array.dtype.name, array.shape if dims is None else dims)

    # choosing and adding --------------------------------------------------------------------------------------------
    def one_of(self, *options: Any) -> Any:
        return options[self.choose(len(options))]

    def pick(self, dtype: str = "float32", rank: int | None = None) -> Value | None:
        """One of the latest values of that dtype (and rank), None where there is none."""
        fitting = [
            v for v in self.values if isinstance(v.type, TensorType) and v.type.shape is not None
            and v.dtype.name == dtype and rank in (None, len(v.shape))
        ]  # fmt: skip
        return fitting[-1 - self.choose(min(len(fitting), 4))] if fitting else None

    def tensor(self, rank: int | None = None) -> Value:
        """A float32 value, of that rank if there is one."""
        return self.pick("float32", rank) or self.values[0]

    def add(self, op: str, inputs: list[Value | None], outputs: int = 1, **attrs: Any) -> Any:
        made = self.graph.add(op, inputs, outputs=outputs, **attrs)
        infer_node((made if outputs == 1 else made[0]).producer)
        return made

    def floats(self, *shape: int, low: float = -1.0, high: float = 1.0) -> Value:
        return self.graph.constant(self.rng.uniform(low, high, shape).astype(np.float32), "c")

    def ints(self, *values: int) -> Value:
        return self.graph.constant(np.array(values, np.int64), "i")

    def bounded(self, x: Value) -> Value:
        return self.add("Clip", [x, self.floats(low=-3, high=-2), self.floats(low=2, high=3)])

    def known(self, d: Any) -> int:
        """The extent the feeds give a dim, 0 where only a run tells."""
        return d if isinstance(d, int) else self.extents.get(str(d), 0)

    def finish(self) -> None:
        """The last value and up to three others as outputs."""
        chosen = dict.fromkeys([self.values[-1], *(self.one_of(*self.values) for _ in range(3))])
        for index, value in enumerate(chosen):
            if value.producer is None:
                value = self.add("Identity", [value])
            self.graph.output(value, f"out{index}")


# maps ---------------------------------------------------------------------------------------------------------------
def unary(b: Mixed) -> Value:
    op = b.one_of(
        "Relu", "Neg", "Abs", "Tanh", "Sigmoid", "Erf", "HardSwish", "Gelu", "Softplus", "LeakyRelu", "Elu", "Mish"
    )
    return b.add(op, [b.tensor()])


def constant_operand(b: Mixed) -> Value:
    x = b.tensor()
    dims = [d if isinstance(d, int) and b.choose(2) else 1 for d in x.shape]
    dims = dims[b.choose(len(dims) + 1) :]
    c = b.floats(*dims, low=0.5, high=1.5)
    return b.add(b.one_of("Add", "Sub", "Mul", "Div"), [x, c] if b.choose(3) else [c, b.add("Exp", [b.bounded(x)])])


def residual(b: Mixed) -> Value | None:
    x, y = b.tensor(), b.tensor()
    return (
        b.add(b.one_of("Add", "Mul", "Max", "Min", "Sub"), [b.bounded(x), b.bounded(y)]) if x.shape == y.shape else None
    )


def gate(b: Mixed) -> Value:
    x = b.tensor()
    if len(x.shape) == 4:
        return b.add("Mul", [x, b.add("HardSigmoid", [b.add("GlobalAveragePool", [x])])])
    return b.add("Mul", [x, b.add("Sigmoid", [x])])


def compare(b: Mixed) -> Value:
    """Which of x is positive: -1, 0 and 1 stay what they are whatever the rounding."""
    x = b.add("Sign", [b.add("Round", [b.pick("float32") or b.tensor()])])
    flag = b.add(b.one_of("Greater", "LessOrEqual", "Equal"), [x, b.graph.constant(np.float32(0), "zero")])
    return b.add("Where", [flag, x, b.floats()])


def whole(b: Mixed) -> Value:
    x = b.pick("int64") or b.values[2]
    op = b.one_of("Add", "Sub", "Mul", "Max", "Mod", "Div")
    y = b.ints(b.one_of(2, 3, -2))
    return b.add("Clip", [b.add(op, [x, y]), b.graph.constant(np.int64(-99)), b.graph.constant(np.int64(99))])


def casts(b: Mixed) -> Value:
    """There and back through float64, or float16 where it holds every element; neither has kernels."""
    if b.choose(2):
        y = b.add("Cast", [b.bounded(b.tensor())], to=11)
    else:
        y = b.add("Cast", [b.pick("int64") or b.values[2]], to=10)
    if b.choose(2):
        y = b.add(b.one_of("Neg", "Abs", "Relu"), [y])
    return b.add("Cast", [y], to=1)


def integers(b: Mixed) -> Value:
    x = b.pick("int64") or b.values[2]
    y = b.add("Cast", [x], to=b.one_of(6, 7, 6))
    y = b.add(b.one_of("Add", "Mul", "Max"), [y, y])
    return b.add("Cast", [b.add("Sign", [y]) if b.choose(2) else y], to=b.one_of(1, 7))


def logic(b: Mixed) -> Value:
    x = b.pick("int64") or b.values[2]
    first = b.add("Greater", [x, b.ints(0)])
    second = b.add("Equal", [b.add("Mod", [x, b.ints(2)]), b.ints(0)])
    both = b.add(b.one_of("And", "Or", "Xor"), [first, b.add("Not", [second])])
    return b.add("Cast", [both], to=b.one_of(1, 7, 6)) if b.choose(2) else b.add("Where", [both, x, b.ints(7)])


# movement -----------------------------------------------------------------------------------------------------------
def transpose(b: Mixed) -> Value:
    x = b.pick(b.one_of("float32", "int64")) or b.tensor()
    perm = list(range(len(x.shape)))
    b.rng.shuffle(perm)
    return b.add("Transpose", [x], perm=[int(p) for p in perm])


def reshape(b: Mixed) -> Value:
    x = b.tensor()
    if not x.shape:
        return b.add("Unsqueeze", [x, b.ints(0)])
    kind = b.choose(4)
    if kind == 0:
        return b.add("Flatten", [x], axis=b.choose(len(x.shape) + 1))
    if kind == 1:
        return b.add("Unsqueeze", [x, b.ints(b.choose(len(x.shape) + 1))])
    if kind == 2 and len(x.shape) > 1:
        return b.add("Reshape", [x, b.ints(0, -1)])
    first = b.add("Slice", [b.add("Shape", [x]), b.ints(0), b.ints(1)])
    return b.add("Reshape", [x, b.add("Concat", [first, b.ints(-1)], axis=0)])


def concat_split(b: Mixed) -> Any:
    x = b.pick(b.one_of("float32", "float32", "int64")) or b.tensor()
    if not x.shape:
        return None
    axis = b.choose(len(x.shape))
    joined = b.add("Concat", [x, b.add("Neg", [x]), x][: b.one_of(1, 2, 3)], axis=axis)
    if b.choose(2) and isinstance(joined.shape[axis], int) and joined.shape[axis] >= 2:
        return b.add("Split", [joined], outputs=2, axis=axis, num_outputs=2)
    return joined


def slicing(b: Mixed) -> Value | None:
    x = b.pick(b.one_of("float32", "float32", "int64")) or b.tensor()
    if not x.shape:
        return None
    axis = b.choose(len(x.shape))
    start, end, step = b.one_of(
        (0, 2, 1), (1, 99, 1), (-1, -99, -1), (0, 99, 2), (-3, 99, 1), (1, -1, 1), (99, -99, -2)
    )
    return b.add("Slice", [x, b.ints(start), b.ints(end), b.ints(axis), b.ints(step)])


def pad(b: Mixed) -> Value | None:
    x = b.tensor()
    rank = len(x.shape)
    if not rank or any(b.known(d) < 3 for d in x.shape):
        return None
    mode = b.one_of("constant", "edge", "reflect")
    low = -1 if mode == "constant" else 0
    pads = [int(p) for p in b.rng.integers(low, 3, 2 * rank)]
    return b.add("Pad", [x, b.ints(*pads), b.floats() if b.choose(2) else None], mode=mode)


def expand(b: Mixed) -> Value:
    x = b.tensor()
    if b.choose(2):
        return b.add("Tile", [x, b.ints(*(b.one_of(1, 1, 2) for _ in x.shape))])
    return b.add("Expand", [x, b.ints(b.one_of(1, 2), *(1 for _ in x.shape))])


def gather(b: Mixed) -> Value | None:
    x = b.pick(b.one_of("float32", "int64")) or b.tensor()
    if not x.shape or 0 in map(b.known, x.shape):
        return None
    axis = b.choose(len(x.shape))
    extent = b.known(x.shape[axis])
    indices = b.graph.constant(b.rng.integers(-extent, extent, b.one_of((), (3,), (2, 2))), "places")
    if b.choose(3) == 0:
        indices = b.input(f"places{len(b.feeds)}", indices.constant)
    return b.add("Gather", [x, indices], axis=axis)


def resize(b: Mixed) -> Value | None:
    x = b.pick("float32", 4)
    if x is None or any(b.known(d) == 0 for d in x.shape):
        return None
    scales = b.graph.constant(np.array([1, 1, b.one_of(1, 2), b.one_of(2, 1.5)], np.float32), "scales")
    mode = b.one_of("nearest", "linear")
    form = b.one_of("asymmetric", "half_pixel") if mode == "linear" else "asymmetric"
    return b.add("Resize", [x, None, scales], mode=mode, coordinate_transformation_mode=form, nearest_mode="floor")


# reductions and products --------------------------------------------------------------------------------------------
def reduce(b: Mixed) -> Value | None:
    x = b.bounded(b.tensor())
    if not x.shape or any(b.known(d) == 0 for d in x.shape):
        return None
    op = b.one_of("ReduceMean", "ReduceMax", "ReduceMin", "ReduceSum", "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp")
    count = 1 + b.choose(min(2, len(x.shape)))
    first = b.choose(len(x.shape) - count + 1)
    return b.add(op, [x, b.ints(*range(first, first + count))], keepdims=b.choose(2))


def reduce_integers(b: Mixed) -> Value | None:
    x = b.pick("int64")
    if x is None or not x.shape or any(b.known(d) == 0 for d in x.shape):
        return None
    small = b.add("Clip", [x, b.graph.constant(np.int64(-3)), b.graph.constant(np.int64(3))])
    return b.add(b.one_of("ReduceSum", "ReduceMax", "ReduceMin"), [small, b.ints(b.choose(len(x.shape)))])


def normalise(b: Mixed) -> Value | None:
    x = b.bounded(b.tensor())
    if not x.shape or any(b.known(d) == 0 for d in x.shape):
        return None
    if b.choose(2):
        return b.add(b.one_of("Softmax", "LogSoftmax"), [x], axis=b.choose(len(x.shape)))
    last = x.shape[-1]
    if not isinstance(last, int):
        return None
    return b.add("LayerNormalization", [x, b.floats(last), b.floats(last)], epsilon=0.1)


def matmul(b: Mixed) -> Value | None:
    x = b.bounded(b.tensor())
    if not x.shape or not isinstance(x.shape[-1], int):
        return None
    y = b.add("MatMul", [x, b.floats(x.shape[-1], b.one_of(1, 4, 26))])
    return b.add("Add", [y, b.floats(y.shape[-1])]) if b.choose(2) and y.shape else y


def attention(b: Mixed) -> Value | None:
    x = b.bounded(b.tensor())
    if len(x.shape) < 2 or any(b.known(d) == 0 for d in x.shape):
        return None
    perm = [*range(len(x.shape) - 2), len(x.shape) - 1, len(x.shape) - 2]
    scores = b.add("MatMul", [x, b.add("Transpose", [x], perm=perm)])
    return b.add("MatMul", [b.add("Softmax", [b.add("Mul", [scores, b.floats(low=0.1, high=0.3)])]), x])


def gemm(b: Mixed) -> Value | None:
    x = b.pick("float32", 2)
    if x is None or not isinstance(x.shape[1], int):
        return None
    columns = b.one_of(3, 9)
    transposed = b.choose(2)
    w = b.floats(columns, x.shape[1]) if transposed else b.floats(x.shape[1], columns)
    c = b.one_of(None, b.floats(columns), b.floats(1, columns), b.floats())
    return b.add("Gemm", [b.bounded(x), w, c], transB=transposed, alpha=b.one_of(1.0, 0.5), beta=b.one_of(1.0, 0.5))


# windows ------------------------------------------------------------------------------------------------------------
def image(b: Mixed) -> Value | None:
    """A rank-4 float32 value with known channels and at least 3 by 3 positions."""
    x = b.pick("float32", 4) or b.values[0]
    fits = len(x.shape) == 4 and isinstance(x.shape[1], int) and 0 < x.shape[1] < 40
    return b.bounded(x) if fits and all(b.known(d) >= 3 for d in x.shape[2:]) else None


def conv(b: Mixed) -> Value | None:
    x = image(b)
    if x is None:
        return None
    channels = x.shape[1]
    group = b.one_of(1, 1, channels)
    outputs = channels * b.one_of(1, 2) if group == channels else b.one_of(4, 8, 9)
    kernel = b.one_of(1, 3)
    strides = [b.one_of(1, 1, 2)] * 2
    w = b.floats(outputs, channels // group, kernel, kernel, low=-0.5, high=0.5)
    bias = b.floats(outputs) if b.choose(2) else None
    y = b.add("Conv", [x, w, bias], group=group, pads=[b.choose(2) * (kernel // 2)] * 4, strides=strides)
    if b.choose(2):
        return b.add("BatchNormalization", [y, *(b.floats(outputs, low=0.5, high=1.5) for _ in range(4))])
    return b.add(b.one_of("Relu", "HardSwish", "Sigmoid"), [y]) if b.choose(2) else y


def branches(b: Mixed) -> Any:
    """Convolutions of one image joined, and joined again; some of the parts are there for others, too."""
    x = image(b)
    if x is None:
        return None
    parts = [b.add("Conv", [x, b.floats(c, x.shape[1], 1, 1)]) for c in (b.one_of(8, 16, 5), 8, b.one_of(4, 8))]
    joined = b.add("Concat", [parts[i] for i in b.one_of((0, 1), (1, 2), (1, 0, 1))], axis=1)
    again = b.add("Concat", [joined, b.add("Relu", [parts[2]]), parts[b.choose(3)]], axis=1)
    ends = b.one_of((8, 16), (0, 8), (4, 9))
    return again, b.one_of(joined, parts[1], b.add("Slice", [again, b.ints(ends[0]), b.ints(ends[1]), b.ints(1)]))


def deconv(b: Mixed) -> Value | None:
    x = image(b)
    if x is None or any(b.known(d) > 20 for d in x.shape[2:]):
        return None
    w = b.floats(x.shape[1], b.one_of(3, 8), 2, 2, low=-0.5, high=0.5)
    return b.add("ConvTranspose", [x, w, b.floats(w.shape[1]) if b.choose(2) else None], strides=[2, 2])


def pool(b: Mixed) -> Value | None:
    x = image(b)
    if x is None:
        return None
    op = b.one_of("MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool", "LRN", "InstanceNormalization")
    if op.startswith("Global"):
        return b.add(op, [x])
    if op == "LRN":
        return b.add(op, [x], size=3)
    if op == "InstanceNormalization":
        return b.add(op, [x, b.floats(x.shape[1]), b.floats(x.shape[1])], epsilon=0.1)
    return b.add(op, [x], kernel_shape=[3, 2], strides=[b.one_of(1, 2), 1], pads=[b.choose(2), 0, 1, 0])


# host steps ---------------------------------------------------------------------------------------------------------
def on_the_host(b: Mixed) -> Value | None:
    x = b.bounded(b.tensor())
    if not x.shape or any(b.known(d) == 0 for d in x.shape):
        return None
    if b.choose(2):
        return b.add("CumSum", [x, b.graph.constant(np.int64(b.choose(len(x.shape))), "axis")])
    return b.add("Det", [b.add("Expand", [b.floats(3, 3), b.ints(2, 3, 3)])]) if b.choose(2) else b.add("Asinh", [x])


def found(b: Mixed) -> Value:
    """Extents that data decide: the places of the positive integers, and what lies there."""
    x = b.pick("int64", 2) or b.values[2]
    places = b.add("NonZero", [b.add("Greater", [x, b.ints(0)])])
    if b.choose(2):
        return places
    rows = b.add("Transpose", [places], perm=[1, 0])
    return b.add("GatherND", [x, rows])


def branch(b: Mixed) -> Value:
    """An If whose branches capture a value each way."""
    x = b.tensor()
    flag = b.input(f"flag{len(b.feeds)}", np.array(bool(b.choose(2))))
    graphs = {}
    for name, op in (("then_branch", "Neg"), ("else_branch", "Abs")):
        inner = Graph(f"{name}{len(b.feeds)}")
        inner.captures.append(inner.value(x.name, x.type))
        inner.output(inner.add(op, [inner.captures[0]]))
        graphs[name] = inner
    made = b.graph.add("If", [flag], captures=[x], **graphs)
    infer_node(made.producer)
    return made


def loop(b: Mixed) -> Value:
    """A Loop that adds a captured value in each turn."""
    x = b.bounded(b.tensor())
    trips = b.input(f"trips{len(b.feeds)}", np.array(b.choose(4)))
    body = Graph(f"body{len(b.feeds)}")
    body.captures.append(body.value(x.name, x.type))
    shape = x.shape
    _, on, carried = (body.input(*i) for i in (("turn", "int64", ()), ("on", "bool", ()), ("sum", "float32", shape)))
    body.output(body.add("Identity", [on], name="still"))
    body.output(body.add("Add", [carried, body.captures[0]], name="next"))
    made = b.graph.add("Loop", [trips, None, x], captures=[x], body=body)
    infer_node(made.producer)
    return made


STEPS: list[Step] = [
    unary, unary, constant_operand, constant_operand, residual, residual, gate, compare, whole, casts, integers, logic,
    transpose, reshape, concat_split, slicing, pad, expand, gather, resize, reduce, reduce_integers, normalise, matmul,
    attention, gemm, conv, conv, conv, branches, branches, deconv, pool, on_the_host, found, branch, loop,
]  # fmt: skip
