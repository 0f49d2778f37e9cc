"""The text form of a graph: printed here, read back by `jitopt.ir.text_parser`.

    graph "block" {
      input %x: float32[n, 3]
      constant %w: float32[3] = [1.0, 2.0, 0.1]
      constant %k: float32[64, 3] = blob "sha256:0d5f..."
      %a: float32[n, 3] = Add(%x, %w) @add
      %b: float32[n, 64] NC8 = MatMul(%a, %k) @matmul
      %s: int64[2] knows [n, 64] = Shape(%b) @shape {start = 0}
      %c = If(%flag) captures(%a) @if {
        then_branch = graph "then" { ... }
      }
      output %c
    }

A value is followed by its type (`?` where unknown), its layout where it is not row-major, and what is known of its
elements. Arrays of more than 16 elements stand apart from the text, under the SHA-256 of their bytes.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from jitopt.ir.dtypes import DType
from jitopt.ir.graph import Graph, Metadata, Node, Value, walk
from jitopt.ir.lexer import bare, marked, quote
from jitopt.ir.literals import array_text, float_text
from jitopt.ir.storage import element_type
from jitopt.ir.text_dims import dim_text, type_text
from jitopt.ir.types import OptionalType, SequenceType, TensorType, tensor

Array = np.ndarray[Any, Any]
MOST_INLINE = 16


def print_graph(graph: Graph) -> str:
    """The graph's text, ending in a newline; `blobs(graph)` holds the arrays it refers to."""
    return "\n".join(graph_lines(graph)) + "\n"


def blobs(graph: Graph) -> dict[str, Array]:
    """The large arrays of the graph and its subgraphs by digest, as `parse_graph` wants them."""
    found: dict[str, Array] = {}
    for inner in walk([graph]):
        arrays = [v.constant for v in inner.constants]
        arrays += [a for node in inner for a in node.attrs.values() if isinstance(a, np.ndarray)]
        found.update((digest(a), a) for a in arrays if a is not None and not is_inline(a))
    return found


def digest(array: Array) -> str:
    """ "sha256:" and the hexadecimal digest of the array's bytes in row-major order."""
    data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return f"sha256:{hashlib.sha256(data.data).hexdigest()}"


def is_inline(array: Array) -> bool:
    """Whether an array's elements stand in the text; strings always do."""
    return array.size <= MOST_INLINE or array.dtype.kind in "OUS"


def graph_lines(graph: Graph) -> list[str]:
    """The lines of the graph's text, for texts that hold graphs."""
    lines = [f"graph {quote(graph.name)} {{"]
    if graph.metadata != Metadata():
        lines.append(f"  metadata {{{metadata_text(graph.metadata)}}}")
    lines += [f"  input {_definition(v)}" for v in graph.inputs]
    lines += [f"  capture {_definition(v)}" for v in graph.captures]
    lines += [f"  constant {_definition(v)} = {data_text(v.constant, v.dtype)}" for v in graph.constants]
    for node in graph:
        lines += [f"  {line}" for line in _node_lines(node)]
    lines += [f"  output {marked('%', v.name)}" for v in graph.outputs]
    return [*lines, "}"]


def _definition(value: Value) -> str:
    text = marked("%", value.name)
    extra = f" {value.layout}" if value.layout.block else ""
    if value.content is not None and value.constant is None:
        known = ["?" if d is None else dim_text(d) for d in value.content.ravel()]
        extra += f" knows {known[0] if value.content.ndim == 0 else '[' + ', '.join(known) + ']'}"
    if value.type is not None or extra:
        text += f": {'?' if value.type is None else type_text(value.type)}{extra}"
    return text


def data_text(array: Array | None, dtype: DType) -> str:
    """An array's elements, or under which digest they are to be found."""
    assert array is not None
    return array_text(array, dtype) if is_inline(array) else f"blob {quote(digest(array))}"


def metadata_text(metadata: Metadata) -> str:
    """What stands between the braces of `metadata {...}`."""
    fields = [
        f"{name} = {quote(getattr(metadata, name))}"
        for name in ("producer_name", "producer_version", "domain", "description")
        if getattr(metadata, name)
    ]
    if metadata.version:
        fields.append(f"version = {metadata.version}")
    if metadata.custom:
        pairs = ", ".join(f"{quote(k)} = {quote(v)}" for k, v in metadata.custom.items())
        fields.append(f"custom = {{{pairs}}}")
    return ", ".join(fields)


def _node_lines(node: Node) -> list[str]:
    operands = ", ".join("_" if v is None else marked("%", v.name) for v in node.inputs)
    head = f"{', '.join(map(_definition, node.outputs))} = {bare(node.op)}({operands})"
    if node.captures:
        head += f" captures({', '.join(marked('%', v.name) for v in node.captures)})"
    head += f" {marked('@', node.name)}"
    attributes = [(bare(name), _attribute_lines(a)) for name, a in node.attrs.items() if a is not None]
    if not attributes:
        return [head]
    if not node.subgraphs:
        return [f"{head} {{{', '.join(f'{name} = {lines[0]}' for name, lines in attributes)}}}"]
    lines = [f"{head} {{"]
    for name, value in attributes:
        lines.append(f"  {name} = {value[0]}")
        lines += [f"  {line}" for line in value[1:]]
    return [*lines, "}"]


def _attribute_lines(value: Any) -> list[str]:
    return graph_lines(value) if isinstance(value, Graph) else [_attribute_text(value)]


def _attribute_text(value: Any) -> str:
    if isinstance(value, np.ndarray):
        dtype = element_type(value)
        return f"tensor {type_text(tensor(dtype, value.shape))} {data_text(value, dtype)}"
    if isinstance(value, (TensorType, SequenceType, OptionalType)):
        return f"type {type_text(value)}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_attribute_text, value))}]"
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, bytes):
        return f"b{quote(value.decode('latin-1'))}"
    if isinstance(value, (float, np.floating)):
        return float_text(float(value))
    if isinstance(value, (int, np.integer)):
        return str(int(value))
    raise TypeError(f"an attribute cannot be {value!r}")
