"""The oldest operator set in which a graph can be written as it stands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from jitopt.errors import ModelError
from jitopt.ir.dtypes import DType
from jitopt.ir.graph import Node, Value
from jitopt.ir.types import TensorType
from jitopt.onnx_io.schema import NEWEST_OPSET, check_node, schema_of
from jitopt.ops.operator import Operator

LOWEST = 17  # models for older opsets than this are not written
_IR_OF_OPSET = ((18, 8), (20, 9), (22, 10), (23, 11), (24, 12), (27, 13))  # up to this opset, this IR version
_IR_OF_DTYPE = {
    "float8e4m3fn": 9, "float8e4m3fnuz": 9, "float8e5m2": 9, "float8e5m2fnuz": 9, "int4": 10, "uint4": 10,
    "float4e2m1": 11, "float8e8m0": 12, "int2": 13, "uint2": 13, "float6e2m3": 14, "float6e3m2": 14,
}  # fmt: skip
_ONNX_NAMES = {"float32": "float", "float64": "double"}


def opset_for(node: Node, operator: Operator, kinds: Mapping[str, int]) -> int:
    """The first opset whose version of the operator takes the node as it is; `kinds` are its attributes' type codes.

    That is no older than the last change that upgrades make, and its schema fits the node's operands, their dtypes
    and the attributes. Raises ModelError where even the newest does not.
    """
    oldest = max([operator.since[0], *(version for version, _ in operator.upgrades)])
    reason = "it has no schema"
    for version in sorted({oldest, *(v for v in operator.since if v > oldest)}):
        schema = schema_of(node.op, version, "")
        if schema is None:
            continue
        try:
            check_node(node.op, schema, version, len(node.inputs), len(node.outputs), dict(kinds))
        except ModelError as error:
            reason = error.message
            continue
        if _takes(node.inputs, schema.input_types) and _takes(node.outputs, schema.output_types):
            return version
        reason = "its dtypes are not allowed"
    raise ModelError(f"no opset up to {NEWEST_OPSET} takes {node.op} in this form: {reason}", node=node.name)


def _takes(values: Sequence[Value | None], formal: Sequence[frozenset[str]]) -> bool:
    for index, value in enumerate(values):
        if value is None or not isinstance(value.type, TensorType) or not formal:
            continue
        allowed = formal[min(index, len(formal) - 1)]
        name = value.type.dtype.name
        if f"tensor({_ONNX_NAMES.get(name, name)})" not in allowed:
            return False
    return True


def ir_version_for(opset: int, dtypes: Iterable[DType]) -> int:
    """The IR version that goes with an opset and the element types in use; at least 8, which has functions."""
    version = next((ir for last, ir in _IR_OF_OPSET if opset <= last), 14)
    return max([version, *(_IR_OF_DTYPE.get(d.name, 8) for d in dtypes)])
