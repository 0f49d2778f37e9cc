"""The reference interpreter: every node's NumPy meaning, one after the other."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from jitopt.errors import ExecutionError, FeedError, JitoptError, RunCancelled, ShapeError, UnsupportedOperator
from jitopt.ir.dims import Dim
from jitopt.ir.graph import Graph, Node, Value
from jitopt.ir.protocols import Lookup, OperatorLike
from jitopt.ir.storage import element_type, holds
from jitopt.ir.types import TensorType

_ended: ContextVar[Callable[[], bool] | None] = ContextVar("ended", default=None)


@contextmanager
def ending_when(ended: Callable[[], bool]) -> Iterator[None]:
    """Within this context a graph raises RunCancelled before the node, a loop before the turn, at which `ended()`."""
    token = _ended.set(ended)
    try:
        yield
    finally:
        _ended.reset(token)


def _check_ended() -> None:
    ended = _ended.get()
    if ended is not None and ended():
        raise RunCancelled("the run was ended by its options")


class Step:
    """One node ready to run: its operator, its checked attributes, and the values nobody reads after it."""

    def __init__(self, node: Node, operator: OperatorLike, dead: Sequence[Value]) -> None:
        self.node, self.operator, self.dead = node, operator, dead
        self.attrs = operator.attrs(node)
        formal = operator.inputs
        self.arity = len(formal) - 1 if formal and formal[-1].variadic else len(formal)


class Interpreter:
    """Runs a graph on NumPy arrays.

        Interpreter(graph, jitopt.ops.find).run({"x": x})  ->  {"y": array}

    Sequences are lists, absent optionals None, element types NumPy lacks as `jitopt.ir.storage` says. Raises
    UnsupportedOperator at once for a node without a reference.
    """

    def __init__(self, graph: Graph, operators: Lookup) -> None:
        self.graph, self.operators = graph, operators
        self._plans: dict[tuple[Graph, frozenset[Value]], list[Step]] = {}
        self._single: dict[Node, Step] = {}
        self._plan(graph, graph.outputs)

    def run(
        self, feeds: Mapping[str, Any], outputs: Sequence[str] | None = None, *, all_values: bool = False
    ) -> dict[str, Any]:
        """The named outputs, of any value of the graph; None means the graph's outputs, in order.

        `all_values` adds every other value of the top graph (constants apart). Only what the outputs need is
        computed. Raises FeedError or ShapeError for wrong feeds; an error inside a node names it.
        """
        values = {v.name: v for v in self.graph.values()}
        unknown = [n for n in outputs or () if n not in values]
        if unknown:
            raise FeedError(f"graph '{self.graph.name}' has no value '{unknown[0]}'", model=self.graph.name)
        wanted = self.graph.outputs if outputs is None else [values[n] for n in outputs]
        state: dict[Value, Any] = dict(zip(self.graph.inputs, self._check(feeds), strict=True))
        kept = [*wanted, *(v for v in values.values() if v.constant is None)] if all_values else wanted
        with np.errstate(all="ignore"):
            self._execute(self.graph, state, kept)
        return {v.name: _value_of(v, state) for v in dict.fromkeys(kept)}

    # subgraphs --------------------------------------------------------------------------------------------------
    def _subgraph(self, graph: Graph, inputs: Sequence[Any], captures: Sequence[Any] = ()) -> list[Any]:
        _check_ended()
        state: dict[Value, Any] = dict(zip(graph.inputs, inputs, strict=True))
        state.update(zip(graph.captures, captures, strict=True))
        self._execute(graph, state, graph.outputs)
        return [_value_of(v, state) for v in graph.outputs]

    def _execute(self, graph: Graph, state: dict[Value, Any], wanted: Iterable[Value]) -> None:
        for step in self._plan(graph, wanted):
            _check_ended()
            self._step(step, state)

    def _plan(self, graph: Graph, wanted: Iterable[Value]) -> list[Step]:
        """Steps for the wanted values, each with what may be freed after it."""
        goal = frozenset(wanted)
        plan = self._plans.get((graph, goal))
        if plan is not None:
            return plan
        needed, order = set(goal), []
        for node in reversed(graph.nodes):
            if any(v in needed for v in node.outputs):
                needed.update(v for v in node.operands if v is not None)
                order.append(node)
        plan, alive = [], set(goal)
        for node in order:  # from the last to the first: a value's first mention here is its last use
            touched = dict.fromkeys(v for v in (*node.operands, *node.outputs) if v is not None)
            dead = [v for v in touched if v not in alive and v.constant is None]
            alive.update(touched)
            plan.append(self._make_step(node, dead))
        plan.reverse()
        self._plans[graph, goal] = plan
        return plan

    def _make_step(self, node: Node, dead: Sequence[Value]) -> Step:
        operator = self.operators(node.op)
        if operator is None or operator.reference is None:
            raise UnsupportedOperator(f"operator '{node.op}' has no reference", model=self.graph.name, node=node.name)
        step = Step(node, operator, dead)
        for inner in node.subgraphs:
            self._plan(inner, inner.outputs)
        return step

    def run_node(self, node: Node, state: dict[Value, Any]) -> None:
        """Compute one node's outputs into `state`, which holds its operands that are not constants."""
        step = self._single.get(node)
        if step is None:
            step = self._single[node] = self._make_step(node, ())
        with np.errstate(all="ignore"):
            self._step(step, state)

    # one node ---------------------------------------------------------------------------------------------------
    def _step(self, step: Step, state: dict[Value, Any]) -> None:
        node = step.node
        arrays = [None if v is None else _value_of(v, state) for v in node.inputs]
        arrays += [None] * (step.arity - len(arrays))
        attrs = step.attrs
        if node.subgraphs:  # an object of this call's own: other threads may run the same step
            attrs = copy.copy(attrs)
            attrs.run = self._subgraph
            attrs.captures = [_value_of(v, state) for v in node.captures]
        assert step.operator.reference is not None
        try:
            result = step.operator.reference(attrs, *arrays)
        except JitoptError as error:
            raise error.at(model=self.graph.name, node=node.name) from None
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            reason = f"{node.op} failed: {type(error).__name__}: {error}"
            raise ExecutionError(reason, model=self.graph.name, node=node.name) from error
        results = result if isinstance(result, tuple) else (result,)
        if len(results) < len(node.outputs):
            raise ExecutionError(
                f"{node.op} gave {len(results)} of {len(node.outputs)} outputs", model=self.graph.name, node=node.name
            )
        for value, array in zip(node.outputs, results, strict=False):
            state[value] = _checked(value, array, node, self.graph.name)
        for value in step.dead:
            state.pop(value, None)

    def _check(self, feeds: Mapping[str, Any]) -> list[Any]:
        """The feeds in the inputs' order, symbolic extents bound to one value each."""
        names, model = [v.name for v in self.graph.inputs], self.graph.name
        for name in feeds:
            if name not in names:
                raise FeedError(f"there is no input '{name}'; the inputs are {', '.join(names)}", model=model)
        bound: dict[Dim, int] = {}
        found = []
        for value in self.graph.inputs:
            if value.name not in feeds:
                raise FeedError(f"input '{value.name}' ({value.type}) is missing", model=model)
            fed = feeds[value.name]
            if isinstance(value.type, TensorType):
                fed = np.asarray(fed)
                if not holds(fed, value.type.dtype):
                    raise FeedError(f"input '{value.name}' is {fed.dtype}, expected {value.type.dtype}", model=model)
                _bind_extents(value, fed.shape, bound, model)
            found.append(fed)
        return found


