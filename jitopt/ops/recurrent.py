"""RNN, GRU and LSTM over whole sequences, in one or both directions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jitopt.errors import ModelError
from jitopt.ir.dims import Shape
from jitopt.ir.graph import Node
from jitopt.ops.cases import floats, sample, vector
from jitopt.ops.cells import Step, activations, directions, halves, walk
from jitopt.ops.contents import computable
from jitopt.ops.operator import Array, Attribute, Attrs, Kind, Param, Sample
from jitopt.ops.rules import ShapeRule, differ, require, shape_of, shape_or_none, show
from jitopt.ops.signature import REALS, declare, dtypes

INT32 = dtypes("int32")
ATTRIBUTES = {
    "direction": Attribute("string", "forward", choices=("forward", "reverse", "bidirectional")),
    "hidden_size": Attribute("int", check=lambda n: n > 0),
    "activations": Attribute("strings"),
    "activation_alpha": Attribute("floats"),
    "activation_beta": Attribute("floats"),
    "clip": Attribute("float", check=lambda c: c >= 0),
}
_LAYOUT = {"layout": Attribute("int", 0, choices=(0, 1))}


def recurrent_shapes(gates: int, default: int, transposed: bool = False) -> ShapeRule:
    """Shapes of Y and the final states; `gates` and `default` activations a direction.

    W is [D, gates*H, I] and R [D, gates*H, H], or with the last two axes swapped if `transposed`.
    """

    def rule(node: Node, attrs: Attrs) -> list[Shape | None]:
        x, w, r = (shape_of(node, i) for i in range(3))
        count = directions(attrs)
        computable(node.arg(0).dtype)
        require(len(x) == len(w) == len(r) == 3, f"X {show(x)}, W {show(w)}, R {show(r)} must have rank 3")
        if transposed:
            w, r = (w[0], w[2], w[1]), (r[0], r[2], r[1])
        hidden = r[2] if attrs.hidden_size is None else attrs.hidden_size
        steps, batch = x[:2]
        state: Shape = (count, batch, hidden)
        batch_first = bool(getattr(attrs, "layout", 0))
        if batch_first:
            steps, batch, state = batch, steps, (steps, count, hidden)
        for name, found, wanted in (
            ("W", w, (count, hidden * gates, x[2])),
            ("R", r, (count, hidden * gates, hidden)),
            ("B", shape_or_none(node, 3), (count, hidden * gates * 2)),
            ("sequence_lens", shape_or_none(node, 4), (batch,)),
            ("initial_h", shape_or_none(node, 5), state),
            ("initial_c", shape_or_none(node, 6), state),
            ("P", shape_or_none(node, 7), (count, hidden * 3)),
        ):
            fits = found is None or (len(found) == len(wanted) and not any(map(differ, found, wanted)))
            require(fits, f"{name} of shape {show(found or ())} should be {show(wanted)}")
        names = attrs.activations
        if names and len(names) != count * default:
            raise ModelError(f"{len(names)} activations for {count} directions of {default} each")
        y: Shape = (batch, steps, count, hidden) if batch_first else (steps, count, batch, hidden)
        shapes: list[Shape | None] = [y, state, state]
        return shapes[: len(node.outputs)]

    return rule


def _gates(values: Array, count: int) -> list[Array]:
    return np.split(values, count, axis=-1)


# RNN ----------------------------------------------------------------------------------------------------------------
def _rnn(
    attrs: Attrs, x: Array, w: Array, r: Array, b: Array | None = None, lengths: Array | None = None,
    h: Array | None = None,
) -> tuple[Array, ...]:  # fmt: skip
    def cell(d: int, inputs: Array) -> Step:
        (f,) = activations(attrs, ["Tanh"], d)
        projected = inputs @ w[d].T + sum(halves(b, d))
        return lambda t, state: (f(projected[t] + state @ r[d].T),)

    return walk(attrs, x, r.shape[-1], lengths, [h], cell)[: attrs.outputs]


# GRU ----------------------------------------------------------------------------------------------------------------
def _gru(
    attrs: Attrs, x: Array, w: Array, r: Array, b: Array | None = None, lengths: Array | None = None,
    h: Array | None = None,
) -> tuple[Array, ...]:  # fmt: skip
    hidden, late = r.shape[-1], bool(attrs.linear_before_reset)

    def cell(d: int, inputs: Array) -> Step:
        f, g = activations(attrs, ["Sigmoid", "Tanh"], d)
        wb, rb = halves(b, d)
        projected = inputs @ w[d].T + wb
        r_zr, r_h = r[d, : 2 * hidden].T, r[d, 2 * hidden :].T
        rb_zr, rb_h = (rb[: 2 * hidden], rb[2 * hidden :]) if isinstance(rb, np.ndarray) else (0.0, 0.0)

        def step(t: int, state: Array) -> tuple[Array, ...]:
            z, reset = _gates(f(projected[t, :, : 2 * hidden] + state @ r_zr + rb_zr), 2)
            memory = reset * (state @ r_h + rb_h) if late else (reset * state) @ r_h + rb_h
            candidate = g(projected[t, :, 2 * hidden :] + memory)
            return ((1 - z) * candidate + z * state,)

        return step

    return walk(attrs, x, hidden, lengths, [h], cell)[: attrs.outputs]


# LSTM ---------------------------------------------------------------------------------------------------------------
def lstm_cell(
    attrs: Attrs, d: int, projected: Array, recurrent: Callable[[int, Array], Array], peephole: Array | None
) -> Step:
    """One LSTM step: `projected` [T, B, 4*H] with both biases, `recurrent(t, h)` [B, 4*H]; gates stand as i, o, f, c.

    `clip` bounds what enters the gates, not the cell state on its way to the output (as ONNX Runtime has it).
    """
    f, g, h = activations(attrs, ["Sigmoid", "Tanh", "Tanh"], d, clipped=2)
    p_i, p_o, p_f = (0.0,) * 3 if peephole is None else tuple(_gates(peephole[d], 3))

    def step(t: int, state: Array, cell: Array) -> tuple[Array, ...]:
        x_i, x_o, x_f, x_c = _gates(projected[t] + recurrent(t, state), 4)
        entering = f(x_i + p_i * cell)
        forgetting = 1 - entering if attrs.input_forget else f(x_f + p_f * cell)
        cell = forgetting * cell + entering * g(x_c)
        return f(x_o + p_o * cell) * h(cell), cell

    return step


def _lstm(
    attrs: Attrs, x: Array, w: Array, r: Array, b: Array | None = None, lengths: Array | None = None,
    h: Array | None = None, c: Array | None = None, p: Array | None = None,
) -> tuple[Array, ...]:  # fmt: skip
    def cell(d: int, inputs: Array) -> Step:
        projected = inputs @ w[d].T + sum(halves(b, d))
        return lstm_cell(attrs, d, projected, lambda t, state: state @ r[d].T, p)

    return walk(attrs, x, r.shape[-1], lengths, [h, c], cell)[: attrs.outputs]


# declarations -------------------------------------------------------------------------------------------------------
def operands(gates: int, count: int, *, states: int = 1, seed: int = 0) -> list[Any]:
    """X, W, R, B, sequence_lens and initial states for `count` directions: T = 5, B = 3, I = 4, H = 6."""
    t, b, i, h = 5, 3, 4, 6
    shapes = [(t, b, i), (count, gates * h, i), (count, gates * h, h), (count, 2 * gates * h)]
    first = [floats(*shape, low=-0.7, high=0.7, seed=seed) for shape in shapes]
    return [*first, vector(5, 2, 4, dtype="int32"), *(floats(count, b, h, seed=seed + k) for k in range(1, states + 1))]


def _samples(gates: int, states: int, default: list[str], **extra: list[Any]) -> list[Sample]:
    one, two = operands(gates, 1, states=states), operands(gates, 2, states=states)
    names: dict[str, Any] = {"activations": [*default[:-1], "LeakyRelu"] * 2, "activation_alpha": [0.1, 0.3]}
    alone: dict[str, Any] = {"activations": ["HardSigmoid", "Softsign", "Elu"][3 - len(default) :], "clip": 0.4}
    outputs = states + 1
    cases = [
        sample(*one[:3], hidden_size=6, outputs=outputs),
        sample(*one[:4], hidden_size=6, outputs=1),
        sample(*two, hidden_size=6, direction="bidirectional", outputs=outputs),
        sample(*two[:3], None, two[4], hidden_size=6, direction="bidirectional", outputs=outputs, **names),
        sample(*one[:4], None, *one[5:], hidden_size=6, direction="reverse", outputs=outputs, **alone),
        sample(*one, hidden_size=6, direction="reverse", outputs=outputs, clip=0.3),
    ]
    for key, values in extra.items():
        cases += [sample(*one, hidden_size=6, outputs=outputs, clip=0.9, **{key: value}) for value in values]
    return cases


_INPUTS = (
    Param("X", REALS), Param("W", REALS), Param("R", REALS), Param("B", REALS, optional=True),
    Param("sequence_lens", INT32, "T1", optional=True), Param("initial_h", REALS, optional=True),
)  # fmt: skip
_OUTPUTS = (Param("Y", REALS, optional=True), Param("Y_h", REALS, optional=True))
LSTM_MORE = (Param("initial_c", REALS, optional=True), Param("P", REALS, optional=True))
LSTM_FORGET = {"input_forget": Attribute("int", 0, choices=(0, 1))}


def _lstm_samples() -> list[Sample]:
    one, peephole = operands(4, 1, states=2), floats(1, 18, seed=9)
    return [
        *_samples(4, 2, ["Sigmoid", "Tanh", "Tanh"], input_forget=[1]),
        sample(*one, peephole, hidden_size=6, outputs=3),
        sample(*one, peephole, hidden_size=6, outputs=3, clip=0.5, input_forget=1),
    ]


declare(
    "RNN", Kind.OPAQUE, _INPUTS, _OUTPUTS, recurrent_shapes(1, 1), _rnn, attributes={**ATTRIBUTES, **_LAYOUT},
    since=(7, 14, 22), samples=lambda: _samples(1, 1, ["Tanh"]),
)  # fmt: skip
declare(
    "GRU", Kind.OPAQUE, _INPUTS, _OUTPUTS, recurrent_shapes(3, 2), _gru, since=(7, 14, 22),
    attributes={**ATTRIBUTES, **_LAYOUT, "linear_before_reset": Attribute("int", 0)},
    samples=lambda: _samples(3, 1, ["Sigmoid", "Tanh"], linear_before_reset=[1]),
)  # fmt: skip
declare(
    "LSTM", Kind.OPAQUE, (*_INPUTS, *LSTM_MORE), (*_OUTPUTS, Param("Y_c", REALS, optional=True)),
    recurrent_shapes(4, 3), _lstm, attributes={**ATTRIBUTES, **_LAYOUT, **LSTM_FORGET}, since=(7, 14, 22),
    samples=_lstm_samples,
)  # fmt: skip
