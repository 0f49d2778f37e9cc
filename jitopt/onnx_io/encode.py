"""Arrays, types and attributes to protos; large arrays to a file beside the model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import numpy as np
from onnx import AttributeProto, TensorProto, TypeProto

from jitopt.errors import ModelError
from jitopt.ir.dims import Dim
from jitopt.ir.dtypes import DType
from jitopt.ir.graph import Graph
from jitopt.ir.storage import element_type, pack, storage
from jitopt.ir.text_dims import dim_text
from jitopt.ir.types import OptionalType, SequenceType, TensorType, Type

Array = np.ndarray[Any, Any]
_ALIGNMENT = 4096  # bytes, so that readers may map the file
_SMALL = 1024  # bytes below which an array stays in the model file


class TensorWriter:
    """Encodes arrays; with a data file, those of at least 1 KB go there."""

    def __init__(self, data: Path | None = None, file: IO[bytes] | None = None) -> None:
        self.location, self.file = "" if data is None else data.name, file

    def tensor(self, array: Array, dtype: DType, name: str) -> TensorProto:
        """The TensorProto of an array that is the storage of `dtype`."""
        proto = TensorProto(name=name, data_type=dtype.onnx_code, dims=array.shape)
        if dtype.kind == "string":
            proto.string_data.extend(s if isinstance(s, bytes) else str(s).encode() for s in array.ravel())
            return proto
        held = np.ascontiguousarray(array)
        if dtype.bits < 8:
            raw: Any = pack(held, dtype)
        else:
            raw = held.astype(storage(dtype).newbyteorder("<"), copy=False).reshape(-1).view(np.uint8).data
        if self.file is None or len(raw) < _SMALL:
            proto.raw_data = bytes(raw)
            return proto
        offset = -(-self.file.tell() // _ALIGNMENT) * _ALIGNMENT
        self.file.write(b"\0" * (offset - self.file.tell()))
        self.file.write(raw)
        proto.data_location = TensorProto.EXTERNAL
        for key, value in (("location", self.location), ("offset", str(offset)), ("length", str(len(raw)))):
            proto.external_data.add(key=key, value=value)
        return proto


def encode_type(type: Type) -> TypeProto:
    """The TypeProto; expressions become named dims under their text, unknown extents stay without a name."""
    proto = TypeProto()
    if isinstance(type, TensorType):
        proto.tensor_type.elem_type = type.dtype.onnx_code
        if type.shape is not None:
            proto.tensor_type.shape.SetInParent()
            for d in type.shape:
                _encode_dim(proto.tensor_type.shape.dim.add(), d)
        return proto
    inner = proto.sequence_type if isinstance(type, SequenceType) else proto.optional_type
    assert isinstance(type, (SequenceType, OptionalType))
    inner.elem_type.CopyFrom(encode_type(type.element))
    return proto


def _encode_dim(proto: Any, d: Dim) -> None:
    if isinstance(d, int):
        proto.dim_value = d
    elif "?" not in str(d):
        name = str(d) if len(d.terms) == 1 and d.terms[0][1] == 1 else ""
        proto.dim_param = name or dim_text(d)


_KINDS = {
    "int": AttributeProto.INT, "float": AttributeProto.FLOAT, "string": AttributeProto.STRING,
    "ints": AttributeProto.INTS, "floats": AttributeProto.FLOATS, "strings": AttributeProto.STRINGS,
    "tensor": AttributeProto.TENSOR, "graph": AttributeProto.GRAPH, "type": AttributeProto.TYPE_PROTO,
}  # fmt: skip


def kind_of(value: Any) -> str:
    """The attribute kind a value has by itself, for operators that declare none."""
    if isinstance(value, (list, tuple)):
        return f"{kind_of(value[0])}s" if value else "ints"
    for kind, types in (
        ("graph", Graph), ("tensor", np.ndarray), ("string", (str, bytes)), ("float", (float, np.floating)),
        ("int", (int, np.integer)),
    ):  # fmt: skip
        if isinstance(value, types):
            return kind
    return "type"


def encode_attribute(
    name: str, value: Any, kind: str, tensors: TensorWriter, graph: Callable[[Graph], Any]
) -> AttributeProto:
    """The AttributeProto of that kind. Raises ModelError where the value is not of it."""
    proto = AttributeProto(name=name, type=_KINDS[kind])
    try:
        if kind == "float":
            proto.f = float(value)
        elif kind == "int":
            proto.i = int(value)
        elif kind == "string":
            proto.s = _bytes(value)
        elif kind == "floats":
            proto.floats.extend(map(float, value))
        elif kind == "ints":
            proto.ints.extend(map(int, value))
        elif kind == "strings":
            proto.strings.extend(map(_bytes, value))
        elif kind == "tensor":
            proto.t.CopyFrom(tensors.tensor(value, element_type(value), ""))
        elif kind == "graph":
            proto.g.CopyFrom(graph(value))
        else:
            proto.tp.CopyFrom(encode_type(value))
    except (TypeError, ValueError, AttributeError) as error:
        raise ModelError(f"attribute '{name}' must be {kind}: {value!r} ({error})") from None
    return proto


def _bytes(value: str | bytes) -> bytes:
    return value if isinstance(value, bytes) else value.encode()
