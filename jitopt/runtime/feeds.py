"""What `run` is given: checked against the program's inputs, converted to contiguous arrays, shapes read."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jitopt.errors import FeedError, JitoptError, ShapeError
from jitopt.ir.dims import Expr, symbols
from jitopt.ir.types import TensorType, Type
from jitopt.lower.program import Port

Array = np.ndarray[Any, Any]


def read_feeds(ports: Sequence[Port], feeds: Mapping[str, Any], model: str) -> list[Any]:
    """The feeds in the order of the ports, tensors as C-contiguous arrays of the declared dtype.

    An array is used in place where it can be: right dtype, native byte order, contiguous, aligned. Raises FeedError for
    a missing, superfluous or misnamed feed and for a wrong dtype, ShapeError for a wrong rank or extent.
    """
    if not isinstance(feeds, Mapping):
        raise FeedError(f"feeds must be a dictionary of arrays by input name, not {type(feeds).__name__}", model=model)
    if len(feeds) != len(ports) or any(p.name not in feeds for p in ports):
        _explain_names(ports, feeds, model)
    try:
        return [_convert(port.name, port.type, feeds[port.name]) for port in ports]
    except JitoptError as error:
        raise error.at(model=model) from error.__cause__


def _explain_names(ports: Sequence[Port], feeds: Mapping[str, Any], model: str) -> None:
    known = [p.name for p in ports]
    missing = [n for n in known if n not in feeds]
    unknown = [str(n) for n in feeds if n not in known]
    parts = []
    if missing:
        parts.append("missing feed " + ", ".join(map(repr, missing)))
    for name in unknown:
        near = difflib.get_close_matches(name, known, n=1)
        parts.append(f"no input is named {name!r}" + (f", did you mean {near[0]!r}?" if near else ""))
    raise FeedError("; ".join(parts), model=model, remedy=f"inputs are {', '.join(map(repr, known)) or 'none'}")


def _convert(name: str, type: Type, feed: Any) -> Any:
    if not isinstance(type, TensorType):
        return feed
    dtype = type.dtype.numpy
    if dtype is None:
        raise FeedError(f"input {name!r} is {type.dtype}, which NumPy cannot hold")
    if isinstance(feed, np.ndarray):
        array = feed
        if array.dtype.newbyteorder("=") != dtype and not (dtype == object and array.dtype.kind in "US"):
            raise FeedError(
                f"input {name!r} takes {type.dtype}, the feed is {array.dtype}", remedy="convert it with astype"
            )
    else:
        try:
            array = np.asarray(feed)
        except (ValueError, TypeError) as error:
            raise FeedError(f"input {name!r}: the feed does not convert to an array") from error
        if array.dtype != dtype:
            if dtype != object and (array.dtype == object or not np.can_cast(array.dtype, dtype, "same_kind")):
                raise FeedError(f"input {name!r} takes {type.dtype}, the feed converts to {array.dtype}")
            array = array.astype(dtype)
    array = np.require(array, dtype, ["C_CONTIGUOUS", "ALIGNED"])
    if type.shape is not None and array.ndim != len(type.shape):
        raise ShapeError(f"input {name!r} has rank {len(type.shape)}, {type}, the feed has shape {array.shape}")
    return array


def bind_symbols(ports: Sequence[Port], arrays: Sequence[Any]) -> dict[str, int]:
    """Values of the symbols in the ports' shapes. Raises ShapeError where extents do not fit."""
    values: dict[str, int] = {}
    for port, array in zip(ports, arrays, strict=True):
        if not isinstance(port.type, TensorType) or port.type.shape is None:
            continue
        for axis, (dim, extent) in enumerate(zip(port.type.shape, array.shape, strict=True)):
            if isinstance(dim, Expr):
                name = next(iter(symbols(dim)))
                expected = values.setdefault(name, extent)
            else:
                expected = dim
            if extent != expected:
                raise ShapeError(
                    f"axis {axis} of input {port.name!r} must be {expected} ({dim}), the feed has shape {array.shape}"
                )
    return values
