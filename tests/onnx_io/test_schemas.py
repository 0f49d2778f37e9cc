"""The table of operators as the reader and the verifier need it; tests/ops compares the rest with ONNX's schemas."""

from __future__ import annotations

import onnx
import pytest

from jitopt.onnx_io.schema import NEWEST_OPSET, OLDEST_OPSET, schema_of
from jitopt.ops import find, operators
from jitopt.ops.operator import Operator

NAMES = [o.name for o in operators() if "." not in o.name and schema_of(o.name, NEWEST_OPSET, "")]
UNREAD = {"Scan": 8}  # versions that are refused by name: opset 8 gave Scan a batch axis


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
def test_parameters_for_tensors_of_different_types_tie_nothing(name: str) -> None:
    schema, ours = onnx.defs.get_schema(name, NEWEST_OPSET, ""), operator(name)
    for param, theirs in zip([*ours.inputs, *ours.outputs], [*schema.inputs, *schema.outputs], strict=False):
        if param.variadic and not theirs.is_homogeneous and any(t.startswith("tensor(") for t in theirs.types):
            assert not param.type_var, param.name
