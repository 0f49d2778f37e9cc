"""TensorProto and SparseTensorProto to arrays, every size checked before memory is taken."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitopt.errors import MemoryLimitError, ModelError
from jitopt.ir.dtypes import BY_NAME, BY_ONNX_CODE, DType
from jitopt.ir.storage import packed_bytes, storage, unpack
from jitopt.onnx_io.external import Budget, Folder, read_external
from jitopt.onnx_io.text import count_elements, text

Array = np.ndarray[Any, Any]

# Which field may hold which element types beside raw_data, and the type of the field's entries.
_BITS = "float16 bfloat16 float8e4m3fn float8e4m3fnuz float8e5m2 float8e5m2fnuz float8e8m0"
_SMALL = "float6e2m3 float6e3m2 float4e2m1 uint4 int4 uint2 int2"
_FIELDS: dict[str, tuple[str, str]] = {
    "float_data": ("float32", "float32 complex64"),
    "int32_data": ("int32", f"int32 int16 int8 uint16 uint8 bool {_BITS} {_SMALL}"),
    "int64_data": ("int64", "int64"),
    "double_data": ("float64", "float64 complex128"),
    "uint64_data": ("uint64", "uint64 uint32"),
    "string_data": ("object", "string"),
}
_EXTERNAL = 1
_MOST_DENSE = 1 << 31  # bytes a sparse tensor may grow to where the caller sets no limit


def numpy_bytes(count: int, dtype: DType) -> int:
    """Bytes of the array that holds `count` elements."""
    return count * storage(dtype).itemsize


class TensorReader:
    """Decodes the tensors of one model. `folder` is where external data may lie, None for a model without a path."""

    def __init__(self, folder: Folder | None, budget: Budget) -> None:
        self.folder, self.budget = folder, budget

    def tensor(self, proto: Any, what: str) -> Array:
        """The array of a TensorProto: native byte order, contiguous, read-only; see `jitopt.ir.storage`.

        `what` names the tensor in errors. Raises ModelError for a malformed one, MemoryLimitError beyond the budget.
        """
        dtype = BY_ONNX_CODE.get(proto.data_type)
        if dtype is None:
            raise ModelError(f"{what} has the unknown element type {proto.data_type}")
        shape = tuple(int(d) for d in proto.dims)
        count = count_elements(shape, what)
        if proto.HasField("segment"):
            raise ModelError(f"{what} is stored in segments, which no model in use does")
        array = self._flat(proto, dtype, count, what).reshape(shape)
        array.flags.writeable = False
        return array

    def _flat(self, proto: Any, dtype: DType, count: int, what: str) -> Array:
        filled = [name for name in _FIELDS if len(getattr(proto, name))]
        if proto.data_location == _EXTERNAL:
            if dtype.kind == "string":
                raise ModelError(f"{what} holds strings, which cannot be external data")
            self.budget.take(numpy_bytes(count, dtype), what)
            return _from_raw(read_external(proto, packed_bytes(count, dtype), self.folder, what), count, dtype)
        raw = proto.raw_data if proto.HasField("raw_data") else b""
        if len(filled) + bool(raw) > 1:
            raise ModelError(f"{what} has its data in several fields at once")
        if filled:
            return self._from_field(proto, filled[0], dtype, count, what)
        if dtype.kind == "string" and (raw or count):
            raise ModelError(f"{what} holds strings, but string_data is empty where its shape needs {count}")
        if len(raw) != packed_bytes(count, dtype):
            raise ModelError(
                f"{what} has {len(raw)} bytes of data where shape {list(proto.dims)} of {dtype} needs "
                f"{packed_bytes(count, dtype)}"
            )
        self.budget.take(numpy_bytes(count, dtype), what)
        return _from_raw(np.frombuffer(raw, np.uint8), count, dtype)

    def _from_field(self, proto: Any, name: str, dtype: DType, count: int, what: str) -> Array:
        entry_type, allowed = _FIELDS[name]
        if dtype.name not in allowed.split():
            raise ModelError(f"{what} of type {dtype} has its data in {name}")
        entries = getattr(proto, name)
        if dtype.name in _SMALL.split() and dtype.bits != 6:
            expected = packed_bytes(count, dtype)
        else:
            expected = count * (2 if dtype.kind == "complex" else 1)
        if len(entries) != expected:
            shape = list(proto.dims)
            raise ModelError(f"{what} has {len(entries)} entries in {name} where shape {shape} needs {expected}")
        self.budget.take(numpy_bytes(count, dtype), what)
        if dtype.kind == "string":
            strings = np.empty(count, object)
            strings[:] = [text(s, f"element {i} of {what}") for i, s in enumerate(entries)]
            return strings
        wide = np.fromiter(entries, np.dtype(entry_type), len(entries))
        return _narrow(wide, dtype, count, what)

    def sparse(self, proto: Any, what: str) -> Array:
        """A SparseTensorProto as a dense array."""
        shape = tuple(int(d) for d in proto.dims)
        count = count_elements(shape, what)
        values = self.tensor(proto.values, f"the values of {what}")
        indices = self.tensor(proto.indices, f"the indices of {what}")
        dtype = BY_ONNX_CODE[proto.values.data_type]
        if values.ndim != 1 or indices.dtype != np.int64 or indices.ndim not in (1, 2):
            raise ModelError(f"{what} needs 1-D values and int64 indices of rank 1 or 2")
        if len(indices) != len(values) or (indices.ndim == 2 and indices.shape[1] != len(shape)):
            raise ModelError(f"{what} has {len(values)} values and indices of shape {list(indices.shape)}")
        extents = np.array(shape if indices.ndim == 2 else [count], np.int64)
        if len(values) and not bool(np.all((indices.reshape(len(values), -1) >= 0) & (_rows(indices) < extents))):
            raise ModelError(f"{what} has an index outside its shape {list(shape)}")
        size = numpy_bytes(count, dtype)
        if self.budget.limit is None and size > _MOST_DENSE:
            raise MemoryLimitError(f"{what} would take {size} bytes as a dense tensor", remedy="set max_memory")
        self.budget.take(size, what)
        dense = np.full(count, "" if dtype.kind == "string" else 0, storage(dtype))
        flat = indices if indices.ndim == 1 else np.ravel_multi_index(tuple(indices.T), shape)
        dense[flat] = values
        array = dense.reshape(shape)
        array.flags.writeable = False
        return array


def _rows(indices: Array) -> Array:
    return indices.reshape(len(indices), -1)


def _from_raw(raw: Array, count: int, dtype: DType) -> Array:
    """Little-endian bytes to elements."""
    if dtype.bits < 8:
        return unpack(raw, count, dtype)
    if dtype.kind == "bool":
        return np.asarray(raw != 0)
    held = storage(dtype)
    return raw.view(held.newbyteorder("<")).astype(held, copy=False)


def _narrow(wide: Array, dtype: DType, count: int, what: str) -> Array:
    """Entries of a typed field to elements; what does not fit the element type is an error."""
    if dtype.kind == "complex":
        return wide.view(storage(dtype))
    if dtype.kind == "bool":
        return np.asarray(wide != 0)
    if dtype.numpy is not None and wide.dtype == dtype.numpy:
        return wide
    if dtype.bits < 8 and dtype.bits != 6:
        bits = BY_NAME["uint8"].numpy
    elif dtype.kind == "float":
        bits = np.dtype(f"u{dtype.itemsize}")
    else:
        bits = dtype.numpy
    assert bits is not None
    limits = np.iinfo(bits)
    high = 63 if dtype.bits == 6 else limits.max
    if wide.size and (int(wide.min()) < limits.min or int(wide.max()) > high):
        raise ModelError(f"{what} has an entry that does not fit {dtype}")
    narrow = wide.astype(bits)
    return unpack(narrow, count, dtype) if dtype.bits < 8 and dtype.bits != 6 else narrow.view(storage(dtype))
