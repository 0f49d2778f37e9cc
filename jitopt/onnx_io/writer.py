"""Write a graph as an ONNX model that other runtimes can run."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from onnx import GraphProto, ModelProto, NodeProto, ValueInfoProto

from jitopt.errors import JitoptError, ModelError
from jitopt.ir.dtypes import DType
from jitopt.ir.graph import Graph, Node, Value, walk
from jitopt.ir.types import TensorType
from jitopt.onnx_io.definitions import DOMAIN, definition
from jitopt.onnx_io.encode import TensorWriter, encode_attribute, encode_type, kind_of
from jitopt.onnx_io.scope import unique
from jitopt.onnx_io.versions import LOWEST, ir_version_for, opset_for
from jitopt.ops import find
from jitopt.ops.operator import Operator

EXTERNAL_ABOVE = 1_500_000_000  # bytes; a protobuf message ends at 2 GB


def write_model(
    graph: Graph, path: str | os.PathLike[str] | None = None, *, external_above: int = EXTERNAL_ABOVE,
    operators: Callable[[str], Operator | None] = find,
) -> ModelProto:  # fmt: skip
    """The graph as a ModelProto, also saved where a path is given (whole or not at all).

    The opset is the oldest, from 17 on, that has every node in the form it has here. Operators of the domain "jitopt"
    are written as functions. Layouts are not written: values are logical tensors. Constants of more than
    `external_above` bytes in all go to the file `<path>.data` beside the model.
    Raises ModelError for a graph that no opset can express, or one too large to be written without a path;
    UnsupportedOperator for an operator of ours without a definition; OSError where the path cannot be written.
    """
    total = sum(v.constant.nbytes for g in walk([graph]) for v in g.constants if v.constant is not None)
    if total <= external_above:
        model = _Writer(operators, TensorWriter()).model(graph)
        if path is not None:
            with _replacing(Path(path)) as file:
                file.write(model.SerializeToString())
        return model
    if path is None:
        raise ModelError(
            f"graph '{graph.name}' has {total} bytes of constants, too many for one message",
            remedy="give a path, so that they can be written beside the model",
        )
    data = Path(f"{os.fspath(path)}.data")
    with _replacing(data) as beside, _replacing(Path(path)) as file:
        model = _Writer(operators, TensorWriter(data, beside)).model(graph)
        file.write(model.SerializeToString())
    return model


@contextlib.contextmanager
def _replacing(path: Path) -> Iterator[IO[bytes]]:
    """A file that takes the path's place once it is complete."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        umask = os.umask(0)
        os.umask(umask)
        Path(name).chmod(0o666 & ~umask)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


