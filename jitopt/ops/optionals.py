"""Optionals: Optional, OptionalHasElement, OptionalGetElement. An empty optional is None."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jitopt.errors import ExecutionError, ModelError
from jitopt.ir.graph import Node
from jitopt.ir.types import OptionalType, SequenceType, TensorType, Type, tensor
from jitopt.ops.cases import counting, sample
from jitopt.ops.operator import Array, Attribute, Attrs, Kind, Operator, Param
from jitopt.ops.registry import register
from jitopt.ops.signature import BOOLS


def _optional_infer(node: Node, attrs: Attrs) -> Sequence[Type]:
    value = node.input(0)
    element = attrs.type if value is None else value.type
    if not isinstance(element, (TensorType, SequenceType)):
        raise ModelError(f"Optional of {element}: the element must be a tensor or a sequence", node=node.name)
    return [OptionalType(element)]


def _get_infer(node: Node, attrs: Attrs) -> Sequence[Type]:
    found = node.arg(0).type
    if found is None:
        raise ModelError("the type of the optional is not known", node=node.name)
    return [found.element if isinstance(found, OptionalType) else found]


def _get(attrs: Attrs, value: Any) -> Any:
    if value is None:
        raise ExecutionError("the optional is empty")
    return value


def _has(attrs: Attrs, value: Any = None) -> Array:
    return np.array(value is not None)


_ANY = Param("input", type_var="V", optional=True)
register(
    Operator(
        "Optional", Kind.OPAQUE, (_ANY,), (Param("output", type_var="O"),), _optional_infer,
        lambda attrs, value=None: value, attributes={"type": Attribute("type")}, since=(15, 28),
    )
)  # fmt: skip
register(
    Operator(
        "OptionalHasElement", Kind.OPAQUE, (_ANY,), (Param("output", BOOLS, "B"),),
        lambda node, attrs: [tensor("bool", ())], _has, since=(15, 18, 28),
        samples=lambda: [sample(counting(2), opset=18), sample(opset=18), sample([counting(2)], opset=18)],
    )
)  # fmt: skip
register(
    Operator(
        "OptionalGetElement", Kind.OPAQUE, (Param("input", type_var="O"),), (Param("output", type_var="V"),),
        _get_infer, _get, since=(15, 18, 28),
        samples=lambda: [sample(counting(2, 3), opset=18), sample([counting(2), counting(3)], opset=18)],
    )
)  # fmt: skip
