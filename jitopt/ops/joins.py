"""Types where several values meet or leave a subgraph: branches, turns of a loop, elements of a sequence."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from jitopt.errors import ModelError
from jitopt.ir.dims import Dim, Shape, symbols
from jitopt.ir.graph import Graph, Node, Value
from jitopt.ir.types import OptionalType, SequenceType, TensorType, Type
from jitopt.ops.contents import fresh


def union(node: Node, output: int, types: Sequence[Type | None]) -> Type | None:
    """The narrowest type that holds them all, None where one is not known.

    Extents that differ become the output's own fresh symbols, ranks that differ an unknown rank. Raises ModelError
    where dtypes, or tensors, sequences and optionals, meet.
    """
    found = list(types)
    if any(t is None for t in found):
        return None
    first = found[0]
    if all(t == first for t in found):
        return first
    tensors = [t for t in found if isinstance(t, TensorType)]
    if len(tensors) == len(found):
        if len({t.dtype for t in tensors}) > 1:
            raise ModelError(f"output {output} is {' here and '.join(map(str, tensors))} there")
        return tensors[0].with_shape(_common_shape(node, output, [t.shape for t in tensors]))
    for kind in (SequenceType, OptionalType):
        inner = [t.element for t in found if isinstance(t, kind)]
        if len(inner) == len(found):
            element = union(node, output, inner)
            return None if element is None else kind(element)
    raise ModelError(f"output {output} is {' here and '.join(map(str, found))} there")


def _common_shape(node: Node, output: int, shapes: Sequence[Shape | None]) -> Shape | None:
    known = [s for s in shapes if s is not None]
    if len(known) < len(shapes) or len({len(s) for s in known}) > 1:
        return None
    columns = enumerate(zip(*known, strict=True))
    return tuple(dims[0] if all(d is dims[0] for d in dims) else fresh(node, i, output) for i, dims in columns)


def visible_symbols(values: Iterable[Value | None]) -> set[str]:
    """Names of the symbols the types of these values read."""
    found: set[str] = set()
    for value in values:
        if value is not None:
            found |= _symbols_of(value.type)
            if value.content is not None:
                for d in value.content.flat:
                    found |= symbols(d)
    return found


def _symbols_of(type: Type | None) -> set[str]:
    if isinstance(type, (SequenceType, OptionalType)):
        return _symbols_of(type.element)
    if type is None or type.shape is None:
        return set()
    return {name for d in type.shape for name in symbols(d)}


def outside(node: Node, output: int, type: Type | None, visible: set[str]) -> Type | None:
    """`type` as seen outside the subgraph it comes from: extents that only the inside can tell become fresh symbols."""
    if isinstance(type, (SequenceType, OptionalType)):
        element = outside(node, output, type.element, visible)
        return type if element is None else (SequenceType if isinstance(type, SequenceType) else OptionalType)(element)
    if type is None or type.shape is None:
        return type

    def kept(axis: int, d: Dim) -> Dim:
        return d if symbols(d) <= visible else fresh(node, axis, output)

    return type.with_shape(tuple(kept(axis, d) for axis, d in enumerate(type.shape)))


def leaving(node: Node, graph: Graph) -> list[Type | None]:
    """Types of the subgraph's outputs, in terms of what can be seen outside."""
    visible = visible_symbols(node.operands)
    return [outside(node, i, value.type, visible) for i, value in enumerate(graph.outputs)]


def typed(node: Node, output: int, type: Type | None) -> Type:
    """`type`, which must be known. Raises ModelError otherwise."""
    if type is None:
        raise ModelError(f"the type of output {output} of {node.op} is not known", node=node.name)
    return type
