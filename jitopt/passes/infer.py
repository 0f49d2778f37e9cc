"""Types and contents of every value, by the operators' own rules.

`infer(graph)` walks the nodes in order, subgraphs included, and fills `Value.type` and `Value.content`. It may run
after every pass: a node whose operands, attributes and outputs are the very objects it saw last time costs only that
comparison. What the model file declares is checked against what the rules say:

    a dtype, a rank or an extent that contradicts     ModelError or ShapeError that names the node
    a declared extent where the rule knows none       the declaration counts
    a declared extent where the rule has a formula    the formula counts (declarations of traced models are often
                                                      those of one sample batch)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jitopt.errors import JitoptError, ModelError, ShapeError
from jitopt.ir.dims import Dim, Shape, symbol
from jitopt.ir.dtypes import DType
from jitopt.ir.graph import Graph, Node, Value
from jitopt.ir.storage import element_type
from jitopt.ir.types import OptionalType, SequenceType, TensorType, Type, tensor
from jitopt.ir.verifier import check_signature
from jitopt.ops.operator import Kind, Operator
from jitopt.ops.registry import operator_of
from jitopt.passes.infer_bodies import infer_bodies

CONTENT_LIMIT = 64  # elements a tensor may have for its contents to be followed
_MAX_ELEMENTS = 2**62


def infer(graph: Graph) -> None:
    """Fill types and contents of all values of `graph` and its subgraphs; nodes are put in order if they are not.

    Raises ModelError or ShapeError naming the node where types do not fit, UnsupportedOperator for unknown operators.
    """
    if not is_ordered(graph):
        graph.sort()
    for node in graph:
        infer_node(node)
    for value in graph.outputs:
        _fill_constant(value)


def is_ordered(graph: Graph) -> bool:
    """Every node stands behind the producers of what it reads."""
    seen: set[Node] = set()
    for node in graph:
        for value in node.operands:
            if value is not None and value.producer is not None and value.producer not in seen:
                return False
        seen.add(node)
    return True


def infer_node(node: Node) -> None:
    """Fill the types and contents of one node's outputs; its operands must have theirs."""
    if node.inferred is not None and node.inferred[0] == tuple(map(id, _state(node))) and not node.subgraphs:
        return
    for value in node.operands:
        if value is not None:
            _fill_constant(value)
    operator = operator_of(node)
    try:
        if node.subgraphs:
            infer_bodies(node, infer)
        types = _output_types(node, operator)
        for value, found in zip(node.outputs, types, strict=True):
            value.type = _merged(value, value.type, found, node.op)
            _check_extents(value)
        for value, content in zip(node.outputs, _contents(node, operator), strict=True):
            _follow_content(node, value, content)
    except JitoptError as error:
        raise error.at(node=node.name) from None
    except Exception as error:
        raise ModelError(f"inputs of {node.op} do not fit: {error!r}", node=node.name) from error
    state = _state(node)
    node.inferred = (tuple(map(id, state)), state)  # the objects are kept, so that no other can take their id


def _state(node: Node) -> list[Any]:
    """The objects inference of this node depends on or wrote."""
    state: list[Any] = [node.op, *node.attrs, *node.attrs.values()]
    for value in node.inputs:
        if value is None:
            state.append(None)
        else:
            state += (value.type, value.content, value.constant)
    for value in node.captures:
        state += (value.type, value.content)
    for value in node.outputs:
        state += (value.name, value.type, value.content)
    return state


def _fill_constant(value: Value) -> None:
    """Type and, for a small integer or boolean tensor, content of a constant."""
    array = value.constant
    if array is None or (value.content is not None and value.type is not None):
        return
    if value.type is None:
        value.type = tensor(element_type(array), tuple(map(int, array.shape)))
    if value.dtype.kind in ("int", "uint", "bool") and array.size <= CONTENT_LIMIT:
        value.content = array.astype(object)


# types --------------------------------------------------------------------------------------------------------------
def _output_types(node: Node, operator: Operator) -> list[Type | None]:
    """What the operator's rule says; where an input's rank is unknown and the rule needs it, what the schema says."""
    try:
        found: list[Type | None] = list(operator.infer(node, operator.attrs(node)))
    except JitoptError:
        if all(v is None or _rank_known(v.type) for v in node.operands):
            raise
        check_signature(node, operator)  # an unknown rank excuses no dtype
        found = [_schema_type(node, operator, index) for index in range(len(node.outputs))]
    if len(found) < len(node.outputs):
        raise ModelError(f"{node.op} gives {len(found)} outputs, {len(node.outputs)} are asked for")
    return found[: len(node.outputs)]


def _rank_known(type: Type | None) -> bool:
    return type is not None and not (isinstance(type, TensorType) and type.shape is None)


def _schema_type(node: Node, operator: Operator, index: int) -> Type | None:
    """A tensor of unknown rank whose dtype a type variable of the schema ties to an input, else the declared type."""
    formal = operator.outputs[min(index, len(operator.outputs) - 1)]
    for param, value in zip(operator.inputs, node.inputs, strict=False):
        if value is not None and isinstance(value.type, TensorType) and param.type_var == formal.type_var:
            return value.type.with_shape(None)
    return node.outputs[index].type


