"""Element types: every ONNX dtype, with what NumPy calls it where NumPy has it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True)
class DType:
    """One element type.

    `numpy` is the array dtype that holds it, or None for types NumPy lacks (they can be read, printed and
    verified, but not computed with). `bits` is the size of one stored element; sub-byte types are packed in files.
    """

    name: str
    onnx_code: int
    bits: int
    numpy: np.dtype[Any] | None
    kind: str  # "float", "int", "uint", "bool", "complex", "string"

    @property
    def itemsize(self) -> int:
        """Bytes of one element in memory; sub-byte types take a whole byte once unpacked."""
        return max(1, self.bits // 8)

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def is_integer(self) -> bool:
        return self.kind in ("int", "uint")

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return self.name


def _plain(name: str, code: int, kind: str) -> DType:
    dtype = np.dtype(name)
    return DType(name, code, dtype.itemsize * 8, dtype, kind)


_ALL = (
    _plain("float32", 1, "float"),
    _plain("uint8", 2, "uint"),
    _plain("int8", 3, "int"),
    _plain("uint16", 4, "uint"),
    _plain("int16", 5, "int"),
    _plain("int32", 6, "int"),
    _plain("int64", 7, "int"),
    DType("string", 8, 64, np.dtype(object), "string"),
    _plain("bool", 9, "bool"),
    _plain("float16", 10, "float"),
    _plain("float64", 11, "float"),
    _plain("uint32", 12, "uint"),
    _plain("uint64", 13, "uint"),
    _plain("complex64", 14, "complex"),
    _plain("complex128", 15, "complex"),
    DType("bfloat16", 16, 16, None, "float"),
    DType("float8e4m3fn", 17, 8, None, "float"),
    DType("float8e4m3fnuz", 18, 8, None, "float"),
    DType("float8e5m2", 19, 8, None, "float"),
    DType("float8e5m2fnuz", 20, 8, None, "float"),
    DType("uint4", 21, 4, None, "uint"),
    DType("int4", 22, 4, None, "int"),
    DType("float4e2m1", 23, 4, None, "float"),
    DType("float8e8m0", 24, 8, None, "float"),
    DType("uint2", 25, 2, None, "uint"),
    DType("int2", 26, 2, None, "int"),
    DType("float6e2m3", 27, 6, None, "float"),
    DType("float6e3m2", 28, 6, None, "float"),
)
BY_NAME: dict[str, DType] = {d.name: d for d in _ALL}
BY_ONNX_CODE: dict[int, DType] = {d.onnx_code: d for d in _ALL}
_BY_NUMPY = {d.numpy: d for d in _ALL if d.numpy is not None}

FLOAT32, INT32, INT64, BOOL = (BY_NAME[n] for n in ("float32", "int32", "int64", "bool"))


def dtype_of(spec: DType | str | np.dtype[Any] | type) -> DType:
    """The DType for a name ("float32"), a NumPy dtype or a DType. Raises KeyError for what ONNX has no type for."""
    if isinstance(spec, DType):
        return spec
    if isinstance(spec, str) and spec in BY_NAME:
        return BY_NAME[spec]
    dtype = np.dtype(spec).newbyteorder("=")
    if dtype.kind in "US":
        return BY_NAME["string"]
    return _BY_NUMPY[dtype]
