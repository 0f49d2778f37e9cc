"""Feeds with their exact answers, against which a compiled model is held.

Exact answers come from the NumPy interpreter on the graph as it was read: it shares no code generation with what it
checks, and nothing has to be compiled for it. Only approximations that were asked for (GELU's) are made in it as well.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from jitopt.errors import JitoptError, RunCancelled
from jitopt.ir.clone import clone
from jitopt.ir.graph import Graph, Node, Value, walk
from jitopt.ir.interpreter import Interpreter, ending_when
from jitopt.ir.types import TensorType
from jitopt.ops import find
from jitopt.passes.infer import infer
from jitopt.passes.optimize import optimize
from jitopt.passes.pipelines import PASSES
from jitopt.samples import Extents, Feeds, attempts, shuffled
from jitopt.verdict import Attempt
from jitopt.verify import Comparison, all_finite, compare, rounding

Array = np.ndarray[Any, Any]
SECONDS = 30.0  # the interpreter may take for one check
PROVING = 10.0  # tolerances by which the answers to two feeds must differ
LEAST = 1e-2  # an output that stays below it proves nothing
GENERATED = "generated feeds"
Limit = Callable[[Extents], None]
_MOVERS = frozenset({"Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"})


class NoEvidence(Exception):
    """There are no feeds with exact answers; the message says why, and `lasting` whether it will always be so."""

    def __init__(self, reason: str, *, lasting: bool = True) -> None:
        super().__init__(reason)
        self.lasting = lasting


@dataclass(frozen=True)
class Evidence:
    """Cases of feeds and exact answers, with what they prove.

    `outputs` are the outputs' names, `before` for each the function that leads back to before a last Softmax or
    Sigmoid. `idle` are the outputs whose exact answers hardly vary: less than PROVING tolerances from one feed to
    another, or below LEAST.
    """

    origin: str
    outputs: tuple[str, ...]
    before: tuple[Callable[[Array], Array] | None, ...]
    cases: tuple[tuple[Feeds, list[Any]], ...]
    idle: tuple[str, ...]
    graph: Graph

    def in_float64(self) -> Evidence | None:
        """The same cases with answers computed in float64 and rounded once; None where NumPy cannot.

        The rounding of float32 sums can itself take up a tolerance, where a network subtracts large ones.
        """
        try:
            with _in_time():
                interpreter = Interpreter(widened(self.graph), find)
                cases = tuple((feeds, _narrowed(interpreter, feeds, answers)) for feeds, answers in self.cases)
        except (JitoptError, MemoryError, RunCancelled):
            return None
        return replace(self, cases=cases)

    @property
    def proves(self) -> bool:
        """At least one output varies."""
        return len(self.idle) < len(self.outputs)

    def hold(self, run: Callable[[Feeds], Sequence[Any]], without: tuple[str, ...]) -> Attempt:
        """Compare what `run` answers on every case, before a last Softmax or Sigmoid as well; the worst decides."""
        worst, where = Comparison(True, 0.0, 0.0, 0.0), ""
        for feeds, expected in self.cases:
            for name, before, ours, exact in zip(self.outputs, self.before, run(feeds), expected, strict=True):
                for found in _comparisons(ours, exact, before):
                    if (not found.ok, found.tolerances) > (not worst.ok, worst.tolerances):
                        worst, where = found, name
        reason = "" if worst.ok else f"{where!r}: {worst.reason}"
        return Attempt(without, worst.ok, worst.tolerances if np.isfinite(worst.tolerances) else None, reason)


def interpret(graph: Graph, feeds: Mapping[str, Any]) -> list[Any]:
    """All outputs of the graph in order, by the operators' NumPy references."""
    graph = clone(graph)
    infer(graph)
    return list(Interpreter(graph, find).run(feeds).values())


def exact_graph(source: Graph, *, precision: str, gelu: str, disable: Sequence[str]) -> Graph:
    """The graph as it was read, typed, with no rewrite but approximations that were asked for."""
    graph = clone(source)
    infer(graph)
    if gelu != "exact" or precision == "fast":
        left_out = {name for name, p in PASSES.items() if p.exactness == "bounded"} - {"recognise-gelu"}
        left_out |= {name for name in disable if name in PASSES}
        optimize(graph, precision=precision, gelu=gelu, disable=left_out)
    return graph


