"""What the user holds: a compiled model that runs."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from jitopt.codegen.cache import Cache
from jitopt.errors import FeedError, ShapeError
from jitopt.explain import Explanation, Kernel, Memory, kernels_of, memory_of
from jitopt.fusion import FusionReport, report
from jitopt.ir.clone import clone
from jitopt.ir.dims import Expr, symbols
from jitopt.ir.graph import Graph, Metadata
from jitopt.ir.types import OptionalType, SequenceType, TensorType, Type
from jitopt.lower.program import Port
from jitopt.model import FUSION, REWRITES, CompiledModel, compile_model
from jitopt.profile import Profile, profile
from jitopt.runtime.executor import Executor
from jitopt.runtime.feeds import check_names, read_feeds, shapes_of
from jitopt.runtime.launch import RunOptions
from jitopt.samples import index_bounds

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class NodeArg:
    """An input or output as ONNX Runtime describes it: `type` like "tensor(float)", `shape` of ints, names or None."""

    name: str
    type: str
    shape: list[int | str | None] | None


@dataclass(frozen=True)
class ModelMetadata:
    """What the model file says about itself."""

    producer_name: str
    graph_name: str
    domain: str
    description: str
    version: int
    custom_metadata_map: dict[str, str]


class Session:
    """A compiled model. Made by `jitopt.compile`; `run` may be called from several threads at once."""

    def __init__(self, model: CompiledModel, executor: Executor, source: Graph, cache: Cache | None) -> None:
        self._model, self._executor, self._source, self._cache = model, executor, source, cache
        self._program = model.program
        self._by_name = {port.name: port for port in self._program.outputs}

    def index_bounds(self) -> dict[str, int]:
        """For every integer input that looks something up: what its elements must stay below, where it is known."""
        return index_bounds(self._model.graph)

    def run(
        self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any], run_options: RunOptions | None = None,
        *, out: Sequence[Array] | Mapping[str, Array] | None = None,
    ) -> list[Any]:  # fmt: skip
        """Results for the feeds, in the order of `output_names` (None or []: all outputs).

        Feeds are arrays of the declared dtype, or lists and numbers that convert. `out` gives arrays to write results
        into (contiguous, of the right shape and dtype, apart from one another; a sequence in the order of the outputs,
        or a mapping by name); after an error they hold anything. Results share no memory with each other, the feeds or
        the model. Raises FeedError, ShapeError, ExecutionError, MemoryLimitError, RunCancelled.
        """
        if run_options is not None and not isinstance(run_options, RunOptions):
            raise TypeError(f"run_options must be jitopt.RunOptions, not {type(run_options).__name__}")
        inputs = read_feeds(self._program.inputs, input_feed, self._program.name)
        if isinstance(output_names, str):
            output_names = [output_names]
        ports = self._program.outputs if not output_names else [self._port(name) for name in output_names]
        if out is None:
            return self._executor.run(inputs, ports, None, run_options)
        targets = self._targets(ports, out)
        return self._executor.run([_apart(feed, targets) for feed in inputs], ports, targets, run_options)

    def bind(self, shapes: Mapping[str, Sequence[int]]) -> None:
        """Bind input shapes (name -> extents) now, so that the first run with them has nothing to prepare.

        Raises FeedError for a missing or unknown input, ShapeError for a shape the model cannot take,
        MemoryLimitError.
        """
        ports = self._program.inputs
        check_names(ports, shapes, self._program.name, "shape")
        self._executor.bind([_extents(p.name, shapes[p.name], self._program.name) for p in ports])

    def bind_feeds(self, feeds: Mapping[str, Any]) -> None:
        """Bind the shapes of these feeds, as `bind` does. Raises what `run` raises for feeds."""
        self._executor.bind(shapes_of(read_feeds(self._program.inputs, feeds, self._program.name)))

    def _port(self, name: str) -> Port:
        port = self._by_name.get(name)
        if port is None:
            known = ", ".join(map(repr, self._by_name))
            raise FeedError(f"no output is named {name!r}", model=self._program.name, remedy=f"outputs are {known}")
        return port

    def _targets(self, ports: Sequence[Port], out: Sequence[Array] | Mapping[str, Array]) -> list[Array]:
        """The caller's arrays in the ports' order, checked but for their extents."""
        model = self._program.name
        if isinstance(out, Mapping):
            names = [p.name for p in ports]
            wrong = [n for n in (*names, *out) if n not in out or n not in names]
            if wrong:
                what = "is not among the outputs asked for" if wrong[0] in out else "is missing"
                raise FeedError(f"out: {wrong[0]!r} {what}", model=model, remedy=f"outputs are {names}")
            out = [out[name] for name in names]
        arrays = list(out)
        if len(arrays) != len(ports):
            raise FeedError(f"out holds {len(arrays)} arrays for {len(ports)} outputs", model=model)
        for port, array in zip(ports, arrays, strict=True):
            tensor = port.type
            if (
                not isinstance(array, np.ndarray) or not isinstance(tensor, TensorType)
                or array.dtype != tensor.dtype.numpy or not array.flags.carray
            ):  # fmt: skip
                raise FeedError(f"out for {port.name!r} must be a contiguous writable array of {tensor}", model=model)
            if tensor.shape is not None and array.ndim != len(tensor.shape):
                raise ShapeError(f"out for {port.name!r} has shape {array.shape}, the result is {tensor}", model=model)
        for index, array in enumerate(arrays):
            if _overlaps(array, arrays[:index]):
                raise FeedError(f"out for {ports[index].name!r} shares memory with another array of out", model=model)
        return arrays

    # what was done ----------------------------------------------------------------------------------------------
    def explain(self) -> Explanation:
        """Passes, groups, kernels and host steps; print it, or take `as_dict()`."""
        return Explanation(self._model)

    @property
    def kernels(self) -> list[Kernel]:
        """The distinct compiled kernels, with source and assembly."""
        return kernels_of(self._model)

    def memory(self, feeds: Mapping[str, Any] | None = None) -> Memory:
        """Pool and weights, for the shapes of `feeds`, or of the last run (or static shapes) without them.

        Raises ShapeError where no shapes are known yet.
        """
        inputs = None if feeds is None else read_feeds(self._program.inputs, feeds, self._program.name)
        return memory_of(self._model, self._executor.plans(inputs))

    def profile(self, feeds: Mapping[str, Any], runs: int = 20) -> Profile:
        """Median time of every step over `runs` runs."""
        return profile(self._executor, read_feeds(self._program.inputs, feeds, self._program.name), runs)

    def fusion_report(self, feeds: Mapping[str, Any], runs: int = 20) -> FusionReport:
        """What fusion buys on these feeds: every group against its members, each kind of rewrite, break-even.

        Compiles the model again without grouping, and without each kind of rewrite; all are measured interleaved.
        """
        inputs = read_feeds(self._program.inputs, feeds, self._program.name)
        # The models own the code that their executors run: they must live until the report is made.
        models = {name: self._variant(disable) for name, disable in {FUSION: (FUSION,), **REWRITES}.items()}
        executors = {name: self._executor.like(m.program, m.addresses()) for name, m in models.items()}
        return report(
            self._executor, executors.pop(FUSION), executors, inputs, nodes=self._model.graph.nodes,
            compile_seconds=sum(self._model.seconds.values()), runs=runs,
        )  # fmt: skip

    def _variant(self, disable: tuple[str, ...]) -> CompiledModel:
        """The same model with more disabled."""
        options = replace(self._model.options, disable=(*self._model.options.disable, *disable))
        return compile_model(clone(self._source), options, cache=self._cache)

    # what the model is ------------------------------------------------------------------------------------------
    def get_inputs(self) -> list[NodeArg]:
        """The inputs, initialisers not among them."""
        return [_node_arg(port) for port in self._program.inputs]

    def get_outputs(self) -> list[NodeArg]:
        """The outputs; extents that are neither numbers nor extents of an input have the names the model gives them."""
        declared = {value.name: shape_names(value.type) for value in self._source.outputs if value.type is not None}
        return [_node_arg(port, declared.get(port.name)) for port in self._program.outputs]

    def get_modelmeta(self) -> ModelMetadata:
        m: Metadata = self._program.metadata
        return ModelMetadata(m.producer_name, self._program.name, m.domain, m.description, m.version, dict(m.custom))

    @staticmethod
    def get_providers() -> list[str]:
        return ["JitoptExecutionProvider"]

    def __repr__(self) -> str:
        return f"<jitopt.Session {self._program.name!r}: {len(self._program.steps)} kernels a run>"


def _node_arg(port: Port, declared: list[int | str | None] | None = None) -> NodeArg:
    shape = shape_names(port.type)
    if shape is not None and declared is not None and len(shape) == len(declared):
        shape = [d if isinstance(d, int) or not isinstance(n, str) else n for d, n in zip(shape, declared, strict=True)]
    return NodeArg(port.name, type_name(port.type), shape)


def _apart(feed: Any, targets: Sequence[Array]) -> Any:
    """The feed, an array or a sequence of them, with copies of the arrays that share memory with a target."""
    if isinstance(feed, list):
        return [_apart(item, targets) for item in feed]
    return feed.copy() if isinstance(feed, np.ndarray) and _overlaps(feed, targets) else feed


def _overlaps(array: Array, others: Sequence[Array]) -> bool:
    return any(np.may_share_memory(array, other) for other in others)


def _extents(name: str, shape: Any, model: str) -> tuple[int, ...]:
    try:
        extents = tuple(map(operator.index, shape))
    except TypeError:
        raise ShapeError(
            f"the shape of input {name!r} must be a sequence of integers: {shape!r}", model=model
        ) from None
    if min(extents, default=0) < 0:
        raise ShapeError(f"the shape of input {name!r} has a negative extent: {shape!r}", model=model)
    return extents


# Element types under the names ONNX Runtime gives them.
_TYPE_NAMES = {"float32": "float", "float64": "double"}


def type_name(type: Type) -> str:
    """A type as ONNX Runtime writes it: tensor(float), seq(tensor(int64)), optional(tensor(float))."""
    if isinstance(type, SequenceType):
        return f"seq({type_name(type.element)})"
    if isinstance(type, OptionalType):
        return f"optional({type_name(type.element)})"
    return f"tensor({_TYPE_NAMES.get(type.dtype.name, type.dtype.name)})"


def shape_names(type: Type) -> list[int | str | None] | None:
    """Extents as ints, names of symbols, None for those without a name."""
    if not isinstance(type, TensorType) or type.shape is None:
        return None
    return [d if isinstance(d, int) else _symbol_name(d) for d in type.shape]


def _symbol_name(d: Expr) -> str | None:
    name = str(d)
    return name if symbols(d) == {name} and not name.startswith("?") else None


__all__ = ["ModelMetadata", "NodeArg", "RunOptions", "Session"]
