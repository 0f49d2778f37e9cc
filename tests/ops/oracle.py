"""Runs one operator three ways: ONNX Runtime, onnx's reference evaluator, and our upgrades + inference + reference.

A sample written for opset V (`Sample.opset`; None: for the newest form) holds for every later opset up to the next one
at which the operator's form changed, that is, at which an upgrade applies. `cases` lists what that makes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from onnx import defs, helper
from onnx.reference import ReferenceEvaluator

from jitopt.ir.dims import Dim, Environment, symbol
from jitopt.ir.dtypes import DType, dtype_of
from jitopt.ir.graph import Graph, Node, Value
from jitopt.ir.types import SequenceType, TensorType, Type
from jitopt.ops import operator_of
from jitopt.ops.operator import Attrs, Operator, Sample
from jitopt.passes.infer import infer

OLDEST_OPSET = 7
PLAIN_OPSET = 21  # of the default domain where an operator of another domain is tested
INNERMOST = 64  # integer inputs of at most so many elements are shape operands: constants in symbolic inference


# Optional outputs that no model asks for: training statistics. Samples count them, models leave their names empty.
OMITTED = {
    "com.microsoft.SkipLayerNormalization": (1, 2),
    "com.microsoft.SkipSimplifiedLayerNormalization": (1, 2),
}


@dataclass(frozen=True)
class Case:
    operator: Operator
    opset: int
    sample: Sample

    @property
    def domain(self) -> str:
        return self.operator.name.rpartition(".")[0]

    @property
    def op_type(self) -> str:
        return self.operator.name.rpartition(".")[2]

    @property
    def outputs(self) -> list[int]:
        """Indices of the outputs asked for."""
        return [i for i in range(self.sample.outputs) if i not in OMITTED.get(self.operator.name, ())]

    @property
    def dtype(self) -> str:
        """Name of the first present input's element type; "" for none."""
        return next((str(dtype_of(a.dtype)) for a in self.sample.inputs if isinstance(a, np.ndarray)), "")

    def __str__(self) -> str:
        shapes = ", ".join("-" if a is None else _describe(a) for a in self.sample.inputs)
        return f"{self.operator.name}-{self.opset}({shapes}; {dict(self.sample.attrs)})"


def _describe(array: Any) -> str:
    return f"{array.dtype}{list(array.shape)}" if isinstance(array, np.ndarray) else f"[{len(array)} tensors]"


# which samples hold at which opset ----------------------------------------------------------------------------------
def opsets(operator: Operator) -> list[int]:
    """The opsets at which the operator changed, from the oldest one supported."""
    known = [v for v in operator.since if v <= _newest(operator)]
    return sorted({max(v, OLDEST_OPSET) if "." not in operator.name else v for v in known})


def _newest(operator: Operator) -> int:
    """The newest version that both onnx and ONNX Runtime know."""
    return min(defs.onnx_opset_version(), _newest_onnxruntime()) if "." not in operator.name else 10**6


@cache
def _newest_onnxruntime() -> int:
    schemas = ort.capi.onnxruntime_pybind11_state.get_all_operator_schema()
    return int(max(s.since_version for s in schemas if s.domain == ""))


def cases(operator: Operator, opset: int) -> list[Case]:
    """The samples that make a valid model at that opset."""
    changes = [version for version, _ in operator.upgrades]
    newest_form = max((v for v in changes if v <= operator.since[-1]), default=0)

    def holds(sample: Sample) -> bool:
        written = newest_form if sample.opset is None else sample.opset
        until = min((v for v in changes if v > written), default=10**6)
        return written <= opset < until

    found = [Case(operator, opset, sample) for sample in operator.samples() if holds(sample)]
    return [case for case in found if _valid(case)]


def _valid(case: Case) -> bool:
    """The operator's ONNX schema of that opset knows the sample's attributes, arity and types."""
    if case.domain:
        return True
    schema = defs.get_schema(case.op_type, case.opset)
    sample = case.sample
    if any(name not in schema.attributes for name in sample.attrs) or len(sample.inputs) > schema.max_input:
        return False
    if sample.outputs > schema.max_output:
        return False
    for index, value in enumerate(sample.inputs):
        formal = schema.inputs[min(index, len(schema.inputs) - 1)]
        if value is not None and _type_text(value) not in formal.types:
            return False
    return True


