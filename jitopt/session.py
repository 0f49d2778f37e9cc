"""What the user holds: a compiled model that runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from jitopt.codegen.cache import Cache
from jitopt.errors import FeedError, ShapeError
from jitopt.explain import Explanation, Kernel, Memory, kernels_of, memory_of
from jitopt.fusion import FusionReport, report
from jitopt.ir.clone import clone
from jitopt.ir.graph import Graph, Metadata
from jitopt.ir.types import OptionalType, SequenceType, TensorType, Type
from jitopt.lower.program import Port
from jitopt.model import FUSION, REWRITES, CompiledModel, compile_model
from jitopt.profile import Profile, profile
from jitopt.runtime.executor import Executor
from jitopt.runtime.feeds import read_feeds
from jitopt.runtime.launch import RunOptions

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

    def run(
        self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any], run_options: RunOptions | None = None,
        *, out: Sequence[Array] | Mapping[str, Array] | None = None,
    ) -> list[Any]:  # fmt: skip
        """Results for the feeds, in the order of `output_names` (None or []: all outputs).

        Feeds are arrays of the declared dtype, or lists and numbers that convert. `out` gives arrays to write results
        into (contiguous, of the right shape and dtype; a sequence in the order of the outputs, or a mapping by name).
        Results share no memory with each other, the feeds or the model. Raises FeedError, ShapeError, ExecutionError,
        MemoryLimitError, RunCancelled.
        """
        inputs = read_feeds(self._program.inputs, input_feed, self._program.name)
        ports = self._program.outputs if not output_names else [self._port(name) for name in output_names]
        targets = None if out is None else self._targets(ports, out)
        return self._executor.run(inputs, ports, targets, run_options)

    def bind(self, shapes: Mapping[str, Sequence[int]]) -> None:
        """Bind input shapes (name -> extents) now, so that the first run with them has nothing to prepare."""
        stand_ins = {name: np.broadcast_to(np.zeros((), np.uint8), tuple(shape)) for name, shape in shapes.items()}
        ports = self._program.inputs
        missing = [p.name for p in ports if p.name not in stand_ins]
        if missing:
            raise FeedError(f"shapes lack input {missing[0]!r}", model=self._program.name)
        self._executor.plans([stand_ins[p.name] for p in ports])

    def _port(self, name: str) -> Port:
        port = self._by_name.get(name)
        if port is None:
            known = ", ".join(map(repr, self._by_name))
            raise FeedError(f"no output is named {name!r}", model=self._program.name, remedy=f"outputs are {known}")
        return port

    def _targets(self, ports: Sequence[Port], out: Sequence[Array] | Mapping[str, Array]) -> list[Array]:
        arrays = [out[p.name] for p in ports] if isinstance(out, Mapping) else list(out)
        if len(arrays) != len(ports):
            raise FeedError(f"out holds {len(arrays)} arrays for {len(ports)} outputs", model=self._program.name)
        for port, array in zip(ports, arrays, strict=True):
            tensor = port.type
            fits = (
                isinstance(array, np.ndarray) and isinstance(tensor, TensorType) and array.dtype == tensor.dtype.numpy
                and array.flags.c_contiguous and array.flags.writeable and tensor.shape is not None
                and array.ndim == len(tensor.shape)
            )  # fmt: skip
            if not fits:
                raise ShapeError(f"out for {port.name!r} must be a contiguous writable array of {tensor}")
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
        unfused = self._variant((FUSION,))
        variants = {name: self._variant(disable) for name, disable in REWRITES.items()}
        return report(
            self._executor, unfused, variants, inputs, nodes=self._model.graph.nodes,
            compile_seconds=sum(self._model.seconds.values()), runs=runs,
        )  # fmt: skip

    def _variant(self, disable: tuple[str, ...]) -> Executor:
        """An executor of the same model with more disabled, under the same limits."""
        options = replace(self._model.options, disable=(*self._model.options.disable, *disable))
        other = compile_model(clone(self._source), options, cache=self._cache)
        return self._executor.like(other.program, other.addresses())

    # what the model is ------------------------------------------------------------------------------------------
    def get_inputs(self) -> list[NodeArg]:
        """The inputs, initialisers not among them."""
        return [_node_arg(port) for port in self._program.inputs]

    def get_outputs(self) -> list[NodeArg]:
        return [_node_arg(port) for port in self._program.outputs]

    def get_modelmeta(self) -> ModelMetadata:
        m: Metadata = self._program.metadata
        return ModelMetadata(m.producer_name, self._program.name, m.domain, m.description, m.version, dict(m.custom))

    @staticmethod
    def get_providers() -> list[str]:
        return ["JitoptExecutionProvider"]

    def __repr__(self) -> str:
        return f"<jitopt.Session {self._program.name!r}: {len(self._program.steps)} kernels a run>"


def _node_arg(port: Port) -> NodeArg:
    return NodeArg(port.name, type_name(port.type), shape_names(port.type))


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
    return [d if isinstance(d, int) else (None if str(d).startswith("?") else str(d)) for d in type.shape]


__all__ = ["ModelMetadata", "NodeArg", "RunOptions", "Session"]
