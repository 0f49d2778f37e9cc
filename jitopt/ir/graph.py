"""The graph: nodes, values and their uses, kept consistent by the methods that change them.

    graph = Graph("block")
    x = graph.input("x", "float32", (1, 3, 8, 8))
    w = graph.constant(weights, name="w")
    y = graph.add("Conv", [x, w], pads=[1, 1, 1, 1])
    graph.output(graph.add("Relu", [y]), name="y")

A value has one producer (a node, or none for graph inputs, captures and constants) and any number of uses. Operators
are named by their ONNX name, with the domain in front where it is not the default one ("com.microsoft.Gelu").
A subgraph is an attribute whose value is a Graph; what it reads from outside stands in its `captures` list, and the
node that holds it lists the outer values at the same places in `node.captures`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from jitopt.errors import ModelError
from jitopt.ir.dims import Dim, Expr, symbol
from jitopt.ir.dtypes import DType, dtype_of
from jitopt.ir.types import TensorType, Type, tensor


@dataclass(frozen=True, slots=True)
class Layout:
    """How a tensor's elements lie in memory, beside its logical shape.

    `block == 0` is row-major. `block == c > 0` is [N][ceil(C/c)][spatial...][c] for a logical [N, C, spatial...];
    lanes at and beyond C hold zero.
    """

    block: int = 0

    def __str__(self) -> str:
        return f"NC{self.block}" if self.block else "row-major"


ROW_MAJOR = Layout()


class Value:
    """A tensor (or sequence, optional) that flows along the graph.

    `constant` holds the array of a constant. `content` holds what is known of a small integer tensor's elements: an
    object array of dims, of the value's shape (Shape's output, for one, before any extent is known).
    """

    __slots__ = ("constant", "content", "layout", "name", "producer", "type", "uses")

    def __init__(self, name: str, type: Type | None = None) -> None:
        self.name, self.type = name, type
        self.producer: Node | None = None
        self.uses: list[tuple[Node, int]] = []  # (consumer, index into its operands)
        self.constant: np.ndarray[Any, Any] | None = None
        self.content: np.ndarray[Any, Any] | None = None
        self.layout = ROW_MAJOR

    @property
    def tensor(self) -> TensorType:
        """The type, which must be a tensor's."""
        if not isinstance(self.type, TensorType):
            raise ModelError(f"value '{self.name}' has type {self.type}, a tensor was expected")
        return self.type

    @property
    def shape(self) -> tuple[Dim, ...]:
        """The tensor's shape, which must have a known rank."""
        shape = self.tensor.shape
        if shape is None:
            raise ModelError(f"the rank of value '{self.name}' is unknown")
        return shape

    @property
    def dtype(self) -> DType:
        return self.tensor.dtype

    def __repr__(self) -> str:
        return f"%{self.name}: {self.type}"


class Node:
    """One operator call. Change it through the graph's methods and `set_input`, which keep the uses right."""

    __slots__ = ("attrs", "captures", "graph", "inferred", "inputs", "name", "op", "outputs")

    def __init__(self, graph: Graph, op: str, name: str, attrs: dict[str, Any]) -> None:
        self.graph, self.op, self.name, self.attrs = graph, op, name, attrs
        self.inferred: Any = None  # what inference last saw of this node, so that it may skip it
        self.inputs: list[Value | None] = []
        self.captures: list[Value] = []
        self.outputs: list[Value] = []

    @property
    def operands(self) -> list[Value | None]:
        """Inputs, then what subgraphs capture."""
        return [*self.inputs, *self.captures]

    @property
    def output(self) -> Value:
        """The first output."""
        return self.outputs[0]

    def input(self, index: int) -> Value | None:
        """Input `index`, None where it is absent or beyond the end."""
        return self.inputs[index] if index < len(self.inputs) else None

    def arg(self, index: int) -> Value:
        """Input `index`, which must be present."""
        value = self.input(index)
        if value is None:
            raise ModelError(f"input {index} of {self.op} is missing", node=self.name)
        return value

    @property
    def subgraphs(self) -> list[Graph]:
        return [a for a in self.attrs.values() if isinstance(a, Graph)]

    def set_input(self, index: int, value: Value | None) -> None:
        """Replace one input; optional ones may become None."""
        self._rewire(self.inputs, index, value, index)

    def set_capture(self, index: int, value: Value) -> None:
        self._rewire(self.captures, index, value, len(self.inputs) + index)

    def _rewire(self, operands: list[Any], index: int, value: Value | None, use: int) -> None:
        old = operands[index]
        if old is not None:
            old.uses.remove((self, use))
        operands[index] = value
        if value is not None:
            value.uses.append((self, use))

    def __repr__(self) -> str:
        args = ", ".join("_" if v is None else f"%{v.name}" for v in self.inputs)
        return f"{', '.join(f'%{v.name}' for v in self.outputs)} = {self.op}({args})  # {self.name}"


