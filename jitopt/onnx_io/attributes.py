"""AttributeProto to Python values: int, float, str, tuples of them, arrays, types and graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onnx import AttributeProto

from jitopt.errors import ModelError, UnsupportedOperator
from jitopt.ir.graph import Graph
from jitopt.onnx_io.tensors import TensorReader
from jitopt.onnx_io.text import text
from jitopt.onnx_io.types import decode_type

# The field that each attribute type uses.
FIELD_OF: dict[int, str] = {
    AttributeProto.FLOAT: "f",
    AttributeProto.INT: "i",
    AttributeProto.STRING: "s",
    AttributeProto.TENSOR: "t",
    AttributeProto.GRAPH: "g",
    AttributeProto.SPARSE_TENSOR: "sparse_tensor",
    AttributeProto.TYPE_PROTO: "tp",
    AttributeProto.FLOATS: "floats",
    AttributeProto.INTS: "ints",
    AttributeProto.STRINGS: "strings",
    AttributeProto.TENSORS: "tensors",
    AttributeProto.GRAPHS: "graphs",
    AttributeProto.SPARSE_TENSORS: "sparse_tensors",
    AttributeProto.TYPE_PROTOS: "type_protos",
}
_SINGLE = {"f", "i", "s", "t", "g", "sparse_tensor", "tp"}
_MESSAGES = {"t", "g", "sparse_tensor", "tp"}


def type_name(code: int) -> str:
    """FLOATS, TENSOR, ... for messages."""
    names: dict[int, str] = {number: name for name, number in AttributeProto.AttributeType.items()}
    return names.get(code, f"the unknown type {code}")


def type_of(proto: Any, name: str) -> int:
    """The attribute's type, told from its fields where an old file leaves it out.

    Raises ModelError where declared type and fields contradict one another.
    """
    filled = [f for f in FIELD_OF.values() if (proto.HasField(f) if f in _SINGLE else len(getattr(proto, f)))]
    declared = int(proto.type)
    if not declared:
        if len(filled) != 1:
            raise ModelError(f"attribute '{name}' has no type and {len(filled)} values")
        return next(code for code, field in FIELD_OF.items() if field == filled[0])
    field = FIELD_OF.get(declared)
    if field is None:
        raise ModelError(f"attribute '{name}' has {type_name(declared)}")
    wrong = [f for f in filled if f != field]
    if wrong:
        raise ModelError(f"attribute '{name}' is declared {type_name(declared)}, but holds '{wrong[0]}'")
    if field in _MESSAGES and not filled:
        raise ModelError(f"attribute '{name}' is declared {type_name(declared)}, but is empty")
    return declared


def decode_attribute(proto: Any, name: str, tensors: TensorReader, build_graph: Callable[[Any], Graph]) -> Any:
    """The attribute's value; `build_graph` turns a GraphProto into a subgraph.

    Raises ModelError for a malformed attribute, UnsupportedOperator for lists of graphs, tensors or types.
    """
    kind, what = type_of(proto, name), f"attribute '{name}'"
    field = FIELD_OF[kind]
    value = getattr(proto, field)
    if field == "f":
        return float(value)
    if field == "i":
        return int(value)
    if field == "s":
        return text(value, what)
    if field in ("floats", "ints"):
        return tuple(value)
    if field == "strings":
        return tuple(text(s, what) for s in value)
    if field == "t":
        return tensors.tensor(value, what)
    if field == "sparse_tensor":
        return tensors.sparse(value, what)
    if field == "tp":
        return decode_type(value, name)
    if field == "g":
        return build_graph(value)
    raise UnsupportedOperator(f"{what} is a list of {field}, which no operator here takes")