def gather(
    graph: Graph, feeds: Feeds | None, shapes: Mapping[str, Sequence[int]] | None, limit: Limit
) -> Evidence:  # fmt: skip
    """Evidence for a typed graph: from the caller's `feeds`, as arrays, else from two generated ones of `shapes`.

    The caller's are proven to matter by the same values in another order. `limit` raises NoEvidence or JitoptError for
    extents that would need too much memory. Raises NoEvidence where the interpreter takes longer than SECONDS, lacks
    memory, or refuses the feeds, and where feeds or exact answers are not finite: where NaN and infinities spread to is
    a matter of the order of sums, and a rewrite is not wrong for it.
    """
    if any((op := find(n.op)) is not None and op.nondeterministic for g in walk([graph]) for n in g):
        raise NoEvidence("its results are random")
    try:
        with _in_time():
            interpreter = Interpreter(graph, find)
            if feeds is None:
                return _generated(graph, interpreter, shapes, limit)
            if not _finite(feeds.values()):
                raise NoEvidence("the caller's feeds are not finite")
            limit({name: feed.shape for name, feed in feeds.items() if isinstance(feed, np.ndarray)})
            answers = _finite_answers(interpreter, feeds)
            rng = np.random.default_rng(0)
            other = _answers(interpreter, {name: shuffled(feed, rng) for name, feed in feeds.items()})
            return _evidence(graph, "the caller's feeds", [(feeds, answers)], other)
    except RunCancelled:
        raise NoEvidence(f"exact answers in NumPy take more than {SECONDS:.0f} s") from None
    except MemoryError:
        raise NoEvidence("there is not enough memory for exact answers in NumPy", lasting=False) from None
    except JitoptError as error:
        raise NoEvidence(f"no feed could be made: {error}" if feeds is None else f"NumPy refuses: {error}") from error


def _generated(
    graph: Graph, interpreter: Interpreter, shapes: Mapping[str, Sequence[int]] | None, limit: Limit
) -> Evidence:  # fmt: skip
    refusal: JitoptError | None = None
    for extents, feeds_of in attempts(graph, shapes):
        try:
            limit(extents)
            cases = [(feeds, _finite_answers(interpreter, feeds)) for feeds in map(feeds_of, (0, 1))]
        except RunCancelled:
            raise
        except JitoptError as error:
            refusal = refusal or error
            continue
        return _evidence(graph, GENERATED, cases, cases[1][1])
    assert refusal is not None
    raise refusal


def _answers(interpreter: Interpreter, feeds: Feeds) -> list[Any]:
    return list(interpreter.run(feeds).values())


def _finite_answers(interpreter: Interpreter, feeds: Feeds) -> list[Any]:
    answers = _answers(interpreter, feeds)
    if not _finite(answers):
        raise NoEvidence("exact answers to these feeds are not finite")
    return answers


def _finite(tensors: Iterable[Any]) -> bool:
    return all(all_finite(array) for tensor in tensors for array in _arrays(tensor))


def _evidence(graph: Graph, origin: str, cases: Sequence[tuple[Feeds, list[Any]]], other: Sequence[Any]) -> Evidence:
    names = tuple(dict.fromkeys(v.name for v in graph.outputs))
    before = tuple(_before(value) for value in dict.fromkeys(graph.outputs))
    idle = [name for name, back, a, b in zip(names, before, cases[0][1], other, strict=True) if not _varies(a, b, back)]
    return Evidence(origin, names, before, tuple(cases), tuple(idle), graph)


def _in_time() -> AbstractContextManager[None]:
    """Ends the interpreter after SECONDS of this thread's own CPU time: how busy the machine is decides nothing."""
    end = time.thread_time() + SECONDS
    return ending_when(lambda: time.thread_time() > end)


def widened(graph: Graph) -> Graph:
    """A copy of the graph with its float32 tensors in float64, but for the scales of a Resize."""
    wide = clone(graph)
    for value in wide.values():
        array = value.constant
        if array is not None and array.dtype == np.float32 and all(node.op != "Resize" for node, _ in value.uses):
            value.constant = array = array.astype(np.float64)
        narrow = isinstance(value.type, TensorType) and value.type.dtype.name == "float32"
        if narrow and (array is None or array.dtype == np.float64):
            value.type = value.tensor.with_dtype("float64")
    return wide


