"""Text of numbers and small arrays, exact to the bit, both ways."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jitopt.ir.dtypes import BY_NAME, DType
from jitopt.ir.lexer import Cursor, quote
from jitopt.ir.storage import storage
from jitopt.ir.text_dims import parse_int

Array = np.ndarray[Any, Any]
_FLOAT64 = BY_NAME["float64"]


def float_text(x: Any, dtype: DType = _FLOAT64) -> str:
    """The shortest decimal that reads back as the same float; NaNs other than the usual one show their bits."""
    value = float(x)
    if math.isnan(value):
        bits = np.asarray(x, dtype.numpy).view(f"u{dtype.itemsize}").item()
        usual = np.array(math.nan, dtype.numpy).view(f"u{dtype.itemsize}").item()
        return "nan" if bits == usual else f"nan(0x{bits:x})"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    short = repr(value)
    if dtype is not _FLOAT64:
        shorter = str(np.asarray(x, dtype.numpy)[()])
        if dtype.numpy is not None and dtype.numpy.type(float(shorter)) == x:
            short = shorter
    return short if any(c in short for c in ".e") else f"{short}.0"


def parse_float(cursor: Cursor, dtype: DType = _FLOAT64) -> Any:
    """A NumPy scalar of the dtype."""
    assert dtype.numpy is not None
    if cursor.accept("nan"):
        if not cursor.accept("("):
            return dtype.numpy.type(math.nan)
        at, bits = cursor.peek.at, parse_int(cursor)
        cursor.expect(")")
        if bits >> dtype.bits:
            raise cursor.error(f"0x{bits:x} does not fit {dtype}", at)
        return np.array(bits, f"u{dtype.itemsize}").view(dtype.numpy)[()]
    negative = cursor.accept("-")
    value = math.inf if cursor.accept("inf") else _decimal(cursor)
    with np.errstate(over="ignore"):
        return dtype.numpy.type(-value if negative else value)


def _decimal(cursor: Cursor) -> float:
    token = cursor.kind("number", "a number")
    if token.text.startswith("0x"):
        raise cursor.error(f"expected a decimal number, found '{token.text}'", token.at)
    return float(token.text)


def array_text(array: Array, dtype: DType) -> str:
    """The elements in row-major order: one element bare for a scalar, else a flat list."""
    elements = [_element_text(x, dtype) for x in array.ravel()]
    return elements[0] if array.ndim == 0 else f"[{', '.join(elements)}]"


def _element_text(x: Any, dtype: DType) -> str:
    if dtype.kind == "string":
        return quote(x.decode("utf-8", "surrogateescape") if isinstance(x, bytes) else str(x))
    if dtype.kind == "bool":
        return "true" if x else "false"
    if dtype.kind == "complex":
        part = BY_NAME["float32" if dtype.itemsize == 8 else "float64"]
        return f"complex({float_text(x.real, part)}, {float_text(x.imag, part)})"
    if dtype.kind == "float":
        return f"0x{int(x):x}" if dtype.numpy is None else float_text(x, dtype)
    return str(int(x))


def parse_array(cursor: Cursor, dtype: DType, shape: tuple[int, ...]) -> Array:
    """The array of that type. Raises ModelError where number or range of the elements do not fit it."""
    start, elements = cursor.peek.at, []
    if not shape:
        elements.append(_parse_element(cursor, dtype))
    else:
        cursor.expect("[")
        while not cursor.at("]"):
            elements.append(_parse_element(cursor, dtype))
            if not cursor.accept(","):
                break
        cursor.expect("]")
    if len(elements) != math.prod(shape):
        raise cursor.error(f"{len(elements)} elements for shape {list(shape)}", start)
    array = np.empty(len(elements), storage(dtype))
    array[:] = elements
    return array.reshape(shape)


def _parse_element(cursor: Cursor, dtype: DType) -> Any:
    if dtype.kind == "string":
        return cursor.string()
    if dtype.kind == "bool":
        if cursor.at("true", "false"):
            return cursor.take().text == "true"
        raise cursor.error(f"expected true or false, found {cursor.found()}")
    if dtype.kind == "complex":
        part = BY_NAME["float32" if dtype.itemsize == 8 else "float64"]
        cursor.expect("complex")
        cursor.expect("(")
        parts = [parse_float(cursor, part)]
        cursor.expect(",")
        parts.append(parse_float(cursor, part))
        cursor.expect(")")
        return np.array(parts).view(storage(dtype))[0]
    if dtype.kind == "float" and dtype.numpy is not None:
        return parse_float(cursor, dtype)
    at, negative = cursor.peek.at, cursor.accept("-")
    value = -parse_int(cursor) if negative else parse_int(cursor)
    low, high = (-1 << dtype.bits - 1, (1 << dtype.bits - 1) - 1) if dtype.kind == "int" else (0, (1 << dtype.bits) - 1)
    if not low <= value <= high:
        raise cursor.error(f"{value} does not fit {dtype}", at)
    return value
