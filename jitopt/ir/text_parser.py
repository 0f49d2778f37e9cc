"""Reads the text form that `jitopt.ir.text` prints."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from jitopt.ir.graph import Graph, Layout, Metadata, Value
from jitopt.ir.lexer import Cursor, Token
from jitopt.ir.literals import parse_array, parse_float
from jitopt.ir.storage import holds, storage
from jitopt.ir.text_dims import parse_dim, parse_int, parse_type
from jitopt.ir.types import TensorType

Array = np.ndarray[Any, Any]


def parse_graph(text: str, constants: Mapping[str, Array] | None = None) -> Graph:
    """The graph that `print_graph` gave this text for; `constants` holds large arrays by digest (`blobs(graph)`).

    List attributes become tuples. Raises ModelError with line and column for malformed text, an undefined or a
    doubly defined value, an array that `constants` lacks or that does not fit its type.
    """
    parser = GraphParser(Cursor(text), constants or {})
    try:
        graph = parser.graph()
    except RecursionError:
        raise parser.cursor.error("nested too deeply") from None
    if parser.cursor.peek.kind != "end":
        raise parser.cursor.error(f"unexpected {parser.cursor.found()} after the graph")
    return graph


class GraphParser:
    """Reads graphs and their parts from a cursor; `constants` holds large arrays by digest."""

    def __init__(self, cursor: Cursor, constants: Mapping[str, Array]) -> None:
        self.cursor, self.constants = cursor, constants

    def graph(self) -> Graph:
        cursor = self.cursor
        cursor.expect("graph")
        graph, values = Graph(cursor.string("the graph's name")), dict[str, Value]()
        cursor.expect("{")
        while not cursor.accept("}"):
            if cursor.accept("metadata"):
                graph.metadata = self.metadata()
            elif cursor.accept("input"):
                graph.inputs.append(self._define(graph, values))
            elif cursor.accept("capture"):
                graph.captures.append(self._define(graph, values))
            elif cursor.accept("constant"):
                value = self._define(graph, values)
                cursor.expect("=")
                value.constant = self.data(value.type, f"constant '{value.name}'")
            elif cursor.accept("output"):
                graph.outputs.append(self._use(values))
            elif cursor.peek.kind == "value":
                self._node(graph, values)
            else:
                raise cursor.error(f"expected a definition or '}}', found {cursor.found()}")
        return graph

    # values -----------------------------------------------------------------------------------------------------
    def _define(self, graph: Graph, values: dict[str, Value]) -> Value:
        cursor = self.cursor
        at, name = cursor.peek.at, cursor.label("value", "a value")
        if not name or name in values:
            raise cursor.error(f"value '{name}' is defined twice" if name else "a value needs a name", at)
        value = values[name] = graph.value(name)
        if cursor.accept(":"):
            if not cursor.accept("?"):
                value.type = parse_type(cursor)
            if cursor.peek.kind == "name" and cursor.peek.text.startswith("NC"):
                value.layout = self._layout(cursor.take())
            if cursor.accept("knows"):
                value.content = self._content(value)
        return value

    def _layout(self, token: Token) -> Layout:
        if not (token.text[2:].isdecimal() and len(token.text) < 8):
            raise self.cursor.error(f"unknown layout '{token.text}'", token.at)
        return Layout(int(token.text[2:]))

    def _content(self, value: Value) -> Array:
        start, known = self.cursor.peek.at, []
        bare = not self.cursor.accept("[")
        while bare or not self.cursor.at("]"):
            known.append(None if self.cursor.accept("?") else parse_dim(self.cursor))
            if bare or not self.cursor.accept(","):
                break
        if not bare:
            self.cursor.expect("]")
        shape: tuple[Any, ...] = () if bare else (len(known),)
        if isinstance(value.type, TensorType) and value.type.shape is not None and value.type.is_static and not bare:
            shape = value.type.shape
        if len(known) != math.prod(shape):
            raise self.cursor.error(f"{len(known)} elements for type {value.type}", start)
        content = np.empty(len(known), object)
        content[:] = known
        return content.reshape(shape)

    def _use(self, values: Mapping[str, Value]) -> Value:
        at, name = self.cursor.peek.at, self.cursor.label("value", "a value")
        if name not in values:
            raise self.cursor.error(f"value '{name}' is not defined before its use", at)
        return values[name]

    def data(self, type: Any, what: str) -> Array:
        """The array of that tensor type whose elements, or whose digest, come next; `what` names it in errors."""
        cursor, start = self.cursor, self.cursor.peek.at
        if not isinstance(type, TensorType) or not type.is_static or type.shape is None:
            raise cursor.error(f"{what} needs a tensor type of known extents", start)
        shape = tuple(int(d) for d in type.shape if isinstance(d, int))
        if not cursor.accept("blob"):
            return parse_array(cursor, type.dtype, shape)
        digest = cursor.string("a digest")
        array = self.constants.get(digest)
        if array is None:
            raise cursor.error(f"{what} is the array {digest}, which `constants` does not hold", start)
        if holds(array, type.dtype) and array.shape == shape:
            return array
        kind = storage(type.dtype)
        if array.nbytes != math.prod(shape) * kind.itemsize or kind.hasobject or array.dtype.hasobject:
            found = f"{array.dtype}{list(array.shape)}"
            raise cursor.error(f"{what} is {type}, but the array {digest} is {found}", start)
        # A digest covers bytes alone: arrays of zeros, for one, share theirs across shapes and element types.
        return np.ascontiguousarray(array).reshape(-1).view(kind).reshape(shape)

    # nodes ------------------------------------------------------------------------------------------------------
    def _node(self, graph: Graph, values: dict[str, Value]) -> None:
        cursor = self.cursor
        outputs = [self._define(graph, values)]
        while cursor.accept(","):
            outputs.append(self._define(graph, values))
        cursor.expect("=")
        op = cursor.name("an operator")
        inputs = self._operands(values)
        captures = self._operands(values) if cursor.accept("captures") else []
        name = cursor.label("node", "the node's name, such as @relu")
        attrs = self._attributes() if cursor.at("{") else {}
        known = [v for v in captures if v is not None]
        if any(v in outputs for v in (*inputs, *captures)):
            raise cursor.error(f"node '{name}' reads its own output")
        graph.add(op, inputs, outputs=outputs, name=name, captures=known)
        node = outputs[0].producer
        assert node is not None
        node.name = name
        node.attrs.update(attrs)

    def _operands(self, values: Mapping[str, Value]) -> list[Value | None]:
        self.cursor.expect("(")
        found: list[Value | None] = []
        while not self.cursor.at(")"):
            found.append(None if self.cursor.accept("_") else self._use(values))
            if not self.cursor.accept(","):
                break
        self.cursor.expect(")")
        return found

    def _attributes(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        self.cursor.expect("{")
        while not self.cursor.accept("}"):
            at, name = self.cursor.peek.at, self.cursor.name("an attribute")
            if name in found:
                raise self.cursor.error(f"attribute '{name}' is given twice", at)
            self.cursor.expect("=")
            found[name] = self._attribute()
            self.cursor.accept(",")
        return found

    def _attribute(self) -> Any:
        cursor = self.cursor
        if cursor.at("graph"):
            return self.graph()
        if cursor.accept("tensor"):
            return self.data(parse_type(cursor), "the attribute")
        if cursor.accept("type"):
            return parse_type(cursor)
        if cursor.accept("["):
            items = []
            while not cursor.at("]"):
                items.append(self._attribute())
                if not cursor.accept(","):
                    break
            cursor.expect("]")
            return tuple(items)
        if cursor.peek.kind == "string":
            return self._bytes() if cursor.peek.text.startswith("b") else cursor.string()
        return self._number()

    def _bytes(self) -> bytes:
        token = self.cursor.take()
        try:
            return str(json.loads(token.text[1:])).encode("latin-1")
        except ValueError:
            raise self.cursor.error(f"{token.text} is no valid byte string", token.at) from None

    def _number(self) -> int | float:
        cursor, token = self.cursor, self.cursor.peek
        negative = cursor.accept("-")
        written = cursor.peek.text
        if cursor.peek.kind == "number" and (written.startswith("0x") or not any(c in written for c in ".e")):
            return -parse_int(cursor) if negative else parse_int(cursor)
        if cursor.peek.kind != "number" and not cursor.at("inf", "nan"):
            raise cursor.error(f"expected a value, found {cursor.found()}", token.at)
        value = float(parse_float(cursor))
        return -value if negative else value

    def metadata(self) -> Metadata:
        """Metadata between braces."""
        fields: dict[str, Any] = {}
        self.cursor.expect("{")
        while not self.cursor.accept("}"):
            name = self.cursor.kind("name", "a metadata field")
            if name.text not in Metadata.__slots__:
                raise self.cursor.error(f"unknown metadata field '{name.text}'", name.at)
            self.cursor.expect("=")
            if name.text == "custom":
                fields["custom"] = self._custom()
            elif name.text == "version":
                fields["version"] = self._number()
            else:
                fields[name.text] = self.cursor.string()
            self.cursor.accept(",")
        return Metadata(**fields)

    def _custom(self) -> dict[str, str]:
        found: dict[str, str] = {}
        self.cursor.expect("{")
        while not self.cursor.accept("}"):
            key = self.cursor.string("a key")
            self.cursor.expect("=")
            found[key] = self.cursor.string()
            self.cursor.accept(",")
        return found