def _type_text(value: Any) -> str:
    if isinstance(value, list):
        return f"seq({_type_text(value[0])})" if value else "seq(tensor(float))"
    return {"float32": "tensor(float)", "float64": "tensor(double)"}.get(name := _name(value), f"tensor({name})")


def _name(array: Any) -> str:
    return str(dtype_of(np.asarray(array).dtype))


# the other side -----------------------------------------------------------------------------------------------------
def build_model(case: Case) -> onnx.ModelProto:
    """The one-node model; every input is a graph input."""
    inputs = {f"in{i}": value for i, value in enumerate(case.sample.inputs) if value is not None}
    names = [f"in{i}" if value is not None else "" for i, value in enumerate(case.sample.inputs)]
    outputs = [f"out{i}" if i in case.outputs else "" for i in range(case.sample.outputs)]
    attrs = {
        k: v if not isinstance(v, np.ndarray) else onnx.numpy_helper.from_array(v) for k, v in case.sample.attrs.items()
    }
    node = helper.make_node(case.op_type, names, outputs, name="node", domain=case.domain, **attrs)
    graph = helper.make_graph(
        [node], "one", [helper.make_value_info(k, _type_proto(v)) for k, v in inputs.items()],
        [onnx.ValueInfoProto(name=name) for name in outputs if name],
    )  # fmt: skip
    imports = [helper.make_opsetid("", PLAIN_OPSET if case.domain else case.opset)]
    if case.domain:
        imports.append(helper.make_opsetid(case.domain, case.opset))
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def _type_proto(value: Any) -> onnx.TypeProto:
    if isinstance(value, list):
        return helper.make_sequence_type_proto(_type_proto(value[0] if value else np.zeros(1, np.float32)))
    array = np.asarray(value)
    return helper.make_tensor_type_proto(dtype_of(array.dtype).onnx_code, array.shape)


def run_onnxruntime(case: Case) -> list[Any]:
    """Outputs of ONNX Runtime with graph optimisation off. Raises what ONNX Runtime raises."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    session = ort.InferenceSession(build_model(case).SerializeToString(), options, providers=["CPUExecutionProvider"])
    feeds = {f"in{i}": value for i, value in enumerate(case.sample.inputs) if value is not None}
    return list(session.run(None, feeds))


def run_reference_evaluator(case: Case) -> list[Any]:
    """Outputs of onnx's own evaluator: for what ONNX Runtime has no kernel for."""
    feeds = {f"in{i}": value for i, value in enumerate(case.sample.inputs) if value is not None}
    with np.errstate(all="ignore"):
        return list(ReferenceEvaluator(build_model(case)).run(None, feeds))


# our side -----------------------------------------------------------------------------------------------------------
def build_graph(case: Case, *, symbolic: bool = False, ranked: bool = True) -> Graph:
    """The node in a graph of its own, brought to the newest form and with types inferred.

    `symbolic`: every extent of the inputs beyond 1 becomes a symbol, equal extents the same one; shape operands become
    constants. Without `ranked` the ranks of all inputs are unknown.
    """
    graph = Graph("one")
    operands: list[Value | None] = []
    for index, value in enumerate(case.sample.inputs):
        fixed = symbolic and _is_shape_operand(case.operator, index, value)
        operands.append(None if value is None else _operand(graph, f"in{index}", value, symbolic, fixed))
    attrs = {k: list(v) if isinstance(v, tuple) else v for k, v in case.sample.attrs.items()}
    found = graph.add(case.operator.name, operands, outputs=case.sample.outputs, name="node", **attrs)
    outputs = found if isinstance(found, tuple) else (found,)
    node = outputs[0].producer
    for index in case.outputs:
        graph.output(outputs[index])
    for value in graph.inputs if not ranked else ():
        value.type = value.type.with_shape(None) if isinstance(value.type, TensorType) else value.type
    for version, upgrade in case.operator.upgrades:
        if case.opset < version:
            upgrade(graph, node)
    infer(graph)
    return graph


def _is_shape_operand(operator: Operator, index: int, value: Any) -> bool:
    """Small integers that extents may depend on, and the scales of Resize."""
    if not isinstance(value, np.ndarray) or value.ndim > 1 or value.size > INNERMOST:
        return False
    return value.dtype.kind in "iub" or (operator.name in ("Resize", "Upsample") and index > 0)


