"""What a NodeProto says, checked: its name, operator, version, attributes; Constant nodes as arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from jitopt.errors import ModelError
from jitopt.onnx_io.attributes import FIELD_OF, type_of
from jitopt.onnx_io.schema import Schema, check_node, known_domains, schema_of
from jitopt.onnx_io.scope import Scope
from jitopt.onnx_io.tensors import TensorReader
from jitopt.onnx_io.text import domain_of, qualified, text

Attributes = dict[str, tuple[Any, Scope]]  # AttributeProto, and the scope its subgraphs read


@dataclass(frozen=True)
class Call:
    """A node as its file has it; `label` names it in errors, `stem` in the graph."""

    label: str
    stem: str
    op: str
    op_type: str
    domain: str
    overload: str
    inputs: list[str]
    outputs: list[str]


def read_call(proto: Any) -> Call:
    """The node's names. Raises ModelError where they are no text."""
    outputs = [text(o, "an output's name") for o in proto.output]
    op = qualified(proto.domain, proto.op_type)
    op_type = text(proto.op_type, "an operator's name")
    name = text(proto.name, "a node's name")
    label = name or (f"{op} giving {outputs[0]}" if outputs else op)
    overload = text(proto.overload, "an overload") if hasattr(proto, "overload") else ""
    inputs = [text(i, "an input's name") for i in proto.input]
    return Call(label, name or op_type, op, op_type, domain_of(proto.domain), overload, inputs, outputs)


def read_attributes(scope: Scope, proto: Any) -> Attributes:
    """The node's attributes; those that refer to an attribute of the enclosing function are looked up there."""
    found: Attributes = {}
    for attribute in proto.attribute:
        name = text(attribute.name, "an attribute's name")
        if name in found:
            raise ModelError(f"attribute '{name}' is given twice")
        reference = text(attribute.ref_attr_name, f"attribute '{name}'")
        if not reference:
            found[name] = (attribute, scope)
            continue
        argument = scope.argument(reference)
        if argument is not None:
            found[name] = argument
    return found


def check_call(call: Call, scope: Scope, attributes: Attributes) -> tuple[int, Schema | None]:
    """The opset version that governs the node and ONNX's schema for it.

    The schema is None for a foreign domain and for an operator that ONNX does not know at that version.
    Raises ModelError for a call that does not fit its schema.
    """
    version = scope.opsets.get(call.domain)
    if version is None:
        if not call.domain:
            raise ModelError(f"{call.op} belongs to ONNX's own operator set, which the model does not import")
        version = 1  # files of foreign domains often leave the import out
    if call.domain not in known_domains():
        return version, None
    schema = schema_of(call.op_type, version, call.domain)
    if schema is not None:
        codes = {name: type_of(attribute, name) for name, (attribute, _) in attributes.items()}
        inputs = len(call.inputs)
        while inputs and not call.inputs[inputs - 1]:
            inputs -= 1
        check_node(call.op, schema, version, inputs, len(call.outputs), codes)
    return version, schema


_CONSTANTS: dict[str, Any] = {
    "value_float": np.float32, "value_floats": np.float32, "value_int": np.int64, "value_ints": np.int64,
    "value_string": object, "value_strings": object,
}  # fmt: skip


def read_constant(call: Call, attributes: Attributes, tensors: TensorReader) -> np.ndarray[Any, Any]:
    """The array of a Constant node. Raises ModelError unless exactly one attribute holds it."""
    if len(attributes) != 1:
        raise ModelError(f"Constant needs exactly one attribute, it has {len(attributes)}")
    ((name, (proto, _)),) = attributes.items()
    what = f"the value of constant '{call.outputs[0]}'"
    if name == "value":
        return tensors.tensor(proto.t, what)
    if name == "sparse_value":
        return tensors.sparse(proto.sparse_tensor, what)
    if name not in _CONSTANTS:
        raise ModelError(f"Constant has no attribute '{name}'")
    value: Any = getattr(proto, FIELD_OF[type_of(proto, name)])
    if name == "value_string":
        value = text(value, what)
    elif name == "value_strings":
        value = [text(s, what) for s in value]
    array = np.array(value, _CONSTANTS[name])
    array.flags.writeable = False
    return array