def _bind_extents(value: Value, shape: tuple[int, ...], bound: dict[Dim, int], model: str) -> None:
    declared = value.tensor.shape
    if declared is None:
        return
    if len(declared) != len(shape):
        raise ShapeError(f"input '{value.name}' has shape {list(shape)}, expected {value.type}", model=model)
    for dim, extent in zip(declared, shape, strict=True):
        known = dim if isinstance(dim, int) else bound.setdefault(dim, extent)
        if known != extent:
            raise ShapeError(
                f"input '{value.name}' has shape {list(shape)}, expected {value.type} with {dim} = {known}", model=model
            )


def _value_of(value: Value, state: Mapping[Value, Any]) -> Any:
    return value.constant if value.constant is not None else state[value]


def _checked(value: Value, array: Any, node: Node, model: str) -> Any:
    """A reference's result; NumPy scalars become arrays, and a dtype other than the inferred one is our own bug."""
    if isinstance(array, np.generic):
        array = np.asarray(array)
    if isinstance(array, np.ndarray) and isinstance(value.type, TensorType) and not holds(array, value.type.dtype):
        raise ExecutionError(
            f"{node.op} gave '{value.name}' as {element_type(array)}, its type is {value.type}",
            model=model, node=node.name,
        )  # fmt: skip
    return array
