"""TypeProto to the types of values."""

from __future__ import annotations

from typing import Any

from jitopt.errors import ModelError, UnsupportedOperator
from jitopt.ir.dims import Dim, symbol
from jitopt.ir.dtypes import BY_ONNX_CODE, DType
from jitopt.ir.types import OptionalType, SequenceType, TensorType, Type
from jitopt.onnx_io.text import count_elements, text

# What exporters write for "unknown"; two such dims are not the same one.
_PLACEHOLDERS = frozenset({"", "?", "*", "-1", "None", "none", "unk"})


def element_dtype(code: int, what: str) -> DType:
    dtype = BY_ONNX_CODE.get(code)
    if dtype is None:
        raise ModelError(f"{what} has the unknown element type {code}")
    return dtype


def decode_type(proto: Any, name: str) -> Type | None:
    """The type of value `name`; None where the file does not say.

    Named dims become the symbol of that name, unknown ones the symbol `?<name>_<axis>`.
    Raises ModelError for an unknown element type, a negative or an overflowing extent, UnsupportedOperator for a
    sparse, map or opaque type.
    """
    what = f"value '{name}'"
    kind = proto.WhichOneof("value")
    if kind is None:
        return None
    inner = getattr(proto, kind)
    if kind == "tensor_type":
        if not inner.elem_type:
            return None
        dtype = element_dtype(inner.elem_type, what)
        if not inner.HasField("shape"):
            return TensorType(dtype, None)
        shape = tuple(_dim(d, f"?{name}_{axis}", what) for axis, d in enumerate(inner.shape.dim))
        static = count_elements((d for d in shape if isinstance(d, int)), what)
        count_elements((static, dtype.itemsize), f"{what}, in bytes,")
        return TensorType(dtype, shape)
    if kind in ("sequence_type", "optional_type"):
        element = decode_type(inner.elem_type, name)
        if element is None:
            raise ModelError(f"{what} has a {kind[:-5]} type without an element type")
        return SequenceType(element) if kind == "sequence_type" else OptionalType(element)
    raise UnsupportedOperator(f"{what} has a {kind[:-5].replace('_', ' ')} type, which is not supported")


def _dim(proto: Any, unknown: str, what: str) -> Dim:
    kind = proto.WhichOneof("value")
    if kind == "dim_value":
        extent = int(proto.dim_value)
        if extent < -1:
            raise ModelError(f"{what} has the negative extent {extent}")
        return symbol(unknown) if extent == -1 else extent
    name = text(proto.dim_param, f"a dimension of {what}") if kind == "dim_param" else ""
    return symbol(unknown if name in _PLACEHOLDERS else name)
