"""The check behind default precision: a model whose answers are off is lowered again with fewer rewrites.

The first compile of a model holds it against exact answers, on the caller's feeds or on generated ones, if a rewrite
that may move results took part. What was found is kept on disk; later compiles of the same model start from it.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from jitopt.codegen.cache import Cache
from jitopt.codegen.keys import digest
from jitopt.errors import JitoptError, ShapeError
from jitopt.evidence import GENERATED, Evidence, Limit, NoEvidence, exact_graph, gather
from jitopt.explain import memory_of
from jitopt.ir.graph import Graph
from jitopt.ir.types import TensorType
from jitopt.model import REWRITES, CompiledModel, ModelOptions
from jitopt.passes.pipelines import PASSES
from jitopt.runtime.executor import Executor
from jitopt.runtime.feeds import read_feeds
from jitopt.samples import Extents, Feeds
from jitopt.verdict import (
    RIGHT,
    UNCHECKED,
    UNNEEDED,
    UNPROVEN,
    WRONG,
    Attempt,
    Verdict,
    load_verdict,
    store_verdict,
    verdict_key,
)

logger = logging.getLogger("jitopt")
MOST_FEEDS = 32  # digests a verdict remembers


@dataclass(frozen=True)
class Maker:
    """How a model is compiled under given options, and an executor made for it."""

    model: Callable[[ModelOptions], CompiledModel]
    executor: Callable[[CompiledModel], Executor]


@dataclass(frozen=True)
class Stage:
    """One step back: `disable` gains these names. A template's name stands for the kernels of that template."""

    name: str
    disable: tuple[str, ...]

    def took_part(self, model: CompiledModel) -> bool:
        """Whether any of its rewrites changed the model in more than form: bit-exact passes do not count."""
        passes = {r.name for r in model.report.records if r.changes and PASSES[r.name].exactness != "bit-exact"}
        return not (passes | {spec.template for spec in model.program.specs}).isdisjoint(self.disable)


# Rewrites that may move results, in the order they are given up. Constant folding is none of them: it computes what the
# interpreter would. Approximations are asked for, and exact answers have them, too.
STAGES = (
    Stage("Winograd", ("winograd",)),
    Stage("folding", REWRITES["folding"]),
    Stage(
        "recognised patterns",
        (
            "recognise-activations", "recognise-gelu", "recognise-layernorm", "recognise-softmax",
            "replace-operators-bounded",
        ),
    ),
)  # fmt: skip


def settle(
    model: CompiledModel, source: Graph, make: Maker, *, feeds: Mapping[str, Any] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None, cache: Cache | None = None,
) -> CompiledModel:  # fmt: skip
    """`model`, or what is made of its options less the fewest rewrites with which it answers right; its verdict is set.

    `source` is the graph as it was read, `feeds` the caller's, `shapes` those that generated feeds should have. Raises
    what compiling raises, FeedError or ShapeError for wrong `feeds`.
    """
    options, lasting = model.options, True
    if not any(stage.took_part(model) for stage in STAGES):
        model.verdict = Verdict(UNNEEDED)
        return model
    given = None if feeds is None else _by_name(model, feeds)
    mark = _mark(given, shapes)
    key = verdict_key(source, options)
    known = load_verdict(cache, key)
    if known is not None and not {stage.name for stage in STAGES}.issuperset(known.without):
        known = None
    if known is not None and known.without:
        model = make.model(_less(options, known.without))
    if known is not None and _stands(known, mark, given):
        model.verdict = known
        return model
    try:
        graph = exact_graph(source, precision=options.precision, gelu=options.gelu, disable=options.disable)
        evidence = gather(graph, given, shapes, _limit(model, make.executor(model)))
        if evidence.proves:
            model, found, lasting = _retreat(model, make, evidence, known, options)
        else:
            found = Verdict(UNPROVEN)
        found = replace(found, evidence=evidence.origin, idle=evidence.idle)
    except NoEvidence as reason:
        found, lasting = Verdict(UNCHECKED, str(reason)), reason.lasting
    if known is not None and not found.attempts and known.attempts:
        found = known  # what proves nothing takes nothing from a check that did
    model.verdict = replace(found, feeds=(*(known.feeds if known is not None else ()), mark)[-MOST_FEEDS:])
    _log(source.name, model.verdict)
    if lasting:
        store_verdict(cache, key, model.verdict)
    return model


def _stands(known: Verdict, mark: str, given: Feeds | None) -> bool:
    """Whether a verdict needs no other check: these feeds had theirs, or what was proven holds for generated ones.

    A verdict that proved nothing on other feeds, or for other shapes, does not stand.
    """
    return mark in known.feeds or known.status == WRONG or (given is None and known.status == RIGHT)


