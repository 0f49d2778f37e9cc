"""Graph to program: groups and host nodes in an order they can run, views resolved, buffers given their kinds."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from typing import TYPE_CHECKING

from jitopt.errors import UnsupportedOperator
from jitopt.ir.clone import isolate
from jitopt.ir.dims import product, symbols
from jitopt.ir.graph import Graph, Node, Value
from jitopt.ir.types import TensorType
from jitopt.lower import templates as _templates  # noqa: F401  (registers every template)
from jitopt.lower.algorithms import ALGORITHMS, algorithm_of
from jitopt.lower.checks import checks_of, extents_follow
from jitopt.lower.context import Context
from jitopt.lower.groups import CONCAT_VIEWS, GROUPINGS, Group, form_groups
from jitopt.lower.homes import find_homes
from jitopt.lower.program import (
    HOST,
    INPUT,
    OUTPUT,
    POOL,
    Buffer,
    HostStep,
    Port,
    Program,
    Segment,
)  # fmt: skip
from jitopt.lower.strided import invisible_transposes
from jitopt.lower.tables import table_of
from jitopt.lower.template import refusal_of
from jitopt.lower.verifier import verify_program
from jitopt.ops import operator_of
from jitopt.ops.operator import Kind

if TYPE_CHECKING:
    from jitopt_kernels.targets import Target


def is_view(node: Node) -> bool:
    """The node's first output is its first input's bytes under another shape, which is known without running it."""
    if node.op == "jitopt.Reorder":
        return _reorder_is_view(node)
    if operator_of(node).kind is not Kind.VIEW or any(v is not None and not _is_known(v) for v in node.inputs[1:]):
        return False
    source = node.input(0)
    return source is not None and not source.layout.block and isinstance(source.type, TensorType)


def _is_known(value: Value) -> bool:
    return value.constant is not None or value.content is not None


def _reorder_is_view(node: Node) -> bool:
    """[N, C, 1, ..., 1] with whole blocks lies the same in both layouts."""
    source, block = node.arg(0), max(node.arg(0).layout.block, node.output.layout.block)
    channels, spatial = source.shape[1], source.shape[2:]
    return all(d == 1 for d in spatial) and isinstance(channels, int) and channels % block == 0


def is_shape_only(node: Node) -> bool:
    """Every output depends on shapes only, so nothing has to run."""
    return all(table_of(v) is not None for v in node.outputs)


def data_dependent(graph: Graph) -> set[Node]:
    """Nodes whose results have extents that only running them tells; later nodes may be shaped by those extents.

    Also those whose extents the model declares, but which follow from operands that are not known: it may be wrong.
    """
    known = {s for v in graph.inputs for s in _shape_symbols(v)}
    found: set[Node] = set()
    for node in graph:
        new = {s for v in node.outputs for s in _shape_symbols(v)} - known
        if new or not extents_follow(node):
            found.add(node)
            known |= new
    return found


def _shape_symbols(value: Value) -> set[str]:
    if not isinstance(value.type, TensorType):
        return set()
    return {s for dim in value.type.shape or () for s in symbols(dim)}


def lower(
    graph: Graph, target: Target, *, groupings: Iterable[str] = GROUPINGS, algorithms: Iterable[str] | None = None
) -> Program:  # fmt: skip
    """The program of an optimised graph whose layouts are chosen; the graph is not changed.

    `algorithms` are those of ALGORITHMS that may be used where they pay; all if None.

    Raises UnsupportedOperator for a node with neither kernel nor reference; CompileError for a program that does not
    verify, which is a bug of ours.
    """
    dependent = data_dependent(graph)
    aside, unseen = _set_aside(graph, groupings, dependent)
    groups = form_groups(graph, groupings, skip=aside | dependent, through=unseen)
    grouped = {n for g in groups for n in g.nodes}
    hosts = [n for n in graph if n not in aside and n not in grouped]
    for node in hosts:
        if operator_of(node).reference is None:
            raise UnsupportedOperator(f"{node.op} has neither kernel nor reference", node=node.name)
    for group in groups:
        group.template = algorithm_of(group, target, ALGORITHMS if algorithms is None else algorithms)
    order = _schedule(graph, groups, hosts, aside)
    context = Context(graph, target, find_homes(graph, order, aside) if CONCAT_VIEWS in groupings else {})
    for value in graph.inputs:
        size = context.size(value) if isinstance(value.type, TensorType) and value.type.shape is not None else 0
        tensor = value.type if isinstance(value.type, TensorType) else None
        context.place(value, Buffer(value.name, INPUT, size, type=tensor))
    parts: list[Segment | HostStep] = []
    for unit in order:
        if isinstance(unit, Group):
            steps = unit.template.lower(unit, context)
            if steps and (not parts or not isinstance(parts[-1], Segment)):
                parts.append(Segment())
            if steps:
                segment = parts[-1]
                assert isinstance(segment, Segment)
                segment.steps += steps
        elif unit in aside:
            if not is_shape_only(unit) and unit not in unseen:
                context.alias(unit.output, unit.arg(0))
        else:
            parts.append(_host_step(unit, context, unit in dependent))
    ports = [Port(v.name, v.type, context.address(v).buffer) for v in graph.inputs if v.type is not None]
    outputs = _outputs(graph, context)
    _assign_kinds(parts, outputs)
    program = Program(graph.name, target.name, ports, outputs, parts, graph.metadata, checks_of(graph))
    verify_program(program)
    return program


def groups_of(graph: Graph, groupings: Iterable[str] = GROUPINGS) -> list[Group]:
    """The groups that `lower` makes kernels of."""
    dependent = data_dependent(graph)
    aside, unseen = _set_aside(graph, groupings, dependent)
    return form_groups(graph, groupings, skip=aside | dependent, through=unseen)


def _set_aside(graph: Graph, groupings: Iterable[str], dependent: set[Node]) -> tuple[set[Node], set[Node]]:
    """Nodes that nothing has to run for, and the transposes among them that their readers look through."""
    unseen = invisible_transposes(graph, dependent) if groupings else set()
    return {n for n in graph if n not in dependent and (is_shape_only(n) or is_view(n))} | unseen, unseen


def _schedule(graph: Graph, groups: list[Group], hosts: list[Node], aside: set[Node]) -> list[Group | Node]:
    """All units in dependency order; native ones as early as possible, so that segments are few and long."""
    unit_of: dict[Node, Group | Node] = {n: g for g in groups for n in g.nodes}
    unit_of.update({n: n for n in (*hosts, *aside)})
    position = {n: i for i, n in enumerate(graph)}
    units: dict[Group | Node, tuple[int, int]] = {}
    for node, unit in unit_of.items():
        host = int(unit not in aside and not isinstance(unit, Group))
        units[unit] = min(units.get(unit, (host, position[node])), (host, position[node]))
    waits: dict[Group | Node, set[Group | Node]] = {u: set() for u in units}
    feeds: dict[Group | Node, list[Group | Node]] = {u: [] for u in units}
    for node, unit in unit_of.items():
        for value in node.operands:
            producer = None if value is None else value.producer
            if producer in unit_of and unit_of[producer] is not unit and unit_of[producer] not in waits[unit]:
                waits[unit].add(unit_of[producer])
                feeds[unit_of[producer]].append(unit)
    ready = [(*units[u], u) for u in units if not waits[u]]
    heap = [(host, at, id(u)) for host, at, u in ready]
    by_id = {id(u): u for u in units}
    heapq.heapify(heap)
    order: list[Group | Node] = []
    while heap:
        unit = by_id[heapq.heappop(heap)[2]]
        order.append(unit)
        for reader in feeds[unit]:
            waits[reader].discard(unit)
            if not waits[reader]:
                heapq.heappush(heap, (*units[reader], id(reader)))
    return order


def _host_step(node: Node, context: Context, dependent: bool) -> HostStep:
    def buffer(value: Value | None) -> Buffer | None:
        if value is None:
            return None
        if not isinstance(value.type, TensorType) and not context.placed(value):
            context.place(value, Buffer(value.name, HOST, 0))
        return context.address(value).buffer

    for value in node.outputs:
        tensor = value.type if isinstance(value.type, TensorType) else None
        size = product(tensor.shape) * tensor.dtype.itemsize if tensor is not None and tensor.shape is not None else 0
        context.place(value, Buffer(value.name, HOST, size, type=tensor))
    captures = tuple(b for v in node.captures if (b := buffer(v)) is not None)
    reason = "the shape of its result depends on data" if dependent else refusal_of(node)
    alone = isolate(node).nodes[0]
    return HostStep(alone, tuple(map(buffer, node.inputs)), captures, tuple(map(buffer, node.outputs)), reason)


def _outputs(graph: Graph, context: Context) -> list[Port]:
    """Ports of the outputs; a pool buffer that is an output's bytes becomes the caller's array."""
    ports: list[Port] = []
    for value in graph.outputs:
        buffer = context.address(value).buffer
        if buffer.kind == POOL:
            buffer.kind = OUTPUT
        assert value.type is not None
        ports.append(Port(value.name, value.type, buffer))
    return ports


def _assign_kinds(parts: list[Segment | HostStep], outputs: Iterable[Port]) -> None:
    """Pool buffers that more than one part touches live outside the pool."""
    touched: dict[Buffer, set[int]] = {}
    for index, part in enumerate(parts):
        for buffer in part.buffers():
            if buffer is not None:
                touched.setdefault(buffer, set()).add(index)
    for buffer, where in touched.items():
        if buffer.kind == POOL and (len(where) > 1 or isinstance(parts[next(iter(where))], HostStep)):
            buffer.kind = HOST
