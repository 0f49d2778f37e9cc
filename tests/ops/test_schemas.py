"""Every declaration against ONNX's schema: versions, inputs, outputs, element types, attributes and their defaults."""

from __future__ import annotations

from typing import Any

import onnx
import pytest
from onnx import defs, helper

from jitopt.ir.dtypes import BY_NAME
from jitopt.ops import operators
from jitopt.ops.operator import Operator, Param
from tests.ops.oracle import OLDEST_OPSET, schema_versions

_KNOWN = [o for o in operators() if "." not in o.name and schema_versions(o.name)]
_REMOVED = {"Upsample": 9, "Scatter": 9}  # operators of old opsets only, with their last version
# Where a declaration departs from the schema on purpose.
_VERSIONS = {"Scan": "version 8 had a batch axis and is not supported"}
_RANDOM = ("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")
_NARROWER = dict.fromkeys((*_RANDOM, "DFT", "STFT"), "runs on the host, in NumPy, which has no bfloat16")
_ATTRIBUTES = {
    "Constant": "the reader makes constants, sparse ones too",
    "RNN": "the default activations depend on the direction",
    "Scatter": "read as ScatterElements",
}
_KINDS = {
    "INT": "int", "FLOAT": "float", "STRING": "string", "INTS": "ints", "FLOATS": "floats", "STRINGS": "strings",
    "TENSOR": "tensor", "GRAPH": "graph", "TYPE_PROTO": "type",
}  # fmt: skip


def _schema(operator: Operator) -> Any:
    return defs.get_schema(operator.name, _REMOVED.get(operator.name, defs.onnx_opset_version()))


@pytest.mark.parametrize("operator", _KNOWN, ids=lambda o: o.name)
def test_versions(operator: Operator) -> None:
    """`since` lists the version in force at the oldest opset and every later one."""
    if operator.name in _VERSIONS:
        pytest.skip(_VERSIONS[operator.name])
    versions = [v for v in schema_versions(operator.name) if v <= _REMOVED.get(operator.name, 10**6)]
    first = max((v for v in versions if v <= OLDEST_OPSET), default=min(versions))
    newest_here = defs.onnx_opset_version()
    assert [v for v in operator.since if v <= newest_here] == [v for v in versions if v >= first]


@pytest.mark.parametrize("operator", _KNOWN, ids=lambda o: o.name)
def test_parameters(operator: Operator) -> None:
    schema = _schema(operator)
    for ours, theirs in ((operator.inputs, schema.inputs), (operator.outputs, schema.outputs)):
        assert len(ours) == len(theirs)
        for param, formal in zip(ours, theirs, strict=True):
            assert param.optional == (formal.option == defs.OpSchema.FormalParameterOption.Optional), param.name
            assert param.variadic == (formal.option == defs.OpSchema.FormalParameterOption.Variadic), param.name
            if operator.name in _NARROWER:
                continue
            missing = _types(formal) - {d.name for d in param.dtypes}
            assert not missing, f"{param.name} does not take {sorted(missing)}"


def _types(formal: Any) -> set[str]:
    """Names of the tensor element types a formal parameter takes."""
    plain = {"float": "float32", "double": "float64"}
    names = {t.removeprefix("tensor(").removesuffix(")") for t in formal.types if t.startswith("tensor(")}
    return {plain.get(n, n) for n in names} & set(BY_NAME)


@pytest.mark.parametrize("operator", _KNOWN, ids=lambda o: o.name)
def test_type_variables(operator: Operator) -> None:
    """Parameters share a type variable where ONNX's do."""
    schema = _schema(operator)
    ours: list[Param] = [*operator.inputs, *operator.outputs]
    theirs = [*schema.inputs, *schema.outputs]
    for i, (a, formal_a) in enumerate(zip(ours, theirs, strict=True)):
        for b, formal_b in zip(ours[:i], theirs[:i], strict=True):
            shared = formal_a.type_str == formal_b.type_str and "(" not in formal_a.type_str
            assert not shared or a.type_var == b.type_var, f"{a.name} and {b.name}"


@pytest.mark.parametrize("operator", _KNOWN, ids=lambda o: o.name)
def test_attributes(operator: Operator) -> None:
    if operator.name in _ATTRIBUTES:
        pytest.skip(_ATTRIBUTES[operator.name])
    theirs = _schema(operator).attributes
    assert set(operator.attributes) == set(theirs) - {"consumed_inputs"}
    for name, attribute in operator.attributes.items():
        schema = theirs[name]
        assert attribute.kind == _KINDS[schema.type.name], name
        assert attribute.required == schema.required, name
        expected = _default(schema)
        if expected is not None:
            found = list(attribute.default) if isinstance(attribute.default, tuple) else attribute.default
            assert found == (pytest.approx(expected, rel=1e-6) if isinstance(expected, float) else expected), name


def _default(schema: Any) -> Any:
    if schema.default_value.type == onnx.AttributeProto.UNDEFINED:
        return None
    value = helper.get_attribute_value(schema.default_value)
    return value.decode() if isinstance(value, bytes) else value