def _narrowed(interpreter: Interpreter, feeds: Feeds, answers: Sequence[Any]) -> list[Any]:
    """What a widened graph answers, each array of the type that it has in `answers`."""

    def wide(feed: Any) -> Any:
        return feed.astype(np.float64) if isinstance(feed, np.ndarray) and feed.dtype == np.float32 else feed

    found = _answers(interpreter, {name: wide(feed) for name, feed in feeds.items()})
    return [
        sharp.astype(answer.dtype) if isinstance(sharp, np.ndarray) and isinstance(answer, np.ndarray) else answer
        for sharp, answer in zip(found, answers, strict=True)
    ]


def _varies(one: Any, two: Any, before: Callable[[Array], Array] | None) -> bool:
    """Whether exact answers to two feeds differ by enough, in some array large enough to be seen."""
    arrays, others = list(_arrays(one)), list(_arrays(two))
    if len(arrays) != len(others):
        return True
    for a, b in zip(arrays, others, strict=True):
        found = compare(b, a) if before is None else _compare_before(b, a, before)
        if _seen(a if before is None else before(a)) and found.tolerances >= PROVING:
            return True
    return False


def _seen(array: Array) -> bool:
    return array.dtype.kind not in "fc" or bool(np.any(np.abs(array) >= LEAST))


def _comparisons(ours: Any, exact: Any, before: Callable[[Array], Array] | None) -> Iterator[Comparison]:
    actual, expected = list(_arrays(ours)), list(_arrays(exact))
    if len(actual) != len(expected):
        yield Comparison(False, float("inf"), 0.0, 0.0, f"{len(actual)} tensors, expected {len(expected)}")
        return
    for a, b in zip(actual, expected, strict=True):
        yield compare(a, b)
        if before is not None and a.shape == b.shape:
            yield _compare_before(a, b, before)


def _compare_before(actual: Array, expected: Array, before: Callable[[Array], Array]) -> Comparison:
    """Compare what led to two arrays of probabilities: their last place is up to two units in a logarithm or logit."""
    return compare(before(actual), before(expected), least=2 * rounding(expected.dtype))


def _arrays(answer: Any) -> Iterator[Array]:
    """The tensors of an output: one, those of a sequence, or none of an absent optional."""
    if isinstance(answer, list):
        for item in answer:
            yield from _arrays(item)
    elif answer is not None:
        yield np.asarray(answer)


# before a last Softmax or Sigmoid -----------------------------------------------------------------------------------
def _before(value: Value) -> Callable[[Array], Array] | None:
    """How to go back from an output to the input of the Softmax or Sigmoid it comes from, if it does."""
    node: Node | None = value.producer
    while node is not None and node.op in _MOVERS and node.input(0) is not None:
        node = node.arg(0).producer
    return None if node is None else _BACK.get(node.op)


def _log(p: Array) -> Array:
    """log p = x - log sum exp x of a Softmax: its input, moved by one number a row. From `_lowest` on."""
    return np.log(np.maximum(_single(p), _lowest(p)))


def _logit(p: Array) -> Array:
    """log(p / (1 - p)), the input of a Sigmoid, as far as p's own rounding leaves it: to p = 0.98, or 0.5 if coarse."""
    p = np.clip(_single(p), _lowest(p), 0.5 if rounding(p.dtype) else 0.98)
    return np.asarray(np.log(p / (1 - p)))


def _single(p: Array) -> Array:
    """In float32 at least, where logarithms add no rounding worth a mention."""
    return p.astype(np.float32) if rounding(p.dtype) else p


def _lowest(p: Array) -> float:
    """From where on numbers have all their digits: above float16's denormals, or 1e-30, above those of float32."""
    return float(np.finfo(np.float16).tiny) if p.dtype == np.float16 else 1e-30


_BACK: Mapping[str, Callable[[Array], Array]] = {"Softmax": _log, "Sigmoid": _logit}
