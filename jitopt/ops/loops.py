"""Subgraphs that run turn after turn: Loop, Scan.

A body's inputs are typed, and its inside inferred, before the rules here run (`jitopt.passes.infer_bodies`); the types
of its carried inputs then hold for every turn. References evaluate it through `attrs.run(graph, inputs, captures)`.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from jitopt.errors import ModelError, ShapeError
from jitopt.ir.bounds import larger
from jitopt.ir.dims import Dim, symbols
from jitopt.ir.graph import Graph, Node, Value
from jitopt.ir.types import OptionalType, TensorType, Type
from jitopt.ops.contents import axis_of, fresh, known, unified
from jitopt.ops.control import SUBGRAPH_SINCE
from jitopt.ops.joins import outside, typed, visible_symbols
from jitopt.ops.operator import ANY, Array, Attribute, Attrs, Kind, Operator, Param
from jitopt.ops.registry import register
from jitopt.ops.signature import BOOLS, dtypes

INT64 = dtypes("int64")


# Loop ---------------------------------------------------------------------------------------------------------------
def _loop_infer(node: Node, attrs: Attrs) -> Sequence[Type]:
    body: Graph = attrs.body
    carried = len(node.inputs) - 2
    if carried < 0 or len(body.outputs) != len(node.outputs) + 1 or len(body.inputs) != carried + 2:
        raise ModelError(
            f"the body of Loop has {len(body.inputs)} inputs and {len(body.outputs)} outputs; "
            f"{carried} carried values and {len(node.outputs)} outputs need {carried + 2} and {len(node.outputs) + 1}",
            node=node.name,
        )
    visible = visible_symbols(node.operands)
    states = [outside(node, i, _carried(body, i), visible) for i in range(carried)]
    turns = _turns(node, body)
    # Where the body may not run at all, an extent that is not static is 0 (as ONNX Runtime has it), not its formula.
    runs = isinstance(turns, int) and turns > 0
    scans = [
        _stacked(node, i, value, fresh(node, 0, i) if turns is None else turns, 0, visible if runs else set())
        for i, value in enumerate(body.outputs[1 + carried :], carried)
    ]
    return [typed(node, i, type) for i, type in enumerate([*states, *scans])]


def _carried(body: Graph, index: int) -> Type | None:
    """The type of a carried value after the loop; an optional that every turn fills counts as filled."""
    enters, leaves = body.inputs[2 + index].type, body.outputs[1 + index].type
    filled = isinstance(enters, OptionalType) and leaves is not None and not isinstance(leaves, OptionalType)
    return leaves if filled else enters


def _turns(node: Node, body: Graph) -> Dim | None:
    """How often the body runs, where neither condition can stop it early."""
    most, enter, stay = known(node.input(0)), node.input(1), body.outputs[0]
    begins = enter is None or _is_true(enter)
    continues = _is_true(stay) or stay is body.inputs[1] or _passes_on(stay, body.inputs[1])
    return larger(most.flat[0], 0) if most is not None and begins and continues else None


def _is_true(value: Value) -> bool:
    content = known(value)
    return content is not None and content.size == 1 and content.flat[0] is True


def _passes_on(value: Value, origin: Value) -> bool:
    node = value.producer
    return node is not None and node.op == "Identity" and node.inputs[0] is origin


def _stacked(node: Node, output: int, value: Value, extent: Dim, axis: int, visible: set[str]) -> Type | None:
    """The type of one turn's results put side by side along a new axis."""
    inner = value.type
    if not isinstance(inner, TensorType) or inner.shape is None:
        return inner
    axis = axis_of(axis, len(inner.shape) + 1, "scan output axis")
    shape = (*inner.shape[:axis], extent, *inner.shape[axis:])
    return outside(node, output, inner.with_shape(shape), visible | symbols(extent))


def _loop(attrs: Attrs, most: Array | None, enter: Array | None, *initial: Any) -> tuple[Any, ...]:
    assert attrs.run is not None
    body: Graph = attrs.body
    states, scans = list(initial), []
    going = enter is None or bool(np.ravel(enter)[0])
    for turn in itertools.count() if most is None else range(int(np.ravel(most)[0])):
        if not going:
            break
        stay, *results = attrs.run(body, [np.array(turn, np.int64), np.array(going), *states], attrs.captures)
        going, states = bool(np.ravel(stay)[0]), results[: len(states)]
        scans.append(results[len(states) :])
    found = body.outputs[1 + len(states) :]
    return *states, *(_stack([s[i] for s in scans], value, 0) for i, value in enumerate(found))


