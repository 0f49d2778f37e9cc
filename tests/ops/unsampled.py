"""Operators whose declaration carries no sample cases, and forms that no sample can reach; each with its reason."""

from __future__ import annotations

_SUBGRAPHS = "needs subgraphs: tests/ops/test_control_flow.py"
_OPTIONAL = "an optional cannot be fed: tests/ops/test_control_flow.py"

# "Operator", or "Operator-opset" for one form of it.
UNSAMPLED: dict[str, str] = {
    "If": _SUBGRAPHS,
    "Loop": _SUBGRAPHS,
    "Scan": _SUBGRAPHS,
    "SequenceMap": _SUBGRAPHS,
    "Optional": _OPTIONAL,
    "jitopt.ChannelShuffle": "our own, between blocked values only",
    "jitopt.Reorder": "our own change of layout, no ONNX operator",
    "OptionalHasElement-15": _OPTIONAL,
    "OptionalGetElement-15": _OPTIONAL,
}