@dataclass(frozen=True, slots=True)
class Metadata:
    """What the model file says about itself."""

    producer_name: str = ""
    producer_version: str = ""
    domain: str = ""
    version: int = 0
    description: str = ""
    custom: dict[str, str] = field(default_factory=dict)


def _extent(name: str, axis: int, dim: Any) -> Dim:
    """An entry of an input's shape as an extent."""
    if isinstance(dim, str):
        return symbol(dim)
    if isinstance(dim, Expr) or (isinstance(dim, int) and dim >= 0):
        return dim
    raise ModelError(
        f"axis {axis} of input '{name}' is {dim!r}", remedy="extents are ints from 0 on, symbols or their names"
    )


class Graph:
    """An ordered graph of nodes with named inputs and outputs; see the module's example."""

    def __init__(self, name: str = "graph") -> None:
        self.name = name
        self.inputs: list[Value] = []
        self.captures: list[Value] = []
        self.outputs: list[Value] = []
        self.metadata = Metadata()
        self._nodes: dict[Node, None] = {}
        self._names: dict[str, int] = {}

    # building ---------------------------------------------------------------------------------------------------
    def fresh_name(self, stem: str) -> str:
        """`stem` itself the first time, then stem_1, stem_2, ..."""
        if stem not in self._names:
            self._names[stem] = 0
            return stem
        while True:
            self._names[stem] += 1
            name = f"{stem}_{self._names[stem]}"
            if name not in self._names:
                self._names[name] = 0
                return name

    def adopt_names(self, other: Graph) -> None:
        """Count the names `other` has given out as taken here, too."""
        self._names.update(other._names)

    def value(self, name: str, type: Type | None = None) -> Value:
        """A new value under a fresh name, without producer."""
        return Value(self.fresh_name(name), type)

    def input(self, name: str, dtype: DType | str, shape: Sequence[Dim | str] | None) -> Value:
        """Declare a graph input; shape entries are ints, expressions (`jitopt.symbol("n")`) or names of symbols.

        Raises ModelError for anything else.
        """
        dims = None if shape is None else tuple(_extent(name, axis, dim) for axis, dim in enumerate(shape))
        value = self.value(name, tensor(dtype, dims))
        self.inputs.append(value)
        return value

    def constant(self, array: Any, name: str = "constant") -> Value:
        """A constant value holding `array` (a Python number becomes a float32 or int64 scalar)."""
        if not isinstance(array, np.ndarray):
            array = np.asarray(array, dtype=np.float32 if isinstance(array, float) else None)
        value = self.value(name, tensor(dtype_of(array.dtype), tuple(array.shape)))
        value.constant = array
        return value

    def add(
        self, op: str, inputs: Sequence[Value | None], *, outputs: int | Sequence[Value] = 1, name: str = "",
        captures: Sequence[Value] = (), **attrs: Any,
    ) -> Any:  # fmt: skip
        """Append a node; returns its output value, or a tuple of them for several.

        `outputs` is their number, or the values themselves (which must have no producer yet). Raises ModelError for
        inputs that are no values.
        """
        if isinstance(inputs, Value) or not all(value is None or isinstance(value, Value) for value in inputs):
            raise ModelError(
                f"the inputs of {op} are not a list of values", node=name or op,
                remedy="values come from input(), constant() and add()",
            )  # fmt: skip
        node = Node(self, op, name or f"{op}_{len(self._nodes)}", attrs)
        for value in inputs:
            node.inputs.append(None)
            node.set_input(len(node.inputs) - 1, value)
        for value in captures:
            node.captures.append(value)
            value.uses.append((node, len(node.inputs) + len(node.captures) - 1))
        if isinstance(outputs, int):
            outputs = [self.value(node.name if i == 0 else f"{node.name}:{i}") for i in range(outputs)]
        for value in outputs:
            if value.producer is not None:
                raise ModelError(f"value '{value.name}' already has a producer", node=node.name)
            value.producer = node
            node.outputs.append(value)
        self._nodes[node] = None
        return node.outputs[0] if len(node.outputs) == 1 else tuple(node.outputs)

    def output(self, value: Value, name: str | None = None) -> Value:
        """Declare a graph output; a name given here renames the value."""
        if name is not None and name != value.name:
            value.name = self.fresh_name(name)
        self.outputs.append(value)
        return value

    # looking ----------------------------------------------------------------------------------------------------
    @property
    def nodes(self) -> list[Node]:
        return list(self._nodes)

    def __iter__(self) -> Iterator[Node]:
        return iter(list(self._nodes))

    def __len__(self) -> int:
        return len(self._nodes)

    def node(self, name: str) -> Node:
        """The node of that name. Raises KeyError."""
        for node in self._nodes:
            if node.name == name:
                return node
        raise KeyError(f"graph '{self.name}' has no node '{name}'")

    def find_value(self, name: str) -> Value:
        """The value of that name among inputs, captures, constants and node outputs. Raises KeyError."""
        for value in self.values():
            if value.name == name:
                return value
        raise KeyError(f"graph '{self.name}' has no value '{name}'")

    def values(self) -> list[Value]:
        """Every value once: inputs, captures, then by node its constants and outputs."""
        seen: dict[Value, None] = dict.fromkeys([*self.inputs, *self.captures])
        for node in self._nodes:
            seen.update(dict.fromkeys(v for v in (*node.operands, *node.outputs) if v is not None))
        seen.update(dict.fromkeys(self.outputs))
        return list(seen)

    @property
    def constants(self) -> list[Value]:
        """Constants that some node or output uses."""
        return [v for v in self.values() if v.constant is not None]

    @staticmethod
    def producer(value: Value) -> Node | None:
        return value.producer

    @staticmethod
    def consumers(value: Value) -> list[Node]:
        """Nodes that read the value, each once, in order of use."""
        return list(dict.fromkeys(node for node, _ in value.uses))

    def is_output(self, value: Value) -> bool:
        return any(value is v for v in self.outputs)

    # changing ---------------------------------------------------------------------------------------------------
    def remove(self, node: Node) -> None:
        """Take out a node whose outputs nobody uses. Raises ModelError otherwise."""
        for value in node.outputs:
            if value.uses or self.is_output(value):
                raise ModelError(f"value '{value.name}' is still in use", node=node.name)
        for index in range(len(node.inputs)):
            node.set_input(index, None)
        for index, value in enumerate(node.captures):
            value.uses.remove((node, len(node.inputs) + index))
        for value in node.outputs:
            value.producer = None
        node.captures = []
        del self._nodes[node]

    def replace(self, old: Value, new: Value) -> None:
        """Make every reader of `old`, and the graph's outputs, read `new`.

        A graph output keeps its name: `new` takes it over where `old` was one, unless `new` is itself an output, an
        input or a constant, in which case an Identity carries the name.
        """
        if old is new:
            return
        for node, index in list(old.uses):
            if index < len(node.inputs):
                node.set_input(index, new)
            else:
                node.set_capture(index - len(node.inputs), new)
        if self.is_output(old):
            if new.producer is None or new.producer.graph is not self or self.is_output(new):
                carrier = Value(old.name, new.type)
                old.name = self.fresh_name(old.name)
                self.add("Identity", [new], outputs=[carrier], name=self.fresh_name(f"{carrier.name}/identity"))
                new = carrier
            else:
                old.name, new.name = new.name, old.name
            self.outputs = [new if v is old else v for v in self.outputs]

    def sort(self) -> None:
        """Order nodes so that producers come first, otherwise as they stood. Raises ModelError on a cycle."""
        order = list(self._nodes)
        rank = {node: i for i, node in enumerate(order)}
        done: set[Node] = set()
        out: list[Node] = []
        for root in order:
            stack: list[tuple[Node, Iterator[Node]]] = []
            if root not in done:
                stack.append((root, iter(self._sources(root, rank))))
            open_nodes = {root}
            while stack:
                node, sources = stack[-1]
                for source in sources:
                    if source in open_nodes and source not in done:
                        raise ModelError(f"the graph has a cycle through '{source.outputs[0].name}'", node=source.name)
                    if source not in done:
                        open_nodes.add(source)
                        stack.append((source, iter(self._sources(source, rank))))
                        break
                else:
                    stack.pop()
                    done.add(node)
                    out.append(node)
        self._nodes = dict.fromkeys(out)

    @staticmethod
    def _sources(node: Node, rank: dict[Node, int]) -> list[Node]:
        found = {v.producer for v in node.operands if v is not None and v.producer is not None}
        return sorted((p for p in found if p in rank), key=rank.__getitem__)

    def __repr__(self) -> str:
        return f"<Graph '{self.name}' of {len(self)} nodes>"


def walk(graphs: Iterable[Graph]) -> Iterator[Graph]:
    """The graphs and all subgraphs below them, outer first."""
    for graph in graphs:
        yield graph
        for node in graph:
            yield from walk(node.subgraphs)