def _stack(slices: list[Array], value: Value, axis: int) -> Array:
    """The turns' results along a new axis; for no turn at all, extents only a turn could tell are 0."""
    if slices:
        if len({s.shape for s in slices}) > 1:
            raise ShapeError(f"scan output '{value.name}' changes its shape from turn to turn")
        return np.stack(slices, axis)
    inner = value.tensor
    shape = [d if isinstance(d, int) else 0 for d in inner.shape or ()]
    shape.insert(axis_of(axis, len(shape) + 1), 0)
    return np.zeros(shape, inner.dtype.numpy)


register(
    Operator(
        "Loop", Kind.OPAQUE,
        (
            Param("M", INT64, "I", optional=True), Param("cond", BOOLS, "B", optional=True),
            Param("v_initial", ANY, "", variadic=True),
        ),
        (Param("v_final_and_scan_outputs", ANY, "", variadic=True),), _loop_infer, _loop,
        attributes={"body": Attribute("graph", required=True)}, since=(1, *SUBGRAPH_SINCE),
    )
)  # fmt: skip


# Scan ---------------------------------------------------------------------------------------------------------------
_DIRECTIONS = Attribute("ints", check=lambda v: set(v) <= {0, 1})


def _scan_axes(attrs: Attrs, states: int, scanned: int, outputs: int) -> tuple[list[int], ...]:
    """Input axes, input directions, output axes, output directions; 0 where the node says nothing."""
    wanted = {
        "scan_input_axes": scanned, "scan_input_directions": scanned,
        "scan_output_axes": outputs - states, "scan_output_directions": outputs - states,
    }  # fmt: skip
    found = []
    for name, count in wanted.items():
        values = getattr(attrs, name)
        if values is not None and len(values) != count:
            raise ModelError(f"'{name}' of Scan has {len(values)} entries, {count} are needed")
        found.append(list(values) if values is not None else [0] * count)
    return tuple(found)


def _scan_infer(node: Node, attrs: Attrs) -> Sequence[Type]:
    body: Graph = attrs.body
    states = len(node.inputs) - attrs.num_scan_inputs
    if len(body.outputs) != len(node.outputs) or states < 0:
        raise ModelError(f"the body of Scan has {len(body.outputs)} outputs for {len(node.outputs)}", node=node.name)
    axes, _, out_axes, _ = _scan_axes(attrs, states, attrs.num_scan_inputs, len(node.outputs))
    lengths = []
    for i, axis in enumerate(axes):
        shape = node.arg(states + i).tensor.shape
        if shape is not None:
            lengths.append(shape[axis_of(axis, len(shape), "scan input axis")])
    visible = visible_symbols(node.operands)
    found = [outside(node, i, value.type, visible) for i, value in enumerate(body.inputs[:states])]
    for i, value in enumerate(body.outputs[states:], states):
        extent = unified(lengths, "extents along the scan axes") if lengths else fresh(node, 0, i)
        found.append(_stacked(node, i, value, extent, out_axes[i - states], visible))
    return [typed(node, i, type) for i, type in enumerate(found)]


def _scan(attrs: Attrs, *operands: Array) -> tuple[Any, ...]:
    assert attrs.run is not None
    body: Graph = attrs.body
    scanned = attrs.num_scan_inputs
    count = len(operands) - scanned
    states, sources = list(operands[:count]), operands[count:]
    axes, ways, out_axes, out_ways = _scan_axes(attrs, count, scanned, len(body.outputs))
    moved = [np.moveaxis(a, axis, 0)[:: -1 if way else 1] for a, axis, way in zip(sources, axes, ways, strict=True)]
    if len({len(a) for a in moved}) != 1:
        raise ShapeError(f"the scanned inputs have extents {[len(a) for a in moved]} along their axes")
    turns: list[list[Array]] = []
    for slices in zip(*moved, strict=True):
        results = attrs.run(body, [*states, *map(np.asarray, slices)], attrs.captures)
        states = results[:count]
        turns.append(results[count:])
    stacked = []
    for i, (axis, way) in enumerate(zip(out_axes, out_ways, strict=True)):
        stacked.append(_stack([t[i] for t in (turns[::-1] if way else turns)], body.outputs[count + i], axis))
    return *states, *stacked


register(
    Operator(
        "Scan", Kind.OPAQUE, (Param("initial_state_and_scan_inputs", ANY, "", variadic=True),),
        (Param("final_state_and_scan_outputs", ANY, "", variadic=True),), _scan_infer, _scan,
        attributes={
            "body": Attribute("graph", required=True),
            "num_scan_inputs": Attribute("int", required=True, check=lambda n: n > 0),
            "scan_input_axes": Attribute("ints"), "scan_output_axes": Attribute("ints"),
            "scan_input_directions": _DIRECTIONS, "scan_output_directions": _DIRECTIONS,
        },
        since=(9, *SUBGRAPH_SINCE),
    )
)  # fmt: skip