class _Writer:
    """Writes one model; `names` holds what each value is called in the file."""

    def __init__(self, operators: Callable[[str], Operator | None], tensors: TensorWriter) -> None:
        self.operators, self.tensors = operators, tensors
        self.names: dict[Value, str] = {}
        self.taken: dict[str, int] = {}
        self.shared: set[int] = set()  # arrays that several constants hold, by identity; written once, at the top
        self.opset = LOWEST
        self.domains: set[str] = set()
        self.own: set[str] = set()
        self.dtypes: set[DType] = set()

    def model(self, graph: Graph) -> ModelProto:
        uses = Counter(id(v.constant) for g in walk([graph]) for v in g.constants)
        self.shared = {key for key, count in uses.items() if count > 1}
        proto = ModelProto(graph=self.graph(graph))
        proto.ir_version = ir_version_for(self.opset, self.dtypes)
        proto.opset_import.add(domain="", version=self.opset)
        for domain in sorted(self.domains):
            proto.opset_import.add(domain=domain, version=1)
        proto.functions.extend(definition(op) for op in sorted(self.own))
        about = graph.metadata
        proto.producer_name, proto.producer_version = about.producer_name or "jitopt", about.producer_version
        proto.domain, proto.model_version, proto.doc_string = about.domain, about.version, about.description
        for key, value in about.custom.items():
            proto.metadata_props.add(key=key, value=value)
        return proto

    # graphs -----------------------------------------------------------------------------------------------------
    def graph(self, graph: Graph, outer: dict[int, str] | None = None) -> GraphProto:
        """One graph; `outer` names the arrays visible around it by their identity, None for the whole model."""
        proto, top = GraphProto(name=graph.name or "graph"), outer is None
        arrays = dict(outer or {})
        borrowed = {v for v in graph.outputs if not top and v.producer is None} | {
            v for v in graph.outputs if v.constant is not None
        }
        for value in graph.inputs:
            self._name(value)
        for node in graph:
            for value in node.outputs:
                self._name(value)
        below = [v for g in walk(s for n in graph for s in n.subgraphs) for v in g.constants] if top else []
        for value in (*graph.constants, *(v for v in below if id(v.constant) in self.shared)):
            assert value.constant is not None
            if id(value.constant) in arrays:
                self.names[value] = arrays[id(value.constant)]
                continue
            name = arrays[id(value.constant)] = self._name(value, "/value" if value in borrowed else "")
            self.dtypes.add(value.dtype)
            proto.initializer.append(self.tensors.tensor(value.constant, value.dtype, name))
        proto.input.extend(self._info(v, self.names[v]) for v in graph.inputs)
        for node in graph:
            try:
                proto.node.append(self._node(node, arrays))
            except JitoptError as error:
                raise error.at(node=node.name) from None
        for value in graph.outputs:
            name = self.names[value]
            if value in borrowed:  # runtimes want outputs to be produced where they are returned
                name = value.name if top else unique(f"{name}/out", self.taken)
                proto.node.add(op_type="Identity", name=f"{name}/identity", input=[self.names[value]], output=[name])
            proto.output.append(self._info(value, name))
        listed = {*graph.inputs, *graph.outputs}
        known = [v for node in graph for v in node.outputs if v.type is not None and v not in listed]
        proto.value_info.extend(self._info(v, self.names[v]) for v in known)
        return proto

    def _name(self, value: Value, suffix: str = "") -> str:
        found = self.names[value] = unique(f"{value.name}{suffix}", self.taken)
        return found

    def _info(self, value: Value, name: str) -> ValueInfoProto:
        info = ValueInfoProto(name=name)
        if value.type is not None:
            info.type.CopyFrom(encode_type(value.type))
        if isinstance(value.type, TensorType):
            self.dtypes.add(value.type.dtype)
        return info

    # nodes ------------------------------------------------------------------------------------------------------
    def _node(self, node: Node, arrays: dict[int, str]) -> NodeProto:
        domain, _, op_type = node.op.rpartition(".")
        operator = self.operators(node.op)
        proto = NodeProto(op_type=op_type, domain=domain, name=node.name)
        proto.input.extend("" if v is None else self.names[v] for v in node.inputs)
        proto.output.extend(self._output(node, operator, i) for i in range(len(node.outputs)))
        while proto.output and not proto.output[-1]:
            proto.output.pop()
        for inner in node.subgraphs:
            for here, outside in zip(inner.captures, node.captures, strict=True):
                self.names[here] = self.names[outside]
        for name, value in node.attrs.items():
            if value is None:
                continue
            declared = None if operator is None else operator.attributes.get(name)
            kind = kind_of(value) if declared is None else declared.kind
            proto.attribute.append(
                encode_attribute(name, value, kind, self.tensors, lambda inner: self.graph(inner, arrays))
            )
        self._version(node, domain, op_type, operator, proto)
        return proto

    def _output(self, node: Node, operator: Operator | None, index: int) -> str:
        """The output's name, "" for an optional one that nobody reads."""
        value = node.outputs[index]
        formal = () if operator is None else operator.outputs
        unread = not value.uses and not node.graph.is_output(value)
        return "" if unread and index < len(formal) and formal[index].optional else self.names[value]

    def _version(self, node: Node, domain: str, op_type: str, operator: Operator | None, proto: NodeProto) -> None:
        if domain:
            self.domains.add(domain)
            if domain == DOMAIN:
                self.own.add(op_type)
        elif operator is not None:
            kinds: dict[str, int] = {a.name: int(a.type) for a in proto.attribute}
            self.opset = max(self.opset, opset_for(node, operator, kinds))
