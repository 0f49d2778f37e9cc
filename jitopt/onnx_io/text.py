"""Names and numbers from a model file, checked: protobuf hands out bytes where a string is not UTF-8."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from jitopt.errors import ModelError

MOST_ELEMENTS = 2**63 - 1


def text(value: Any, what: str) -> str:
    """The string. Raises ModelError where the file's bytes are not UTF-8."""
    if isinstance(value, str):
        return value
    try:
        return bytes(value).decode("utf-8")
    except UnicodeDecodeError:
        raise ModelError(f"{what} is not UTF-8 text: {bytes(value)[:40]!r}") from None


def qualified(domain: Any, op_type: Any) -> str:
    """An operator's name in the IR: its ONNX name, the domain in front where it is not the default one."""
    prefix, name = domain_of(domain), text(op_type, "an operator's name")
    return f"{prefix}.{name}" if prefix else name


def domain_of(domain: Any) -> str:
    """The domain, "" for the default one under either of its two spellings."""
    name = text(domain, "an operator domain")
    return "" if name == "ai.onnx" else name


def count_elements(dims: Iterable[int], what: str) -> int:
    """The product of static extents, in Python integers, before anything is allocated.

    Raises ModelError for a negative extent or a count that no 64-bit index can reach.
    """
    count, empty = 1, False
    for d in dims:
        if d < 0:
            raise ModelError(f"{what} has the negative extent {d}")
        empty = empty or d == 0
        count *= d or 1
    if count > MOST_ELEMENTS:
        raise ModelError(f"{what} has {count} elements, more than 64 bits can index")
    return 0 if empty else count