def _operand(graph: Graph, name: str, value: Any, symbolic: bool, constant: bool) -> Value:
    if isinstance(value, list):
        element = value[0] if value else np.zeros(1, np.float32)
        operand = graph.input(name, dtype_of(element.dtype), None)
        operand.type = SequenceType(TensorType(dtype_of(element.dtype), None))
        return operand
    array = np.asarray(value)
    if constant:
        return graph.constant(array, name=name)
    dims: list[Dim] = [symbol(f"d{d}") if symbolic and d > 1 else d for d in array.shape]
    return graph.input(name, dtype_of(array.dtype), dims)


def run(graph: Graph, inputs: Sequence[Any], captures: Sequence[Any] = ()) -> list[Any]:
    """The graph's outputs, node by node through the references."""
    values: dict[Value, Any] = dict(zip([*graph.inputs, *graph.captures], [*inputs, *captures], strict=True))
    for node in graph:
        results = _run_node(node, [None if v is None else _array(values, v) for v in node.inputs], values)
        values.update(zip(node.outputs, results, strict=False))
    return [_array(values, value) for value in graph.outputs]


def _run_node(node: Node, arrays: list[Any], values: dict[Value, Any]) -> tuple[Any, ...]:
    operator = operator_of(node)
    attrs = Attrs(
        {k: v for k, v in vars(operator.attrs(node)).items() if k not in ("outputs", "run", "captures")},
        outputs=len(node.outputs), run=run, captures=[_array(values, v) for v in node.captures],
    )  # fmt: skip
    assert operator.reference is not None
    result = operator.reference(attrs, *arrays)
    return result if isinstance(result, tuple) else (result,)


def _array(values: dict[Value, Any], value: Value) -> Any:
    return values[value] if value.constant is None else value.constant


def run_ours(case: Case) -> tuple[Graph, list[Any]]:
    """Our outputs and the concrete graph they come from."""
    graph = build_graph(case)
    feeds = [np.asarray(a) if not isinstance(a, list) else a for a in case.sample.inputs if a is not None]
    return graph, run(graph, feeds)


# inference against results ------------------------------------------------------------------------------------------
def misfit(inferred: Type | None, result: Any, extents: dict[str, int], *, exact: bool) -> str:
    """What is wrong with an inferred type, given the result; "" for nothing.

    Fresh symbols ("?...") may stand for anything, unless `exact`; others get their value from `extents`.
    """
    if not isinstance(inferred, TensorType) or isinstance(result, list):
        return ""
    found = np.asarray(result)
    if inferred.dtype is not _dtype(found):
        return f"dtype {inferred.dtype} inferred, {found.dtype} found"
    if inferred.shape is None:
        return "the rank was not inferred" if exact else ""
    if len(inferred.shape) != found.ndim:
        return f"{inferred} inferred, shape {found.shape} found"
    for dim, extent in zip(inferred.shape, found.shape, strict=True):
        try:
            value = Environment(extents)(dim)
        except KeyError:
            if exact:
                return f"{inferred} inferred: a fresh symbol where the extent {extent} can be known"
            continue
        if value != extent:
            return f"{inferred} inferred, shape {found.shape} found"
    return ""


def _dtype(array: np.ndarray[Any, Any]) -> DType:
    return dtype_of(array.dtype)


def extents(case: Case) -> dict[str, int]:
    """Values of the symbols `build_graph(symbolic=True)` puts in."""
    return {f"d{d}": d for a in case.sample.inputs if isinstance(a, np.ndarray) for d in a.shape}


@cache
def schema_versions(name: str) -> tuple[int, ...]:
    """All versions of an operator in onnx's schemas, oldest first; () where onnx does not know it."""
    return tuple(sorted(s.since_version for s in _history() if s.domain == "" and s.name == name))


@cache
def _history() -> tuple[Any, ...]:
    return tuple(defs.get_all_schemas_with_history())


def grouped(found: Sequence[Operator]) -> Iterator[tuple[Operator, int]]:
    """Every operator at every opset at which it changed."""
    for operator in found:
        for opset in opsets(operator):
            yield operator, opset
