"""GraphProto to Graph: values declared, nodes added, functions inlined, subgraphs with their captures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from jitopt.errors import JitoptError, ModelError, UnsupportedOperator
from jitopt.ir.graph import Graph, Node, Value
from jitopt.ir.types import TensorType
from jitopt.onnx_io.attributes import decode_attribute
from jitopt.onnx_io.functions import body_scope, function_table, output_values
from jitopt.onnx_io.load import Source
from jitopt.onnx_io.nodes import Attributes, Call, check_call, read_attributes, read_call, read_constant
from jitopt.onnx_io.scope import Scope, check_declared, make_constant, unique
from jitopt.onnx_io.tensors import TensorReader
from jitopt.onnx_io.text import text
from jitopt.onnx_io.types import decode_type
from jitopt.ops.operator import Operator

_MOST_NODES = 1_000_000  # calls of calls can multiply without end


class Builder:
    """Builds the graphs of one model.

    `written` lists every node with the opset version it was written for, for upgrades once all readers are wired.
    """

    def __init__(self, source: Source, tensors: TensorReader, operators: Callable[[str], Operator | None]) -> None:
        self.tensors, self.operators = tensors, operators
        self.functions = function_table(source.proto.functions)
        self.written: list[tuple[Node, int]] = []
        self._calls: list[Any] = []  # functions being inlined, outermost first
        self._node_names: dict[str, int] = {}
        self._value_names: dict[str, int] = {}
        self._seen = 0

    def graph(self, proto: Any, opsets: Mapping[str, int], parent: Scope | None = None) -> Scope:
        """The scope of a graph that has been built completely. Raises ModelError, UnsupportedOperator."""
        name = text(proto.name, "the graph's name")
        scope = Scope(Graph(name), opsets, self._value_names, parent=parent)
        self._declare(scope, proto)
        for output in proto.node:
            self._declare_outputs(scope, output, {})
        self._hints(scope, proto)
        for node in proto.node:
            self._node(scope, node)
        self._outputs(scope, proto)
        return scope

    # declarations -----------------------------------------------------------------------------------------------
    def _declare(self, scope: Scope, proto: Any) -> None:
        arrays: dict[str, Any] = {}
        for initialiser in proto.initializer:
            name = text(initialiser.name, "an initialiser's name")
            if name in arrays:
                raise ModelError(f"initialiser '{name}' is defined twice")
            arrays[name] = self.tensors.tensor(initialiser, f"initialiser '{name}'")
        for sparse in proto.sparse_initializer:
            name = text(sparse.values.name, "an initialiser's name")
            if name in arrays:
                raise ModelError(f"initialiser '{name}' is defined twice")
            arrays[name] = self.tensors.sparse(sparse, f"sparse initialiser '{name}'")
        for entry in proto.input:
            name = text(entry.name, "an input's name")
            value = scope.define(name)
            value.type = decode_type(entry.type, value.name)
            if name in arrays:  # before IR version 4 every initialiser was listed as an input too
                make_constant(value, arrays.pop(name))
                continue
            if value.type is None and scope.parent is None:
                raise ModelError(f"input '{name}' has no type")
            scope.graph.inputs.append(value)
        for name, array in arrays.items():
            make_constant(scope.define(name), array)

    def _declare_outputs(self, scope: Scope, proto: Any, direct: Mapping[str, Value]) -> None:
        call = read_call(proto)
        try:
            values = [scope.define(name, direct.get(name)) for name in call.outputs if name]
            if call.op == "Constant":
                attributes = read_attributes(scope, proto)
                check_call(call, scope, attributes)
                if len(values) != 1:
                    raise ModelError("Constant has no output")
                make_constant(values[0], read_constant(call, attributes, self.tensors))
        except JitoptError as error:
            raise error.at(node=call.label) from None

    @staticmethod
    def _hints(scope: Scope, proto: Any) -> None:
        """Declared types of intermediate values and outputs, for inference to confirm."""
        for entry in (*proto.value_info, *proto.output):
            name = text(entry.name, "a value's name")
            if not scope.defined(name):
                continue
            value = scope.find(name)
            type = None if value is None else decode_type(entry.type, value.name)
            if value is None or type is None:
                continue
            if value.constant is not None:
                assert isinstance(value.type, TensorType)
                check_declared(name, type, value.type)
            elif value.type is None:
                value.type = type

    def _outputs(self, scope: Scope, proto: Any) -> None:
        if not len(proto.output) and scope.parent is None:
            raise ModelError(f"graph '{scope.graph.name}' has no outputs")
        for entry in proto.output:
            name = text(entry.name, "an output's name")
            try:
                value = scope.find(name)
            except ModelError:
                raise ModelError(f"output '{name}' of graph '{scope.graph.name}' is not defined") from None
            if value is None:
                raise ModelError(f"graph '{scope.graph.name}' has an output without a name")
            if scope.graph.is_output(value):
                if scope.parent is None:
                    raise ModelError(f"output '{name}' is listed twice")
                value = self._copy(scope, value, scope.graph.value(name), name)
            scope.graph.output(value)

    # nodes ------------------------------------------------------------------------------------------------------
    def _node(self, scope: Scope, proto: Any) -> None:
        call = read_call(proto)
        self._seen += 1
        if self._seen > _MOST_NODES:
            raise ModelError(f"the model has more than {_MOST_NODES} nodes once its functions are inlined")
        try:
            attributes = read_attributes(scope, proto)
            operator = self.operators(call.op)
            function = self.functions.get((call.domain, call.op_type, call.overload))
            if function is not None and not (call.domain == "jitopt" and operator is not None):
                self._inline(scope, call, attributes, function)
                return
            version, schema = check_call(call, scope, attributes)
            if call.op == "Constant":
                return
            if operator is None and schema is not None and schema.function is not None:
                self._inline(scope, call, attributes, schema.function)
                return
            operator = self._supported(call, version, operator, None if schema is None else schema.since)
            self.written.append((self._add(scope, call, attributes, operator), version))
        except JitoptError as error:
            raise error.at(node=call.label) from None

    @staticmethod
    def _supported(call: Call, version: int, operator: Operator | None, since: int | None) -> Operator:
        """The operator. Raises UnsupportedOperator for one, or a version of one, that is not in the table.

        `since` is the version in force at the model's opset, None where ONNX knows no such operator then.
        """
        if since is None and (operator is None or version < operator.since[0]):
            where = f"domain '{call.domain}'" if call.domain else f"ONNX's operator set at opset {version}"
            raise UnsupportedOperator(f"there is no operator '{call.op_type}' in {where}")
        if operator is None:
            raise UnsupportedOperator(f"the operator {call.op} has no implementation here")
        if since is not None and since < operator.since[0]:
            raise UnsupportedOperator(
                f"version {since} of {call.op} is older than {operator.since[0]}, the oldest here"
            )
        return operator

    def _add(self, scope: Scope, call: Call, attributes: Attributes, operator: Operator) -> Node:
        if not any(call.outputs):
            raise ModelError(f"{call.op} has no output")
        inner: list[Scope] = []

        def subgraph(owner: Scope) -> Callable[[Any], Graph]:
            def build(proto: Any) -> Graph:
                inner.append(self.graph(proto, owner.opsets, parent=owner))
                return inner[-1].graph

            return build

        values = {n: decode_attribute(a, n, self.tensors, subgraph(owner)) for n, (a, owner) in attributes.items()}
        inputs = [scope.find(name) for name in call.inputs]
        while inputs and inputs[-1] is None:
            inputs.pop()
        name = self._name(scope, call.stem)
        names = list(call.outputs)
        while not names[-1] and not operator.outputs[-1].variadic:
            names.pop()
        outputs = [scope.find(n) or scope.graph.value(f"{name}:{i}") for i, n in enumerate(names)]
        captures = list(dict.fromkeys(outer for s in inner for outer in s.captures))
        for s in inner:
            s.graph.captures = [s.capture(outer) for outer in captures]
        scope.graph.add(call.op, inputs, outputs=outputs, name=name, captures=captures)
        node = outputs[0].producer
        assert node is not None
        node.attrs.update(values)
        return node

    def _name(self, scope: Scope, stem: str) -> str:
        """A node name that no other node of the model has."""
        return unique(f"{scope.prefix}{stem}", self._node_names)

    def _copy(self, scope: Scope, value: Value, target: Value, name: str) -> Value:
        scope.graph.add("Identity", [value], outputs=[target], name=self._name(scope, f"{name}/copy"))
        return target

    def _inline(self, scope: Scope, call: Call, attributes: Attributes, function: Any) -> None:
        if any(function is f for f in self._calls):
            raise ModelError(f"the function {call.op} calls itself")
        body = body_scope(scope, call, attributes, function, prefix=f"{self._name(scope, call.stem)}/")
        direct, copies = output_values(scope, call, function)
        self._calls.append(function)
        self._body(body, function.node, direct)
        self._calls.pop()
        for formal in direct:
            if not body.defined(formal):
                raise ModelError(f"the function {call.op} does not define its output '{formal}'")
        for formal, target in copies:
            source = body.find(formal)
            if source is None:
                raise ModelError(f"the function {call.op} returns its input '{formal}', which the call leaves out")
            self._copy(scope, source, target, target.name)

    def _body(self, body: Scope, nodes: Iterable[Any], direct: Mapping[str, Value]) -> None:
        for node in nodes:
            self._declare_outputs(body, node, direct)
        for node in nodes:
            self._node(body, node)