def _retreat(
    model: CompiledModel, make: Maker, evidence: Evidence, known: Verdict | None, options: ModelOptions
) -> tuple[CompiledModel, Verdict, bool]:
    """Give up stage after stage that took part until the answers are right or nothing is left to give up.

    `options` are those asked for; the model is already without what is `known` to be needed. Where no stage makes the
    answers right, rewrites are not to blame (a model may be ill-conditioned, an index a matter of rounding):
    the first attempt stays that is at most twice as far off as the best. The way back ends, too, where a model with
    fewer rewrites cannot be compiled or run within the limits; the last result is whether it always will. What is
    within tolerance of answers in float64 is right, too.
    """
    asked, reason, lasting, sharp = model, "", True, None
    without = known.without if known is not None else ()
    held = without  # what the model at hand does without
    earlier = [a for a in known.attempts if not a.ok] if known is not None else []
    attempts: list[Attempt] = []
    while True:
        try:
            if attempts:
                model, held = make.model(_less(options, without)), without
            run = _runner(model, make.executor(model))
            attempts.append(evidence.hold(run, without))
            if not attempts[-1].ok and (sharp := sharp or evidence.in_float64()) is not None:
                nearer = sharp.hold(run, without)
                attempts[-1] = nearer if nearer.ok else attempts[-1]
        except (NoEvidence, JitoptError, MemoryError) as error:
            if not attempts:
                raise
            reason = f"without {' and '.join(without)}: {str(error) or 'there is not enough memory'}"
            lasting = not isinstance(error, MemoryError) and getattr(error, "lasting", True)
            break
        stage = next((s for s in STAGES if s.name not in without and s.took_part(model)), None)
        if attempts[-1].ok or stage is None:
            break
        without = (*without, stage.name)
    chosen = attempts[-1]
    if not chosen.ok:
        chosen = next(a for a in attempts if a.error <= 2 * min(b.error for b in attempts))
    if chosen is attempts[0]:
        model = asked
    elif chosen.without != held:
        model = make.model(_less(options, chosen.without))
    status = RIGHT if chosen.ok else WRONG
    return model, Verdict(status, reason, attempts=(*earlier, *attempts), without=chosen.without), lasting


def _runner(model: CompiledModel, executor: Executor) -> Callable[[Feeds], list[Any]]:
    """Runs the model in memory of its own, which is free afterwards: a session's is for its user's shapes."""
    program = model.program

    def run(feeds: Feeds) -> list[Any]:
        try:
            return executor.run(read_feeds(program.inputs, feeds, program.name), program.outputs)
        except JitoptError as error:
            raise NoEvidence(f"it does not run on the feeds that NumPy takes: {error}") from error
        except MemoryError:
            raise NoEvidence("there is not enough memory to run it for a check", lasting=False) from None

    return run


def _limit(model: CompiledModel, executor: Executor) -> Limit:
    """Refuses extents of inputs with which the interpreter, which shares no memory, may need more than allowed."""
    ports, most = model.program.inputs, model.options.max_memory

    def check(extents: Extents) -> None:
        needed = sum(
            math.prod(extents[p.name]) * p.type.dtype.itemsize
            for p in ports if isinstance(p.type, TensorType) and p.name in extents
        )  # fmt: skip
        try:
            executor.bind([extents.get(port.name) for port in ports])
            memory = memory_of(model, executor.plans(None))
            needed += memory.unshared_bytes + memory.weight_bytes
        except ShapeError:
            pass  # some extents are known in a run only
        if most is not None and needed > most:
            raise NoEvidence(f"exact answers need up to {needed:,} bytes, more than the limit of {most:,}")

    return check


def _less(options: ModelOptions, without: Sequence[str]) -> ModelOptions:
    """The options without these stages."""
    names = [name for stage in STAGES if stage.name in without for name in stage.disable]
    return replace(options, disable=tuple(dict.fromkeys((*options.disable, *names))))


def _by_name(model: CompiledModel, feeds: Mapping[str, Any]) -> Feeds:
    ports = model.program.inputs
    arrays = read_feeds(ports, feeds, model.program.name)
    return {port.name: array for port, array in zip(ports, arrays, strict=True)}


def _mark(given: Feeds | None, shapes: Mapping[str, Sequence[int]] | None) -> str:
    """What a verdict remembers feeds by: a digest of the caller's, the shapes of generated ones."""
    if given is not None:
        return _digest(given)
    asked = sorted((name, tuple(map(int, shape))) for name, shape in (shapes or {}).items())
    return " ".join([GENERATED, *(f"{name!r} {list(shape)}" for name, shape in asked)])


def _digest(feeds: Feeds) -> str:
    parts: list[bytes] = []
    for name, feed in feeds.items():
        for item in feed if isinstance(feed, list) else [feed]:
            array = np.asarray(item)
            content = repr(array.tolist()).encode() if array.dtype.kind == "O" else array.tobytes()
            parts += [name.encode(), str((array.dtype, array.shape)).encode(), content]
    return digest(parts)


def _log(name: str, verdict: Verdict) -> None:
    level = logging.WARNING if verdict.without or verdict.status == WRONG else logging.INFO
    logger.log(level, "model '%s': %s", name, "\n".join(verdict.lines()))
