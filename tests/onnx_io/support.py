"""Small models for the reader's tests, written in ONNX's text form or built from its helpers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import onnx
from onnx import TensorProto, helper

from jitopt.ir.graph import Graph, Node
from jitopt.onnx_io import read_model
from jitopt.ops import find
from jitopt.ops.operator import Attrs, Kind, Operator, Param


class Anything(Operator):
    """An operator that accepts every call."""

    def attrs(self, node: Node) -> Attrs:
        return Attrs(node.attrs, outputs=len(node.outputs))


_FREE = (Param("values", type_var="", optional=True, variadic=True),)


def any_operator(name: str) -> Operator:
    """The operator, or one that accepts everything, so that reading is tested apart from the table of operators."""
    return find(name) or Anything(name, Kind.OPAQUE, _FREE, _FREE, lambda node, attrs: [], None)


def parsed(text: str) -> onnx.ModelProto:
    """A model from ONNX's text form, after `<ir_version: 8, opset_import: ["" : 17]>` where it has no header."""
    header = '<ir_version: 8, opset_import: ["" : 17]>\n'
    return onnx.parser.parse_model(text if text.lstrip().startswith("<") else header + text)


def read(source: Any, **options: Any) -> Graph:
    """`read_model` of a model, its text form or its bytes, with an operator for every name."""
    if isinstance(source, str):
        source = parsed(source)
    return read_model(source, operators=any_operator, **options)


def model_of(
    nodes: Iterable[onnx.NodeProto], inputs: Iterable[Any] = (), outputs: Iterable[Any] = (),
    initialisers: Iterable[TensorProto] = (), *, opset: int = 17, ir_version: int = 8, **rest: Any,
) -> onnx.ModelProto:  # fmt: skip
    """A model from parts, which need not fit together; inputs and outputs are names (float32[2]) or ValueInfos."""
    infos = [
        [helper.make_tensor_value_info(v, TensorProto.FLOAT, [2]) if isinstance(v, str) else v for v in values]
        for values in (inputs, outputs)
    ]
    graph = helper.make_graph(list(nodes), "graph", infos[0], infos[1], list(initialisers))
    imports = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=imports, ir_version=ir_version, **rest)