def _merged(value: Value, declared: Type | None, found: Type | None, op: str) -> Type | None:
    """One type from what stood there and what the rule found; the old object where nothing changed."""
    if declared is None or found is None:
        return _with_fresh(value, found) if declared is None else declared
    if isinstance(declared, TensorType) and isinstance(found, TensorType):
        if declared.dtype is not found.dtype:
            raise ModelError(f"'{value.name}' is declared {declared.dtype} but {op} gives {found.dtype}")
        shape = _merged_shape(value, declared.shape, found.shape, op)
        return declared if shape == declared.shape else found.with_shape(shape)
    if isinstance(declared, SequenceType) and isinstance(found, SequenceType):
        return declared if declared == found or found.element is None else found
    if isinstance(declared, OptionalType) and isinstance(found, OptionalType):
        return declared if declared == found or found.element is None else found
    raise ModelError(f"'{value.name}' is declared {declared} but {op} gives {found}")


def _merged_shape(value: Value, declared: Shape | None, found: Shape | None, op: str) -> Shape | None:
    if found is None or declared is None:
        return declared if found is None else found
    if len(declared) != len(found):
        raise ShapeError(f"'{value.name}' is declared {_text(declared)} but {op} gives {_text(found)}")
    return tuple(
        _merged_dim(value, axis, d, f, f"{op} gives {_text(found)}")
        for axis, (d, f) in enumerate(zip(declared, found, strict=True))
    )


def _merged_dim(value: Value, axis: int, declared: Dim, found: Dim, what: str) -> Dim:
    if found is declared:
        return found
    if isinstance(found, int) and isinstance(declared, int):
        if found != declared:
            raise ShapeError(f"axis {axis} of '{value.name}' is declared {declared} but {what}")
        return found
    if found is _fresh(value, axis) and not _is_unknown(declared):
        return declared
    return found


def _fresh(value: Value, axis: int) -> Dim:
    """The symbol of an extent of `value` that only running the model tells."""
    return symbol(f"?{value.name}_{axis}")


def _is_unknown(d: Dim) -> bool:
    return not isinstance(d, int) and d.text.startswith("?")


def _with_fresh(value: Value, type: Type | None) -> Type | None:
    """`type` with a fresh symbol wherever the rule left a dim open as None."""
    if not isinstance(type, TensorType) or type.shape is None or None not in type.shape:
        return type
    return type.with_shape(tuple(_fresh(value, i) if d is None else d for i, d in enumerate(type.shape)))


def _check_extents(value: Value) -> None:
    if not isinstance(value.type, TensorType) or value.type.shape is None:
        return
    elements = 1
    for d in value.type.shape:
        if isinstance(d, int):
            if d < 0:
                raise ShapeError(f"'{value.name}' would have the shape {_text(value.type.shape)}")
            elements *= d
    if elements > _MAX_ELEMENTS:
        raise ShapeError(f"'{value.name}' of shape {_text(value.type.shape)} is larger than any memory")


def _text(shape: Shape) -> str:
    return f"({', '.join(map(str, shape))})"


# contents -----------------------------------------------------------------------------------------------------------
def _follow_content(node: Node, value: Value, content: np.ndarray[Any, Any] | None) -> None:
    if content is None or content.size > CONTENT_LIMIT:
        value.content = None
        return
    if not isinstance(value.type, TensorType):
        raise ModelError(f"'{value.name}' has contents but is {value.type}")
    shape = _merged_shape(value, value.type.shape, tuple(map(int, content.shape)), f"the contents of {node.op}")
    if shape != value.type.shape:
        value.type = value.type.with_shape(shape)
    old = value.content
    if old is None or old.shape != content.shape or list(old.flat) != list(content.flat):
        value.content = _plain(content, value.type.dtype)


def _contents(node: Node, operator: Operator) -> list[np.ndarray[Any, Any] | None]:
    """What the operator knows of each output's elements; one array from its rule is the first output's."""
    unknown: list[np.ndarray[Any, Any] | None] = [None] * len(node.outputs)
    if operator.content is None:
        return unknown
    contents = [None if v is None else v.content for v in node.inputs]
    if operator.kind is not Kind.SHAPE and contents and all(c is None for c in contents):
        return unknown
    found = operator.content(operator.attrs(node), node, *contents)
    arrays = found if isinstance(found, tuple) else (found,)
    known = [None if a is None else np.asarray(a, dtype=object) for a in arrays]
    return [*known, *unknown[len(known) :]]


def _plain(content: np.ndarray[Any, Any], dtype: DType) -> np.ndarray[Any, Any]:
    """The array with NumPy's scalars turned into Python's."""
    out = np.empty(content.shape, dtype=object)
    for index, d in np.ndenumerate(content):
        out[index] = d.item() if isinstance(d, np.generic) else d
    return out
