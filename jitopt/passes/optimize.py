"""`optimize`: runs the pipeline on a graph and says what every pass did."""

from __future__ import annotations

import difflib
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from jitopt.ir.graph import Graph, walk
from jitopt.ir.verifier import verify
from jitopt.ops.registry import find
from jitopt.passes.base import Change, Pass, PassContext, Refusal
from jitopt.passes.infer import infer
from jitopt.passes.pipelines import PASSES, STAGES

ROUNDS = 10
PRECISIONS = ("exact", "default", "fast")
GELUS = ("exact", "tanh", "sigmoid")
_LOG = logging.getLogger("jitopt")


@dataclass(frozen=True, slots=True)
class PassRecord:
    """One run of one pass: what it changed, what it refused (if asked for), its time, and nodes before and after."""

    name: str
    round: int
    seconds: float
    nodes_before: int
    nodes_after: int
    changes: tuple[Change, ...]
    refusals: tuple[Refusal, ...]


@dataclass
class OptimizeReport:
    """What `optimize` did; node counts include subgraphs.

    `firing` names the passes that still changed something when the rounds were used up; empty is the rule.
    """

    records: list[PassRecord] = field(default_factory=list)
    rounds: int = 0
    firing: tuple[str, ...] = ()
    ops_before: dict[str, int] = field(default_factory=dict)
    ops_after: dict[str, int] = field(default_factory=dict)

    @property
    def nodes_before(self) -> int:
        return sum(self.ops_before.values())

    @property
    def nodes_after(self) -> int:
        return sum(self.ops_after.values())

    def changes(self, name: str | None = None) -> list[Change]:
        """All changes, or those of one pass, in order."""
        return [c for r in self.records if name in (None, r.name) for c in r.changes]

    def refusals(self, name: str | None = None) -> list[Refusal]:
        """All refusals, or those of one pass, each once; kept only with `trace=True`."""
        return list(dict.fromkeys(x for r in self.records if name in (None, r.name) for x in r.refusals))

    def seconds(self) -> dict[str, float]:
        """Time by pass."""
        total: Counter[str] = Counter()
        for record in self.records:
            total[record.name] += record.seconds  # type: ignore[assignment]
        return dict(total)


def optimize(
    graph: Graph, *, precision: str = "default", gelu: str = "exact", disable: Iterable[str] = (), trace: bool = False,
    check: bool = True, max_memory: int | None = None, observe: Callable[[PassRecord], None] | None = None,
) -> OptimizeReport:  # fmt: skip
    """Optimise the graph in place.

    precision   "exact" (bit-exact passes only), "default", "fast" (tanh GELU as well)
    gelu        "exact", "tanh" or "sigmoid": the form exact GELUs may take
    disable     names of passes to leave out
    trace       also report why a pass that nearly applied did not
    check       verify the graph after every pass that changed it
    max_memory  bytes that all constants may take once folded
    observe     called after every run of a pass, while the graph is as the pass left it

    Raises ValueError for an unknown option or pass name; ModelError, ShapeError or UnsupportedOperator for a graph
    whose types do not fit.
    """
    context = _context(precision, gelu, disable, trace, check, max_memory)
    infer(graph)
    if check:
        verify(graph, find)  # with the types that are known now
    report = OptimizeReport(ops_before=count_ops(graph))
    runner = _Runner(graph, context, report, observe)
    for report.rounds in range(1, ROUNDS + 1):
        before = runner.version
        for _, names in STAGES:
            runner.stage(names)
        if runner.version == before:
            break
    else:
        report.firing = runner.last_firing
        _LOG.warning("graph '%s': still firing after %d rounds: %s", graph.name, ROUNDS, ", ".join(report.firing))
    report.ops_after = count_ops(graph)
    return report


class _Runner:
    """Runs passes, skipping one whose last run changed nothing if nothing else has changed since."""

    def __init__(
        self, graph: Graph, context: PassContext, report: OptimizeReport, observe: Callable[[PassRecord], None] | None
    ) -> None:
        self.graph, self.context, self.report, self.observe = graph, context, report, observe
        self.version = 0
        self.clean_at: dict[str, int] = {}
        self.last_firing: tuple[str, ...] = ()

    def stage(self, names: tuple[str, ...]) -> None:
        for _ in range(ROUNDS):
            firing = tuple(name for name in names if self._fires(PASSES[name]))
            if not firing:
                return
            self.last_firing = firing

    def _fires(self, rewrite: Pass) -> bool:
        if self.clean_at.get(rewrite.name) == self.version or not rewrite.allowed(self.context):
            return False
        nodes = count_nodes(self.graph)
        start = time.perf_counter()
        result = rewrite.run(self.graph, self.context)
        seconds = time.perf_counter() - start
        record = PassRecord(
            rewrite.name, self.report.rounds, seconds, nodes, count_nodes(self.graph),
            tuple(result.changes), tuple(result.refusals),
        )  # fmt: skip
        self.report.records.append(record)
        if self.observe is not None:
            self.observe(record)
        if result.changes:
            self.version += 1
            return True
        self.clean_at[rewrite.name] = self.version
        return False


def count_nodes(graph: Graph) -> int:
    """Nodes of the graph and its subgraphs."""
    return sum(len(inner) for inner in walk([graph]))


def count_ops(graph: Graph) -> dict[str, int]:
    """Nodes by operator, subgraphs included, the most frequent first."""
    return dict(Counter(node.op for inner in walk([graph]) for node in inner).most_common())


def _context(
    precision: str, gelu: str, disable: Iterable[str], trace: bool, check: bool, max_memory: int | None
) -> PassContext:
    _one_of("precision", precision, PRECISIONS)
    _one_of("gelu", gelu, GELUS)
    names = [disable] if isinstance(disable, str) else list(disable)
    for name in names:
        _one_of("disable", name, tuple(PASSES))
    return PassContext(precision, gelu, frozenset(names), trace, check, max_memory=max_memory)


def _one_of(option: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        near = difflib.get_close_matches(str(value), allowed, n=3)
        hint = f"did you mean {' or '.join(map(repr, near))}?" if near else f"it is one of {', '.join(allowed)}"
        raise ValueError(f"{option}={value!r} is unknown; {hint}")
