"""What jitopt's own operators mean in terms of ONNX's, so that other runtimes can run what is written."""

from __future__ import annotations

from onnx import FunctionProto
from onnx.parser import parse_function

from jitopt.errors import UnsupportedOperator

DOMAIN = "jitopt"
_OPSET = 17

# Layouts are no part of ONNX: what moves elements between layouts leaves the logical tensor as it is.
BODIES: dict[str, str] = {
    "Reorder": "Reorder (X) => (Y) { Y = Identity(X) }",
}


def definition(op_type: str) -> FunctionProto:
    """The function that defines `jitopt.<op_type>`. Raises UnsupportedOperator where there is none."""
    body = BODIES.get(op_type)
    if body is None:
        raise UnsupportedOperator(
            f"the operator {DOMAIN}.{op_type} has no definition in ONNX's operators, so it cannot be written",
            remedy="write the graph before the pass that introduces it",
        )
    return parse_function(f'<domain: "{DOMAIN}", opset_import: ["" : {_OPSET}]>\n{body}')
