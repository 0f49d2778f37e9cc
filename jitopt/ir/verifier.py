"""The verifier: what must hold of every graph between any two passes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jitopt.errors import JitoptError, ModelError, UnsupportedOperator
from jitopt.ir.graph import Graph, Node, Value
from jitopt.ir.protocols import Lookup, OperatorLike, ParamLike
from jitopt.ir.storage import holds
from jitopt.ir.types import OptionalType, SequenceType, TensorType, Type

Infer = Callable[[Node], Sequence[Type]]


def verify(graph: Graph, operators: Lookup, infer: Infer | None = None) -> None:
    """Check a graph and its subgraphs.

    Every value has one producer that stands before its readers, and its uses list says who reads it; names of values
    are unique; constants fit their types; every node fits its operator's declaration (operands, attributes, dtypes
    tied by type variables); subgraphs capture what their node passes; outputs exist; layouts suit their tensors.
    With `infer`, which gives a node's output types, the stored types must agree with it.

    Raises ModelError naming node and value, UnsupportedOperator for an operator not in the table.
    """
    _Verifier(operators, infer).graph(graph)


def confirm(name: str, declared: Type | None, inferred: Type, *, extents: bool = False) -> None:
    """Check a type against an earlier one: kind, dtype and rank may not contradict one another.

    Nor may known extents where `extents` is set; what files declare of them is often out of date.
    Raises ModelError.
    """
    if declared is not None and not _agree(declared, inferred, extents):
        raise ModelError(f"value '{name}' is declared as {declared}, but its type is {inferred}")


def _agree(a: Type, b: Type, extents: bool = False) -> bool:
    if isinstance(a, TensorType) and isinstance(b, TensorType):
        if a.dtype is not b.dtype:
            return False
        if a.shape is None or b.shape is None:
            return True
        if len(a.shape) != len(b.shape):
            return False
        pairs = zip(a.shape, b.shape, strict=True)
        return not (extents and any(isinstance(m, int) and isinstance(n, int) and m != n for m, n in pairs))
    if isinstance(a, (SequenceType, OptionalType)) and type(a) is type(b):
        return _agree(a.element, b.element, extents)
    return False


class _Verifier:
    """One run over a graph and what lies below it; each subgraph may occur once."""

    def __init__(self, operators: Lookup, infer: Infer | None) -> None:
        self.operators, self.infer = operators, infer
        self.graphs: set[Graph] = set()

    def graph(self, graph: Graph) -> None:
        if graph in self.graphs:
            raise ModelError(f"graph '{graph.name}' is the subgraph of two nodes")
        self.graphs.add(graph)
        defined: dict[Value, None] = {}
        for value in (*graph.inputs, *graph.captures):
            kind = "input" if len(defined) < len(graph.inputs) else "capture"
            if value in defined:
                raise ModelError(f"graph '{graph.name}' lists the {kind} '{value.name}' twice")
            if value.producer is not None or value.constant is not None:
                raise ModelError(f"{kind} '{value.name}' has a producer or is a constant")
            defined[value] = None
        reads: dict[tuple[Node, int], Value] = {}
        for node in graph:
            try:
                self._node(graph, node, defined, reads)
            except JitoptError as error:
                raise error.at(node=node.name) from None
        self._outputs(graph, defined)
        _uses(defined, reads)
        names: dict[str, Value] = {}
        for value in defined:
            if names.setdefault(value.name, value) is not value:
                raise ModelError(f"two values of graph '{graph.name}' have the name '{value.name}'")
            _value(value)

    def _outputs(self, graph: Graph, defined: dict[Value, None]) -> None:
        borders = (*graph.inputs, *graph.captures, *graph.outputs)
        for index, value in enumerate(graph.outputs):
            if value.constant is not None and value.producer is None:
                defined[value] = None
            elif value not in defined:
                raise ModelError(f"output '{value.name}' of graph '{graph.name}' is not defined in it")
            if any(value is other for other in graph.outputs[:index]):
                raise ModelError(f"output '{value.name}' of graph '{graph.name}' is listed twice")
        for value in borders:
            if value.layout.block:
                raise ModelError(f"'{value.name}' crosses the border of graph '{graph.name}' in layout {value.layout}")

    def _node(self, graph: Graph, node: Node, defined: dict[Value, None], reads: dict[tuple[Node, int], Value]) -> None:
        if node.graph is not graph:
            raise ModelError(f"the node belongs to graph '{node.graph.name}', but stands in '{graph.name}'")
        for index, value in enumerate(node.operands):
            if value is None:
                continue
            if value not in defined:
                if value.constant is None:
                    raise ModelError(f"operand '{value.name}' is not defined before its use in graph '{graph.name}'")
                if value.producer is not None:
                    raise ModelError(f"constant '{value.name}' has a producer")
                defined[value] = None
            reads[node, index] = value
        operator = self.operators(node.op)
        if operator is None:
            raise UnsupportedOperator(f"operator '{node.op}' is unknown")
        check_signature(node, operator)
        self._subgraphs(node)
        inferred = self.infer(node) if self.infer is not None else ()
        if not node.outputs:
            raise ModelError(f"{node.op} has no output")
        for value in node.outputs:
            if value in defined:
                raise ModelError(f"value '{value.name}' is defined twice")
            if value.producer is not node:
                raise ModelError(f"output '{value.name}' names another node as its producer")
            if value.constant is not None:
                raise ModelError(f"constant '{value.name}' has a producer")
            defined[value] = None
        for value, found in zip(node.outputs, inferred, strict=False):
            confirm(value.name, value.type, found, extents=True)

    def _subgraphs(self, node: Node) -> None:
        inner = node.subgraphs
        if node.captures and not inner:
            raise ModelError(f"{node.op} has captures, but no subgraph")
        for graph in inner:
            if node.op == "If" and (graph.inputs or len(graph.outputs) != len(node.outputs)):
                counts = f"{len(graph.inputs)} inputs and {len(graph.outputs)} outputs"
                raise ModelError(f"branch '{graph.name}' has {counts} where If has {len(node.outputs)} outputs")
            if len(graph.captures) != len(node.captures):
                raise ModelError(
                    f"subgraph '{graph.name}' captures {len(graph.captures)} values, {len(node.captures)} are given"
                )
            for outer, here in zip(node.captures, graph.captures, strict=True):
                if outer.type is not None and here.type is not None and not _agree(outer.type, here.type):
                    raise ModelError(
                        f"subgraph '{graph.name}' captures '{here.name}' as {here.type}, it is {outer.type} outside"
                    )
            self.graph(graph)


def _uses(defined: dict[Value, None], reads: dict[tuple[Node, int], Value]) -> None:
    counts = dict.fromkeys(defined, 0)
    for value in reads.values():
        counts[value] += 1
    for value, count in counts.items():
        uses = value.uses
        if len(uses) != count or any(reads.get(use) is not value for use in uses) or len(set(uses)) != count:
            readers = ", ".join(f"'{node.name}'" for node, _ in uses) or "nobody"
            raise ModelError(f"the uses of value '{value.name}' ({readers}) are not the nodes that read it")


def _value(value: Value) -> None:
    """One value by itself: its name, its constant, its layout."""
    if not value.name:
        raise ModelError("a value has no name")
    type = value.type
    if value.constant is not None:
        array = value.constant
        if not isinstance(type, TensorType) or not holds(array, type.dtype) or array.shape != type.shape:
            raise ModelError(f"constant '{value.name}' of type {type} holds {array.dtype}{list(array.shape)}")
    if value.content is not None and (not isinstance(type, TensorType) or type.rank not in (None, value.content.ndim)):
        raise ModelError(f"value '{value.name}' of type {type} has content of shape {list(value.content.shape)}")
    if value.layout.block:
        block = value.layout.block
        if not isinstance(type, TensorType) or type.rank is None or type.rank < 2:
            raise ModelError(f"value '{value.name}' of type {type} cannot have the layout {value.layout}")
        if block < 0 or block & (block - 1) or value.constant is not None:
            raise ModelError(f"value '{value.name}' cannot have the layout {value.layout}")


def check_signature(node: Node, operator: OperatorLike) -> None:
    """A node against its operator: operand counts, attributes, dtypes, type variables.

    A type variable of the empty name ties nothing. Raises ModelError.
    """
    operator.attrs(node)
    bound: dict[str, tuple[TensorType, str]] = {}
    for index, param in enumerate(operator.inputs):
        if not (param.optional or param.variadic) and node.input(index) is None:
            raise ModelError(f"input {index} ('{param.name}') of {node.op} is missing")
    _bind(node, "input", node.inputs, operator.inputs, bound)
    _bind(node, "output", node.outputs, operator.outputs, bound)


def _bind(
    node: Node, kind: str, values: Sequence[Value | None], formal: Sequence[ParamLike],
    bound: dict[str, tuple[TensorType, str]],
) -> None:  # fmt: skip
    if len(values) > len(formal) and not (formal and formal[-1].variadic):
        raise ModelError(f"{node.op} has at most {len(formal)} {kind}s, {len(values)} are given")
    last = len(formal) - 1
    for index, value in enumerate(values):
        if value is None or not isinstance(value.type, TensorType):
            continue
        param = formal[min(index, last)]
        if value.type.dtype not in param.dtypes:
            raise ModelError(f"{kind} '{value.name}' ('{param.name}') of {node.op} cannot be {value.type.dtype}")
        if not param.type_var:
            continue
        first, name = bound.setdefault(param.type_var, (value.type, value.name))
        if first.dtype is not value.type.dtype:
            raise ModelError(
                f"{kind} '{value.name}' of {node.op} is {value.type.dtype}, but must be {first.dtype} like '{name}'"
            )
