"""The table of operators against ONNX's own schemas: which versions can be read, and what the parameters are."""

from __future__ import annotations

import onnx
import pytest
from onnx.defs import OpSchema

from jitopt.onnx_io.schema import NEWEST_OPSET, OLDEST_OPSET, schema_of
from jitopt.ops import find, operators
from jitopt.ops.operator import Operator

NAMES = [o.name for o in operators() if "." not in o.name]
UNREAD = {"Scan": 8}  # versions that are refused by name: opset 8 gave Scan a batch axis
Option = OpSchema.FormalParameterOption

pytestmark = pytest.mark.skipif(
    onnx.defs.onnx_opset_version() < NEWEST_OPSET, reason="the installed onnx knows fewer operators"
)


def operator(name: str) -> Operator:
    found = find(name)
    assert found is not None
    return found


@pytest.mark.parametrize("name", NAMES)
def test_every_version_can_be_read(name: str) -> None:
    for opset in range(OLDEST_OPSET, NEWEST_OPSET + 1):
        schema = schema_of(name, opset, "")
        if schema is not None and not schema.deprecated:
            assert schema.since >= operator(name).since[0] or schema.since == UNREAD.get(name), opset


@pytest.mark.parametrize("name", NAMES)
def test_the_newest_version_is_the_one_declared(name: str) -> None:
    schema = schema_of(name, NEWEST_OPSET, "")
    assert schema is None or schema.deprecated or schema.since == operator(name).since[-1]


@pytest.mark.parametrize("name", NAMES)
def test_parameters_are_those_of_the_schema(name: str) -> None:
    schema, ours = onnx.defs.get_schema(name, NEWEST_OPSET, ""), operator(name)
    if schema.deprecated:
        pytest.skip(f"{name} lives on in another operator")
    for params, formal in ((ours.inputs, schema.inputs), (ours.outputs, schema.outputs)):
        assert len(params) == len(formal)
        for param, theirs in zip(params, formal, strict=True):
            assert param.variadic == (theirs.option == Option.Variadic), param.name
            assert param.optional == (theirs.option == Option.Optional), param.name
            if param.variadic and not theirs.is_homogeneous:
                assert not param.type_var, f"{param.name} takes values of different types"


@pytest.mark.parametrize("name", NAMES)
def test_type_variables_tie_no_more_than_the_schema(name: str) -> None:
    schema, ours = onnx.defs.get_schema(name, NEWEST_OPSET, ""), operator(name)
    pairs = list(zip([*ours.inputs, *ours.outputs], [*schema.inputs, *schema.outputs], strict=False))
    for i, (a, theirs) in enumerate(pairs):
        for b, others in pairs[:i]:
            if a.type_var and a.type_var == b.type_var and len(a.dtypes) > 1:
                assert theirs.type_str == others.type_str, (a.name, b.name)
