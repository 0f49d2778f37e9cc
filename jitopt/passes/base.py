"""What a pass is: a named rewrite that reports what it did, why it did not, and is held to what it promises.

A pass walks a graph and its subgraphs; what it left behind is typed and checked here, once for all passes. Most passes
are made of rules, see `jitopt.passes.rules`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from jitopt.errors import JitoptError
from jitopt.ir.graph import Graph, Node, walk
from jitopt.ir.verifier import verify
from jitopt.ops.registry import find
from jitopt.passes.infer import infer

Exactness = Literal["bit-exact", "bounded", "approximate"]


class PassError(RuntimeError):
    """A pass broke its promise; a bug of ours, never the user's fault."""


@dataclass(frozen=True, slots=True)
class Change:
    """One rewrite: the node it started from and what became of it ("Conv + BatchNormalization => Conv")."""

    node: str
    what: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """A rewrite that nearly applied: the node it started from (filled in by the pass) and the reason."""

    reason: str
    node: str = ""


@dataclass(slots=True)
class PassResult:
    """What one run of a pass did; refusals are kept only where they are asked for."""

    changes: list[Change] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)


@dataclass(frozen=True)
class PassContext:
    """What the caller allows.

    precision   "exact": bit-exact passes only; "default"; "fast"
    gelu        "exact", "tanh" or "sigmoid": the form every exact GELU may take
    disable     names of passes that do not run
    trace       keep refusals
    check       verify the graph after every pass that changed it, and that a pass without changes left it alone
    fold_bytes  the largest constant that folding may make (16 times its inputs is always allowed)
    max_memory  bytes that all constants together may take after folding
    """

    precision: str = "default"
    gelu: str = "exact"
    disable: frozenset[str] = frozenset()
    trace: bool = False
    check: bool = True
    fold_bytes: int = 64 << 20
    max_memory: int | None = None

    @property
    def exact(self) -> bool:
        return self.precision == "exact"


class Pass(ABC):
    """A rewrite of a graph.

    name, description  as `disable=`, reports and documentation show them
    exactness          "bit-exact": outputs keep every bit; "bounded": within `bound`; "approximate": only on request
    bound              for what is not bit-exact: how far results may move
    """

    name: ClassVar[str]
    description: ClassVar[str]
    exactness: ClassVar[Exactness] = "bit-exact"
    bound: ClassVar[str] = ""

    def allowed(self, context: PassContext) -> bool:
        """Whether the pass runs at all under these options."""
        return self.name not in context.disable and (self.exactness == "bit-exact" or not context.exact)

    def run(self, graph: Graph, context: PassContext) -> PassResult:
        """Rewrite the graph, typed before and after.

        Raises PassError where the pass does not keep its promise, ModelError or ShapeError where what it made known
        (a folded shape, say) shows that the model's types never fitted.
        """
        result = PassResult()
        before = fingerprint(graph) if context.check else None
        for inner in list(walk([graph])):
            self.rewrite(inner, context, result)
        if context.check and (before != fingerprint(graph)) != bool(result.changes):
            raise PassError(f"pass '{self.name}' reports {len(result.changes)} changes, the graph says otherwise")
        if result.changes:
            try:
                infer(graph)
            except JitoptError as error:
                error.remedy = error.remedy or f"found after pass '{self.name}'"
                raise
            if context.check:
                try:
                    verify(graph, find)
                except JitoptError as error:
                    raise PassError(f"pass '{self.name}' left a graph that is not valid: {error}") from error
        return result

    @abstractmethod
    def rewrite(self, graph: Graph, context: PassContext, result: PassResult) -> None:
        """Rewrite this one graph (not its subgraphs), entering changes and refusals into `result`."""


def fingerprint(graph: Graph) -> tuple[Any, ...]:
    """Identities of everything that makes up the graph; equal only for a graph nobody touched."""
    parts: list[Any] = []
    for inner in walk([graph]):
        parts += map(id, (*inner.inputs, *inner.captures, *inner.outputs))
        parts += (v.name for v in inner.outputs)
        for node in inner:
            parts += (id(node), node.op, *node.attrs, *map(id, node.attrs.values()))
            parts += map(id, (*node.operands, *node.outputs))
    return tuple(parts)


def is_alive(node: Node) -> bool:
    """The node still stands in its graph."""
    return any(value.producer is node for value in node.outputs)


def remove_dead(graph: Graph, nodes: Sequence[Node]) -> list[Node]:
    """Take out those of `nodes` that nobody reads, and whatever in this graph only fed them; returns them."""
    removed: list[Node] = []
    stack = list(nodes)
    while stack:
        node = stack.pop()
        if node.graph is not graph or not is_alive(node) or any(v.uses or graph.is_output(v) for v in node.outputs):
            continue
        sources = [v.producer for v in node.operands if v is not None and v.producer is not None]
        graph.remove(node)
        removed.append(node)
        stack += sources
    return removed
