"""Attention and RotaryEmbedding as single operators."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from jitopt.errors import ModelError
from jitopt.ir.dims import Dim, Shape
from jitopt.ir.graph import Node
from jitopt.ops import cases
from jitopt.ops.operator import Array, Attribute, Attrs, Kind, Param, Sample
from jitopt.ops.reduction import SWITCH
from jitopt.ops.rules import require, same, shape_of, shape_or_none, show
from jitopt.ops.signature import BOOLS, NUMERIC, REALS, declare, dtypes


# Attention ----------------------------------------------------------------------------------------------------------
def _heads_shape(shape: Shape, heads: int | None, name: str) -> Shape:
    """[N, heads, length, size] of a 4-D operand, or of a 3-D one [N, length, heads * size]."""
    if len(shape) == 4:
        return shape
    require(len(shape) == 3, f"{name} must have rank 3 or 4, not shape {show(shape)}")
    if heads is None:
        raise ModelError(f"{name} of rank 3 needs the attributes q_num_heads and kv_num_heads")
    width = shape[2]
    require(not isinstance(width, int) or width % heads == 0, f"{name} of width {width} has no {heads} heads")
    return (shape[0], heads, shape[1], width // heads)


def _rule(node: Node, attrs: Attrs) -> Sequence[Shape]:
    if (node.input(4) is None) != (node.input(5) is None):
        raise ModelError("past_key and past_value go together")
    q = _heads_shape(shape_of(node, 0), attrs.q_num_heads, "Q")
    k = _heads_shape(shape_of(node, 1), attrs.kv_num_heads, "K")
    v = _heads_shape(shape_of(node, 2), attrs.kv_num_heads, "V")
    same(q[3], k[3], "the head sizes of Q and K differ")
    same(k[2], v[2], "the lengths of K and V differ")
    if isinstance(q[1], int) and isinstance(k[1], int) and (not k[1] or q[1] % k[1]):
        raise ModelError(f"{q[1]} query heads cannot share {k[1]} key heads")
    past = shape_or_none(node, 4)
    total = k[2] if past is None else past[2] + k[2]
    out: Shape = (*q[:3], v[3]) if len(shape_of(node)) == 4 else (q[0], q[2], q[1] * v[3])
    keys: Shape = (k[0], k[1], total, k[3])
    values: Shape = (v[0], v[1], total, v[3])
    return [out, keys, values, (*q[:3], total)][: len(node.outputs)]


def _split_heads(x: Array, heads: Any) -> Array:
    if x.ndim == 4:
        return x
    return x.reshape(*x.shape[:2], heads, x.shape[2] // heads).transpose(0, 2, 1, 3)


def _bias(attrs: Attrs, mask: Array | None, past: int, lengths: Array | None, rows: int, columns: int) -> Array:
    """What is added to the scores, [.., rows, columns]: the mask, the causal frontier, the window, the padding."""
    bias = np.zeros((rows, columns))
    if mask is not None:
        missing = [(0, 0)] * (mask.ndim - 1) + [(0, columns - mask.shape[-1])]
        forbidden: Any = False if mask.dtype == bool else -np.inf
        full = np.pad(mask, missing, constant_values=forbidden)
        bias = np.where(full, 0.0, -np.inf) if mask.dtype == bool else full.astype(np.float64)
    before = np.asarray(past) if lengths is None or past else (lengths - rows).reshape(-1, 1, 1, 1)
    behind = np.arange(rows)[:, None] + before - np.arange(columns)  # how far a key lies behind its query
    allowed = np.ones(behind.shape, bool)
    if attrs.is_causal:
        allowed &= behind >= 0
    if attrs.left_window_size >= 0:
        allowed &= behind <= attrs.left_window_size
    if attrs.right_window_size >= 0:
        allowed &= -behind <= attrs.right_window_size
    if lengths is not None:
        allowed = allowed & (np.arange(columns) < lengths.reshape(-1, 1, 1, 1))
    return np.asarray(bias + np.where(allowed, 0.0, -np.inf))


def _attention(
    attrs: Attrs, q: Array, k: Array, v: Array, mask: Array | None = None, past_key: Array | None = None,
    past_value: Array | None = None, lengths: Array | None = None,
) -> Any:  # fmt: skip
    """softmax(scale * Q K^T + bias) V a head (Vaswani et al., arXiv 1706.03762); key heads shared by query heads."""
    flat = q.ndim == 3
    q, k, v = (
        _split_heads(x, h) for x, h in ((q, attrs.q_num_heads), (k, attrs.kv_num_heads), (v, attrs.kv_num_heads))
    )
    if past_key is not None and past_value is not None:
        k, v = np.concatenate([past_key, k], axis=2), np.concatenate([past_value, v], axis=2)
    keys, values = k, v
    k, v = (np.repeat(x, q.shape[1] // x.shape[1], axis=1).astype(np.float64) for x in (k, v))
    scale = 1 / math.sqrt(q.shape[3]) if attrs.scale is None else attrs.scale
    scores = np.matmul(q.astype(np.float64) * scale, k.swapaxes(-1, -2))
    capped = attrs.softcap * np.tanh(scores / attrs.softcap) if attrs.softcap > 0 else scores
    past = 0 if past_key is None else past_key.shape[2]
    biased = capped + _bias(attrs, mask, past, lengths, q.shape[2], k.shape[2])
    top = np.max(biased, axis=-1, keepdims=True, initial=-np.inf)
    powers = np.exp(biased - np.where(np.isneginf(top), 0.0, top))
    total = powers.sum(axis=-1, keepdims=True)
    shares = powers / np.where(total == 0, 1.0, total)  # a row that may see no key gives zeros
    out = np.matmul(shares, v)
    if flat:
        out = out.transpose(0, 2, 1, 3).reshape(q.shape[0], q.shape[2], -1)
    products = (scores, capped, biased, shares)[attrs.qk_matmul_output_mode]
    return (out, keys, values, products)[: attrs.outputs] if attrs.outputs > 1 else out


def _samples() -> list[Sample]:
    q, k, v = cases.floats(2, 4, 3, 8), cases.floats(2, 4, 5, 8, seed=1), cases.floats(2, 4, 5, 6, seed=2)
    few_k, few_v = cases.floats(2, 2, 5, 8, seed=1), cases.floats(2, 2, 5, 6, seed=2)
    flat = cases.floats(2, 3, 32), cases.floats(2, 5, 32, seed=1), cases.floats(2, 5, 24, seed=2)
    past = cases.floats(2, 4, 2, 8, seed=3), cases.floats(2, 4, 2, 6, seed=4)
    return [
        cases.sample(q, k, v),
        cases.sample(q, k, v, cases.floats(3, 5), scale=0.2),
        cases.sample(q, k, v, cases.bools(2, 1, 3, 5)),
        cases.sample(q, q, q, is_causal=1),
        cases.sample(q, few_k, few_v),
        cases.sample(*flat, q_num_heads=4, kv_num_heads=4),
        cases.sample(q, k, v, softcap=2.0),
        cases.sample(q, k, v, None, *past, outputs=3),
        cases.sample(q, k, v, cases.floats(3, 7), *past, outputs=4, qk_matmul_output_mode=3),
    ]


_COUNT = Attribute("int", check=lambda n: n >= 1)
_WINDOW = Attribute("int", -1, check=lambda n: n >= -1)
_KEYS, _VALUES = Param("K", REALS, "T1"), Param("V", REALS, "T2")
declare(
    "Attention", Kind.OPAQUE,
    (
        Param("Q", REALS, "T1"), _KEYS, _VALUES, Param("attn_mask", NUMERIC | BOOLS, "U", optional=True),
        Param("past_key", REALS, "T1", optional=True), Param("past_value", REALS, "T2", optional=True),
        Param("nonpad_kv_seqlen", dtypes("int64"), "I", optional=True),
    ),
    (
        Param("Y", REALS, "T1"), Param("present_key", REALS, "T1", optional=True),
        Param("present_value", REALS, "T2", optional=True), Param("qk_matmul_output", REALS, "T1", optional=True),
    ),
    _rule, _attention, since=(23, 24, 25), samples=_samples,
    attributes={
        "is_causal": SWITCH, "kv_num_heads": _COUNT, "left_window_size": _WINDOW, "q_num_heads": _COUNT,
        "qk_matmul_output_mode": Attribute("int", 0, choices=(0, 1, 2, 3)), "right_window_size": _WINDOW,
        "scale": Attribute("float"), "softcap": Attribute("float", 0.0), "softmax_precision": Attribute("int"),
    },
)  # fmt: skip


# RotaryEmbedding ----------------------------------------------------------------------------------------------------
def _rotary_rule(node: Node, attrs: Attrs) -> Sequence[Shape]:
    shape = shape_of(node)
    size: Dim = _heads_shape(shape, attrs.num_heads, "X")[3]
    turned = attrs.rotary_embedding_dim or size
    for index in (1, 2):
        cache = shape_of(node, index)
        require(len(cache) == (3 if node.input(3) is None else 2), f"input {index} has shape {show(cache)}")
        if isinstance(turned, int):
            same(cache[-1], turned // 2, f"the last axis of input {index} and half the rotated size differ")
    return [shape]


def _rotary(attrs: Attrs, x: Array, cosines: Array, sines: Array, positions: Array | None = None) -> Array:
    """Pairs of elements turned by the angle of their position (Su et al., arXiv 2104.09864)."""
    heads = _split_heads(x, attrs.num_heads)
    count = attrs.rotary_embedding_dim or heads.shape[3]
    turned, rest = heads[..., :count], heads[..., count:]
    if positions is not None:
        cosines, sines = cosines[positions], sines[positions]
    cosines, sines = cosines[:, None], sines[:, None]
    pairs: list[tuple[Any, ...]] = [(..., slice(0, None, 2)), (..., slice(1, None, 2))]
    if not attrs.interleaved:
        pairs = [(..., slice(0, count // 2)), (..., slice(count // 2, None))]
    first, second = turned[pairs[0]], turned[pairs[1]]
    out = np.empty_like(turned)
    out[pairs[0]] = cosines * first - sines * second
    out[pairs[1]] = sines * first + cosines * second
    whole = np.concatenate([out, rest], axis=-1)
    return whole if x.ndim == 4 else whole.transpose(0, 2, 1, 3).reshape(x.shape)


def _rotary_samples() -> list[Sample]:
    x, flat = cases.floats(2, 4, 3, 8), cases.floats(2, 3, 32)
    table = cases.floats(6, 4), cases.floats(6, 4, seed=1)
    positions = cases.ints(2, 3, low=0, high=6)
    direct = cases.floats(2, 3, 4), cases.floats(2, 3, 4, seed=1)
    return [
        cases.sample(x, *table, positions),
        cases.sample(x, *table, positions, interleaved=1),
        cases.sample(flat, *table, positions, num_heads=4),
        cases.sample(x, *direct),
        cases.sample(x, cases.floats(6, 2), cases.floats(6, 2, seed=1), positions, rotary_embedding_dim=4),
    ]


_HALF = REALS - dtypes("float64")
declare(
    "RotaryEmbedding", Kind.OPAQUE,
    (
        Param("X", _HALF), Param("cos_cache", _HALF), Param("sin_cache", _HALF),
        Param("position_ids", dtypes("int64"), "M", optional=True),
    ),
    (Param("Y", _HALF),), _rotary_rule, _rotary, since=(23,), samples=_rotary_samples,
    attributes={
        "interleaved": SWITCH, "num_heads": _COUNT,
        "rotary_embedding_dim": Attribute("int", 0, check=lambda n: n >= 0 and n % 2 == 0),
    },
)  # fmt: skip
