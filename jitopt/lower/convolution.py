"""Conv and ConvTranspose on blocked values."""

from __future__ import annotations

from jitopt.ir.graph import Node


def reads_row_major(node: Node, lanes: int) -> bool:
    """Whether the convolution reads its input row-major: the first one of an image, with few channels."""
    channels = node.arg(0).shape[1]
    return isinstance(channels, int) and channels < lanes
