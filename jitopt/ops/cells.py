"""What RNN, GRU and LSTM share: activations, and one walk over the time steps of each direction.

Arrays inside are time-major: x [T, B, I], states [B, H]. A cell is a function `step(t, *states) -> states` whose first
state is the hidden one; all of B is one NumPy operation, only time is a Python loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from jitopt.errors import ExecutionError, ModelError, ShapeError
from jitopt.ops.operator import Array, Attrs

Activation = Callable[[Array], Array]
Step = Callable[..., tuple[Array, ...]]
MakeCell = Callable[[int, Array], Step]


def sigmoid(x: Array) -> Array:
    with np.errstate(over="ignore"):
        result: Array = 1 / (1 + np.exp(-x))
    return result


# Formula, and the defaults of alpha and beta for those that read them (those of the operators of the same name).
_FORMULAS: dict[str, tuple[Callable[..., Array], tuple[float, ...]]] = {
    "relu": (lambda x: np.maximum(x, 0), ()),
    "tanh": (np.tanh, ()),
    "sigmoid": (sigmoid, ()),
    "softsign": (lambda x: x / (1 + np.abs(x)), ()),
    "softplus": (lambda x: np.logaddexp(x, np.zeros_like(x)), ()),
    "affine": (lambda x, alpha, beta: alpha * x + beta, (1.0, 0.0)),
    "scaledtanh": (lambda x, alpha, beta: alpha * np.tanh(beta * x), (1.0, 1.0)),
    "hardsigmoid": (lambda x, alpha, beta: np.clip(alpha * x + beta, 0, 1), (0.2, 0.5)),
    "leakyrelu": (lambda x, alpha: np.where(x < 0, alpha * x, x), (0.01,)),
    "thresholdedrelu": (lambda x, alpha: np.where(x > alpha, x, 0), (1.0,)),
    "elu": (lambda x, alpha: np.where(x < 0, alpha * np.expm1(np.minimum(x, 0)), x), (1.0,)),
}


def activations(attrs: Attrs, default: Sequence[str], direction: int, clipped: int = 9) -> list[Activation]:
    """The activations of one direction; the arguments of the first `clipped` are bounded by `clip` where it is set.

    alpha and beta are handed out in order to those that read them. Raises ModelError for an unknown name or a count
    that does not fit the directions.
    """
    names = [str(n) for n in attrs.activations or list(default) * directions(attrs)]
    if len(names) != len(default) * directions(attrs):
        raise ModelError(f"{len(names)} activations for {directions(attrs)} directions of {len(default)} each")
    alphas, betas = iter(attrs.activation_alpha or ()), iter(attrs.activation_beta or ())
    count = len(default)
    found = [
        _activation(name, alphas, betas, attrs.clip if i % count < clipped else None) for i, name in enumerate(names)
    ]
    return found[direction * count : (direction + 1) * count]


def _activation(name: str, alphas: Iterator[float], betas: Iterator[float], clip: float | None) -> Activation:
    if name.lower() not in _FORMULAS:
        raise ModelError(f"unknown activation '{name}'")
    formula, defaults = _FORMULAS[name.lower()]
    given = [float(next(source, d)) for source, d in zip((alphas, betas), defaults, strict=False)]
    if not clip:
        return lambda x: formula(x, *given)
    return lambda x: formula(np.clip(x, -clip, clip), *given)


def directions(attrs: Attrs) -> int:
    return 2 if attrs.direction == "bidirectional" else 1


def walk(
    attrs: Attrs, x: Array, hidden: int, lengths: Array | None, initial: Sequence[Array | None], make_cell: MakeCell
) -> tuple[Array, ...]:
    """Y and the final states: Y [T, D, B, H] and [D, B, H] each, with the batch in front under layout 1.

    `make_cell(d, x)` gives the step function of direction d for time-ordered inputs x [T, B, I]. `initial` holds one
    array [D, B, H] a state (None: zeros). Beyond a sequence's length Y is zero and its states stay.
    """
    batch_first = bool(getattr(attrs, "layout", 0))
    if batch_first:
        x = x.transpose(1, 0, 2)
        initial = [None if s is None else s.transpose(1, 0, 2) for s in initial]
    steps, batch, count = x.shape[0], x.shape[1], directions(attrs)
    if attrs.hidden_size not in (None, hidden):
        raise ShapeError(f"hidden_size {attrs.hidden_size} where the weights have {hidden}")
    if lengths is not None and lengths.size and not 0 <= lengths.min() <= lengths.max() <= steps:
        raise ExecutionError(f"sequence_lens {lengths.tolist()} do not fit {steps} steps")
    y = np.zeros((steps, count, batch, hidden), x.dtype)
    finals = [np.zeros((count, batch, hidden), x.dtype) for _ in initial]
    for d in range(count):
        order = _reversal(steps, batch, lengths) if d == 1 or attrs.direction == "reverse" else None
        step = make_cell(d, x if order is None else x[order])
        states = tuple(np.zeros((batch, hidden), x.dtype) if s is None else s[d] for s in initial)
        for t in range(steps):
            new = step(t, *states)
            if lengths is None:
                states, y[t, d] = new, new[0]
            else:
                alive = (t < lengths)[:, None]
                states = tuple(np.where(alive, a, b) for a, b in zip(new, states, strict=True))
                y[t, d] = np.where(alive, new[0], 0)
        if order is not None:
            y[:, d] = y[:, d][order]
        for final, state in zip(finals, states, strict=True):
            final[d] = state
    if batch_first:
        return y.transpose(2, 0, 1, 3), *(f.transpose(1, 0, 2) for f in finals)
    return y, *finals


def _reversal(steps: int, batch: int, lengths: Array | None) -> tuple[Array, Array]:
    """Index that turns every sequence round within its own length; its own inverse."""
    time = np.arange(steps)[:, None]
    ends = np.full(batch, steps) if lengths is None else lengths.astype(np.int64)
    return np.where(time < ends, ends - 1 - time, time), np.broadcast_to(np.arange(batch), (steps, batch))


def halves(bias: Array | None, d: int) -> tuple[Array | float, Array | float]:
    """Input and recurrent bias of direction d from B [D, 2*gates*H]; zeros where absent."""
    if bias is None:
        return 0.0, 0.0
    half = bias.shape[1] // 2
    return bias[d, :half], bias[d, half:]
