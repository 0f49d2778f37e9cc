"""How operands lie over a kernel's domain, across layouts."""

from __future__ import annotations

import numpy as np

from jitopt.errors import CompileError
from jitopt.ir.dims import Dim, Shape
from jitopt.ir.graph import Node, Value
from jitopt.ir.types import tensor
from jitopt.lower.body import BodyBuilder, zero_preserving
from jitopt.lower.loops import Strides, broadcast_strides, physical_shape, value_shape


def domain_strides(value: Value, domain: Value, image: Dim | None = None) -> Strides:
    """Strides in elements of `value` over the physical domain of `domain`; its images lie `image` elements apart.

    A row-major operand of a blocked domain must be constant along the channels ([N, 1, H, W], [W], a scalar).
    Raises CompileError where the layouts do not go together.
    """
    block = domain.layout.block
    if value.layout.block == block:
        return broadcast_strides(value_shape(value), value_shape(domain), image)
    if value.layout.block:
        raise CompileError(f"'{value.name}' is blocked in a row-major kernel")
    spread = spread_over_blocks(value.shape, len(domain.shape))
    return broadcast_strides(spread, physical_shape(domain.shape, block), image)


def spread_over_blocks(shape: Shape, rank: int) -> Shape:
    """A row-major [N, 1, spatial...] (or shorter) shape over a blocked domain: one lane, broadcast.

    Raises CompileError where it varies along the channels.
    """
    full = (1,) * (rank - len(shape)) + tuple(shape)
    if full[1] != 1:
        raise CompileError(f"a row-major operand of shape {shape} varies along blocked channels")
    return (*full, 1)


def lane_mask(
    builder: BodyBuilder, nodes: list[Node], stores: list[tuple[str, Value, str]], domain: Value
) -> list[tuple[str, Value, str]]:  # fmt: skip
    """Stores changed so that lanes beyond C hold zero, where the body does not see to that by itself.

    The mask is one more operand: a constant of ones for the lanes that exist.
    """
    block = domain.layout.block
    if not block:
        return stores
    channels = domain.shape[1]
    if isinstance(channels, int) and channels % block == 0:
        return stores
    if not isinstance(channels, int):
        raise CompileError(f"'{domain.name}' is blocked, but its number of channels {channels} is not known")
    good = zero_preserving(nodes, lambda v: v.layout.block == block)
    return [
        (name, value, ref if value in good else _masked(builder, channels, ref, domain)) for name, value, ref in stores
    ]


def _masked(builder: BodyBuilder, channels: int, ref: str, domain: Value) -> str:
    shape = (1, channels) + (1,) * (len(domain.shape) - 2)
    mask = Value(f"lanes_{channels}", tensor("bool", shape))
    mask.constant, mask.layout = np.ones(shape, bool), domain.layout
    dtype = builder.dtype(ref)
    return builder.emit("where", builder.ref(mask), ref, builder.literal(0, dtype), dtype=dtype)
