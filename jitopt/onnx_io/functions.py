"""Model-local functions: their calls are replaced by their bodies."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from jitopt.errors import ModelError
from jitopt.ir.graph import Value
from jitopt.onnx_io.load import opsets_of
from jitopt.onnx_io.nodes import Attributes, Call
from jitopt.onnx_io.scope import Scope
from jitopt.onnx_io.text import domain_of, text

Key = tuple[str, str, str]  # domain, name, overload


def function_table(functions: Iterable[Any]) -> dict[Key, Any]:
    """The model's functions. Raises ModelError for one that is defined twice."""
    table: dict[Key, Any] = {}
    for proto in functions:
        overload = text(proto.overload, "an overload") if hasattr(proto, "overload") else ""
        key = (domain_of(proto.domain), text(proto.name, "a function's name"), overload)
        if key in table:
            raise ModelError(f"the function '{key[1]}' of domain '{key[0]}' is defined twice")
        table[key] = proto
    return table


def body_scope(scope: Scope, call: Call, attributes: Attributes, function: Any, prefix: str) -> Scope:
    """The scope of a function's body inside the calling graph: formal inputs and attributes bound to actual ones.

    Raises ModelError for a call that does not fit the function.
    """
    formal = [text(i, "a function's input") for i in function.input]
    if len(call.inputs) > len(formal):
        raise ModelError(f"function {call.op} takes {len(formal)} inputs, {len(call.inputs)} are given")
    if len(call.outputs) > len(function.output):
        raise ModelError(f"function {call.op} gives {len(function.output)} outputs, {len(call.outputs)} are asked for")
    declared = {text(a, "a function's attribute") for a in function.attribute}
    arguments = {text(a.name, "a function's attribute"): (a, scope) for a in function.attribute_proto}
    for name in attributes:
        if name not in declared and name not in arguments:
            raise ModelError(f"function {call.op} has no attribute '{name}'")
    opsets = opsets_of(function.opset_import) or scope.opsets
    body = Scope(scope.graph, opsets, scope.taken, prefix=prefix, arguments={**arguments, **attributes})
    for index, name in enumerate(formal):
        body.bind(name, scope.find(call.inputs[index]) if index < len(call.inputs) else None)
    return body


def output_values(scope: Scope, call: Call, function: Any) -> tuple[dict[str, Value], list[tuple[str, Value]]]:
    """Which of the body's names produce the call's outputs directly, and which need a copy.

    A name needs one where it is returned twice or is the function's own input.
    """
    direct: dict[str, Value] = {}
    copies: list[tuple[str, Value]] = []
    inputs = set(function.input)
    for formal, name in zip(function.output, call.outputs, strict=False):
        value = scope.find(name)
        if value is None:
            continue
        if formal in direct or formal in inputs:
            copies.append((text(formal, "a function's output"), value))
        else:
            direct[text(formal, "a function's output")] = value
    return direct, copies
