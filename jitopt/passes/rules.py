"""Passes made of rules.

A rule looks at one node and returns a `Replacement` (new values for old ones), a `Refusal` (it nearly applied, and why
it did not) or None. It changes nothing: it only adds nodes, through its `Builder`; wiring the replacement in and taking
out what became dead happens here.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from jitopt.errors import JitoptError
from jitopt.ir.graph import Graph, Node, Value
from jitopt.ir.types import TensorType, Type
from jitopt.passes.base import Change, Pass, PassContext, PassError, PassResult, Refusal, is_alive, remove_dead
from jitopt.passes.infer import infer_node


@dataclass(frozen=True)
class Replacement:
    """New values for old ones of the same type, and what that amounts to, in words."""

    values: Mapping[Value, Value]
    what: str


class Builder:
    """What a rule may do to a graph: add nodes and constants. Their types are known at once."""

    def __init__(self, graph: Graph, root: Node, context: PassContext) -> None:
        self.graph, self.root, self.context = graph, root, context
        self.nodes: list[Node] = []

    def add(self, op: str, inputs: Sequence[Value | None], *, name: str = "", **attrs: Any) -> Value:
        """A new node with one output; it takes the root's name unless another is given."""
        value: Value = self.graph.add(op, inputs, name=name or self.root.name, **attrs)
        node = value.producer
        assert node is not None
        self.nodes.append(node)
        infer_node(node)
        return value

    def constant(self, array: Any, name: str = "") -> Value:
        return self.graph.constant(array, name=name or f"{self.root.name}/constant")

    def like(self, node: Node, inputs: Sequence[Value | None], **changed: Any) -> Value:
        """A copy of `node` (of one output) with other inputs and, where given, other attributes; None drops one."""
        attrs = {k: v for k, v in {**node.attrs, **changed}.items() if v is not None}
        return self.add(node.op, inputs, name=node.name, **attrs)

    def discard(self) -> None:
        """Take back what a rule added before it decided otherwise."""
        remove_dead(self.graph, self.nodes[::-1])


class RulePass(Pass):
    """Applies `rule` to every node whose operator is in `roots` (to every node if that is empty), until none applies.

    What a replacement adds, and what reads it, is looked at again within the same run.
    """

    roots: ClassVar[frozenset[str]] = frozenset()
    outermost_first: ClassVar[bool] = False  # for patterns of which a part is a pattern too

    @abstractmethod
    def rule(self, node: Node, build: Builder) -> Replacement | Refusal | None:
        """The replacement for `node` and what feeds it, the reason why there is none, or None."""

    def rewrite(self, graph: Graph, context: PassContext, result: PassResult) -> None:
        nodes = graph.nodes
        order = reversed(nodes) if self.outermost_first else nodes
        queue = deque(node for node in order if self._wants(node))
        names: Counter[str] | None = None
        budget = 10 * len(nodes) + 100
        while queue:
            node = queue.popleft()
            if not is_alive(node):
                continue
            build = Builder(graph, node, context)
            try:
                outcome = self.rule(node, build)
            except JitoptError as error:
                outcome = Refusal(f"the replacement would not be valid: {error.message}")
            if not isinstance(outcome, Replacement):
                build.discard()
                if outcome is not None and context.trace:
                    result.refusals.append(Refusal(outcome.reason, node.name))
                continue
            budget -= 1
            if budget < 0:
                raise PassError(f"pass '{self.name}' does not come to an end: {outcome.what}")
            names = Counter(n.name for n in nodes) if names is None else names
            self._apply(graph, node, outcome, build, names)
            result.changes.append(Change(node.name, outcome.what))
            readers = [n for new in outcome.values.values() for n in graph.consumers(new)]
            queue.extend(dict.fromkeys(n for n in (*build.nodes, *readers) if self._wants(n)))

    def _wants(self, node: Node) -> bool:
        return not self.roots or node.op in self.roots

    def _apply(
        self, graph: Graph, root: Node, replacement: Replacement, build: Builder, names: Counter[str]
    ) -> None:  # fmt: skip
        for old, new in replacement.values.items():
            if not _fits(old.type, new.type):
                raise PassError(f"pass '{self.name}' replaces {old!r} by {new!r}")
            new.type = new.type or old.type
            graph.replace(old, new)
        for node in remove_dead(graph, [root, *(v.producer for v in replacement.values if v.producer)]):
            names[node.name] -= 1
        for node in build.nodes:
            if not is_alive(node):
                continue
            stem, count = node.name, 0
            while names[node.name] > 0:
                count += 1
                node.name = f"{stem}_{count}"
            names[node.name] += 1


def _fits(old: Type | None, new: Type | None) -> bool:
    """`new` may stand for `old`: equal, or saying more about unknown extents."""
    if old is None or new is None or old == new:
        return True
    if not isinstance(old, TensorType) or not isinstance(new, TensorType) or old.dtype is not new.dtype:
        return False
    if old.shape is None or new.shape is None:
        return True
    return len(old.shape) == len(new.shape) and not any(
        isinstance(a, int) and isinstance(b, int) and a != b for a, b in zip(old.shape, new.shape, strict=True)
    )
