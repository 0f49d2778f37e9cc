"""A node against ONNX's own schema of the version it was written for, before upgrades touch it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import onnx

from jitopt.errors import ModelError
from jitopt.onnx_io.attributes import type_name

# The newest versions whose meaning the operators here were written for.
NEWEST_OPSET = 28
NEWEST_IR = 14
OLDEST_OPSET = 7


@dataclass(frozen=True)
class Schema:
    """What a node is checked for.

    `inputs` and `outputs` are the least and the greatest number of them, the types those of each formal one;
    `function` is the operator's definition by others, where ONNX has one.
    """

    since: int
    deprecated: bool
    inputs: tuple[int, int]
    outputs: tuple[int, int]
    input_types: tuple[frozenset[str], ...]
    output_types: tuple[frozenset[str], ...]
    attributes: dict[str, tuple[int, bool]]  # type code, required
    function: Any


@lru_cache(maxsize=4096)
def schema_of(op_type: str, version: int, domain: str) -> Schema | None:
    """ONNX's schema in force at that opset; None where it has none."""
    try:
        found = onnx.defs.get_schema(op_type, min(version, 2**31 - 1), domain)
    except onnx.defs.SchemaError:
        return None
    attributes = {name: (int(a.type.value), bool(a.required)) for name, a in found.attributes.items()}
    return Schema(
        found.since_version, found.deprecated, (found.min_input, found.max_input), (found.min_output, found.max_output),
        tuple(frozenset(p.types) for p in found.inputs), tuple(frozenset(p.types) for p in found.outputs),
        attributes, _function(found) if found.has_function else None,
    )  # fmt: skip


def _function(schema: Any) -> Any:
    """The schema's own definition as a FunctionProto that knows the attributes' defaults."""
    function = onnx.FunctionProto()
    function.CopyFrom(schema.function_body)
    defaults = [a.default_value for a in schema.attributes.values() if a.default_value.name]
    del function.attribute[:], function.attribute_proto[:]
    function.attribute.extend(set(schema.attributes) - {d.name for d in defaults})
    function.attribute_proto.extend(defaults)
    return function


@lru_cache(maxsize=1)
def known_domains() -> frozenset[str]:
    """Domains whose operators ONNX defines."""
    return frozenset(s.domain for s in onnx.defs.get_all_schemas())


def check_node(op: str, schema: Schema, version: int, inputs: int, outputs: int, attributes: dict[str, int]) -> None:
    """Counts and attribute types (by code) of a node. Raises ModelError."""
    if schema.deprecated:
        raise ModelError(f"{op} was withdrawn from ONNX at opset {schema.since} and the model uses opset {version}")
    for kind, count, (least, most) in (("input", inputs, schema.inputs), ("output", outputs, schema.outputs)):
        if not least <= count <= most:
            wanted = f"{least}" if least == most else f"{least} to {most}" if most < 1 << 30 else f"at least {least}"
            raise ModelError(f"{op} of opset {version} has {count} {kind}s, expected {wanted}")
    for name, code in attributes.items():
        expected = schema.attributes.get(name)
        if expected is None:
            raise ModelError(f"{op} of opset {version} has no attribute '{name}'")
        if expected[0] != code:
            raise ModelError(f"attribute '{name}' of {op} must be {type_name(expected[0])}, it is {type_name(code)}")
    for name, (_, required) in schema.attributes.items():
        if required and name not in attributes:
            raise ModelError(f"{op} needs the attribute '{name}'")


def check_versions(opsets: dict[str, int]) -> None:
    """The versions a model or function imports.

    Raises ModelError for operators older or newer than those known here.
    """
    version = opsets.get("")
    if version is None:
        return
    if version > NEWEST_OPSET:
        raise ModelError(
            f"opset {version} is newer than {NEWEST_OPSET}, the newest known here",
            remedy="export the model with an older opset, or update jitopt",
        )
    if version < OLDEST_OPSET:
        raise ModelError(
            f"opset {version} is older than {OLDEST_OPSET}, the oldest supported",
            remedy="bring the model up to date with onnx.version_converter",
        )
