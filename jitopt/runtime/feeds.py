"""What `run` is given: checked against the program's inputs, converted to contiguous arrays, shapes read."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jitopt.errors import FeedError, JitoptError, ShapeError
from jitopt.ir.dims import Environment, Expr, symbols
from jitopt.ir.types import OptionalType, SequenceType, TensorType, Type
from jitopt.lower.program import Port

Array = np.ndarray[Any, Any]


def read_feeds(ports: Sequence[Port], feeds: Mapping[str, Any], model: str) -> list[Any]:
    """The feeds in the order of the ports, tensors as C-contiguous arrays of the declared dtype.

    An array is used in place where it can be: right dtype, native byte order, contiguous, aligned. Raises FeedError for
    a missing, superfluous or misnamed feed and for a wrong dtype, ShapeError for a wrong rank or extent.
    """
    check_names(ports, feeds, model)
    try:
        return [_convert(port.name, port.type, feeds[port.name]) for port in ports]
    except JitoptError as error:
        raise error.at(model=model) from error.__cause__


def check_names(ports: Sequence[Port], feeds: Any, model: str, what: str = "feed") -> None:
    """Every input has its `what` ("feed" or "shape") and there is no other. Raises FeedError."""
    if not isinstance(feeds, Mapping):
        raise FeedError(
            f"{what}s must be a dictionary by input name, not {_kind(feeds)}", model=model,
            remedy=f"inputs are {', '.join(repr(p.name) for p in ports) or 'none'}",
        )  # fmt: skip
    if len(feeds) == len(ports) and all(p.name in feeds for p in ports):
        return
    known = [p.name for p in ports]
    missing = [n for n in known if n not in feeds]
    parts = [f"missing {what} {', '.join(map(repr, missing))}"] if missing else []
    for name in (str(n) for n in feeds if n not in known):
        near = difflib.get_close_matches(name, known, n=1)
        parts.append(f"no input is named {name!r}" + (f", did you mean {near[0]!r}?" if near else ""))
    raise FeedError("; ".join(parts), model=model, remedy=f"inputs are {', '.join(map(repr, known)) or 'none'}")


def _convert(name: str, type: Type, feed: Any) -> Any:
    if isinstance(type, OptionalType):
        return None if feed is None else _convert(name, type.element, feed)
    if isinstance(type, SequenceType):
        if not isinstance(feed, (list, tuple)):
            raise FeedError(f"input {name!r} is {type}: it takes a list of arrays, not {_kind(feed)}")
        return [_convert(f"{name}[{i}]", type.element, element) for i, element in enumerate(feed)]
    dtype = type.dtype.numpy
    if dtype is None:
        raise FeedError(f"input {name!r} is {type.dtype}, which NumPy cannot hold")
    if isinstance(feed, np.ndarray):
        array = np.asarray(feed)  # a subclass's own rules for indexing would be in the way
        if array.dtype.newbyteorder("=") != dtype and not (dtype.kind == "O" and array.dtype.kind in "US"):
            raise FeedError(
                f"input {name!r} takes {type.dtype}, the feed is {array.dtype}", remedy="convert it with astype"
            )
    else:
        array = _from_python(name, type, feed, dtype)
    if array.dtype != dtype or not (array.flags.c_contiguous and array.flags.aligned):
        array = np.require(array, dtype, ["C_CONTIGUOUS", "ALIGNED"])
    if type.shape is not None and array.ndim != len(type.shape):
        raise ShapeError(f"input {name!r} has rank {len(type.shape)}, {type}, the feed has shape {array.shape}")
    return array


def _from_python(name: str, type: TensorType, feed: Any, dtype: Any) -> Array:
    """A list or number as an array: it converts where no digit is lost but those of a float's precision."""
    try:
        array = np.asarray(feed)
    except (ValueError, TypeError, OverflowError) as error:
        raise FeedError(f"input {name!r}: the feed does not convert to an array") from error
    if array.dtype == dtype or dtype.kind == "O":
        return array.astype(dtype, copy=False)
    whole = array.dtype.kind in "iub" and dtype.kind in "iu"
    if array.size and not whole and (array.dtype == object or not np.can_cast(array.dtype, dtype, "same_kind")):
        raise FeedError(f"input {name!r} takes {type.dtype}, {_kind(feed)} converts to {array.dtype}")
    converted = array.astype(dtype)
    if whole and not np.array_equal(converted, array):
        raise FeedError(f"input {name!r} takes {type.dtype}, which does not hold all the numbers of the feed")
    return converted


def _kind(feed: Any) -> str:
    return "None" if feed is None else f"a {type(feed).__name__}"


def shapes_of(arrays: Sequence[Any]) -> tuple[tuple[int, ...] | None, ...]:
    """Shapes of the feeds in order; None for a sequence or an optional that is absent."""
    return tuple(getattr(a, "shape", None) for a in arrays)


def bind_extents(ports: Sequence[Port], shapes: Sequence[Any], model: str) -> dict[str, int]:
    """Values of the symbols in the ports' shapes. Raises ShapeError where ranks or extents do not fit."""
    values: dict[str, int] = {}
    pairs = [
        (port.name, port.type.shape, shape)
        for port, shape in zip(ports, shapes, strict=True)
        if shape is not None and isinstance(port.type, TensorType) and port.type.shape is not None
    ]
    for name, dims, shape in pairs:
        if len(dims) != len(shape):
            raise ShapeError(f"input {name!r} has rank {len(dims)}, the shape given is {shape}", model=model)
        for dim, extent in zip(dims, shape, strict=True):
            if isinstance(dim, Expr) and symbols(dim) == {str(dim)}:
                values.setdefault(str(dim), extent)
    environment = Environment(values)
    for name, dims, shape in pairs:
        for axis, (dim, extent) in enumerate(zip(dims, shape, strict=True)):
            try:
                expected = environment(dim)
            except KeyError as error:
                raise ShapeError(
                    f"axis {axis} of input {name!r} is {dim}, but no input has {error} as an extent", model=model
                ) from None
            if extent != expected:
                what = str(dim) if isinstance(dim, int) else f"{dim} = {expected}"
                raise ShapeError(
                    f"axis {axis} of input {name!r} must be {what}, the feed has shape {shape}", model=model
                )
    return values
