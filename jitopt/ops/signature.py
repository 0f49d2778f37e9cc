"""`declare`: enters an operator whose types follow from its parameters and whose shapes follow from a shape rule."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from jitopt.errors import JitoptError, ModelError
from jitopt.ir.dtypes import BY_NAME, DType
from jitopt.ir.graph import Node
from jitopt.ir.types import TensorType, Type
from jitopt.ops.operator import Attrs, Infer, Kind, Operator, Param, Reference
from jitopt.ops.registry import register
from jitopt.ops.rules import ShapeRule, UnknownRank

DtypeRule = Callable[[Node, Attrs], Mapping[str, DType]]


def dtypes(names: str) -> frozenset[DType]:
    """A set of element types from their names: dtypes("float32 int64")."""
    return frozenset(BY_NAME[name] for name in names.split())


# The sets ONNX's schemas use again and again; "plain" is what NumPy and most operators know.
REALS = dtypes("float16 bfloat16 float32 float64")
SIGNED = dtypes("int8 int16 int32 int64")
UNSIGNED = dtypes("uint8 uint16 uint32 uint64")
WHOLE = SIGNED | UNSIGNED
NUMERIC = REALS | WHOLE
WIDE_NUMERIC = REALS | dtypes("int32 int64 uint32 uint64")
PLAIN = NUMERIC | dtypes("bool string complex64 complex128")  # every type of opset 13
BYTES = dtypes("int8 uint8")
BOOLS = dtypes("bool")


def declare(
    name: str, kind: Kind, inputs: Sequence[Param], outputs: Sequence[Param], shape: ShapeRule,
    reference: Reference | None, *, dtype: DtypeRule | None = None, **rest: Any,
) -> Operator:  # fmt: skip
    """Register an operator.

    Types of outputs: a type variable the inputs bind, or the single dtype allowed, or what `dtype(node, attrs)` says
    of the variable. `rest` are the other fields of `Operator`. The reference runs with NumPy's floating-point
    warnings off and its outputs get exactly the dtype the signature says.
    """
    ins, outs = tuple(inputs), tuple(outputs)
    return register(
        Operator(
            name, kind, ins, outs, typed(ins, outs, shape, dtype),
            None if reference is None else _quiet(ins, outs, reference), **rest,
        )
    )  # fmt: skip


def formal(params: Sequence[Param], index: int) -> Param | None:
    """The parameter that actual operand `index` stands for; the last variadic one takes all that follow."""
    if index < len(params):
        return params[index]
    return params[-1] if params and params[-1].variadic else None


def bind(node: Node, inputs: Sequence[Param]) -> dict[str, DType]:
    """What the node's inputs bind the type variables to.

    Raises ModelError for too many or missing inputs, a dtype the operator does not take, or two dtypes for one
    variable.
    """
    bound: dict[str, DType] = {}
    for index, param in enumerate(inputs):
        if not (param.optional or param.variadic) and node.input(index) is None:
            raise ModelError(f"input {index} ('{param.name}') is missing")
    for index, value in enumerate(node.inputs):
        formal_param = formal(inputs, index)
        if formal_param is None:
            raise ModelError(f"takes at most {len(inputs)} inputs, {len(node.inputs)} are given")
        if value is None or not isinstance(value.type, TensorType):
            continue
        found, var = value.type.dtype, formal_param.type_var
        if found not in formal_param.dtypes:
            raise ModelError(f"input {index} ('{formal_param.name}') cannot be {found}: '{value.name}'")
        if bound.setdefault(var, found) is not found:
            raise ModelError(
                f"inputs of type {var} must agree, but '{value.name}' is {found} where {bound[var]} came first"
            )
    return bound


def typed(inputs: Sequence[Param], outputs: Sequence[Param], shape: ShapeRule, dtype: DtypeRule | None) -> Infer:
    """The inference function: checks the inputs' dtypes, then combines shape rule and dtypes."""

    def infer(node: Node, attrs: Attrs) -> Sequence[Type]:
        try:
            bound = bind(node, inputs)
            if dtype is not None:
                bound.update(dtype(node, attrs))
            found = [_output_dtype(outputs, i, bound) for i in range(len(node.outputs))]
            try:
                shapes = shape(node, attrs)
            except UnknownRank:
                shapes = [None] * len(node.outputs)
        except JitoptError as error:
            if error.node is None:
                error.message = f"{node.op}: {error.message}"
            raise error.at(node=node.name) from None
        return [TensorType(d, s) for d, s in zip(found, shapes, strict=False)]

    return infer


def _output_dtype(outputs: Sequence[Param], index: int, bound: Mapping[str, DType]) -> DType:
    param = formal(outputs, index)
    if param is None:
        raise ModelError(f"gives at most {len(outputs)} outputs, {index + 1} are asked for")
    found = bound.get(param.type_var)
    if found is None:
        if len(param.dtypes) != 1:
            raise ModelError(f"the type of output {index} ('{param.name}') cannot be told")
        (found,) = param.dtypes
    return found


def _quiet(inputs: Sequence[Param], outputs: Sequence[Param], reference: Reference) -> Reference:
    """The reference without floating-point warnings, its arrays cast to what the signature promises."""
    where = {param.type_var: index for index, param in reversed(list(enumerate(inputs)))}

    def run(attrs: Attrs, *arrays: Any) -> Any:
        with np.errstate(all="ignore"):
            result = reference(attrs, *arrays)
            results = result if isinstance(result, tuple) else (result,)
            exact = tuple(_exact(r, formal(outputs, i), where, arrays) for i, r in enumerate(results))
        return exact if isinstance(result, tuple) else exact[0]

    return run


def _exact(result: Any, param: Param | None, where: Mapping[str, int], arrays: Sequence[Any]) -> Any:
    if not isinstance(result, (np.ndarray, np.generic)) or param is None:
        return result
    index = where.get(param.type_var)
    source = arrays[index] if index is not None and index < len(arrays) else None
    if isinstance(source, np.ndarray):
        return np.asarray(result).astype(source.dtype, copy=False)
    return np.asarray(result)
