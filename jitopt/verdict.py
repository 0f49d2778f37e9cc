"""What the check behind default precision found, as data: for `explain()`, and kept on disk beside the kernels."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from jitopt.codegen.cache import Cache
from jitopt.codegen.keys import digest, package_digest, toolchain_digest
from jitopt.ir.graph import Graph
from jitopt.ir.text import print_graph

KIND = "verdicts"  # of cache entries: a header each, no sections
OFF, UNNEEDED, UNCHECKED, UNPROVEN, RIGHT, WRONG = "off", "unneeded", "unchecked", "unproven", "right", "wrong"
MEANINGS = {
    OFF: "not checked",
    UNNEEDED: "nothing to check: no rewrite moves a result",
    UNCHECKED: "could not be checked",
    UNPROVEN: "not checked: exact answers hardly vary on these feeds, give others with feeds=",
    RIGHT: "within tolerance of exact answers",
    WRONG: "NOT within tolerance of exact answers, nor with fewer rewrites",
}

CHECKED = (RIGHT, WRONG)  # against exact answers, in one attempt or more


@dataclass(frozen=True)
class Attempt:
    """One lowering held against exact answers.

    `without` are the stages it did without, `tolerances` the largest error counted in tolerances; None where shapes,
    dtypes, integers or special values differ. `reason` says what is wrong where it is not `ok`.
    """

    without: tuple[str, ...]
    ok: bool
    tolerances: float | None
    reason: str = ""

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Attempt:
        """The attempt as JSON has it. Raises ValueError, KeyError or TypeError for anything else."""
        found = cls(_names(data["without"]), data["ok"], data["tolerances"], data["reason"])
        number = found.tolerances
        sound = isinstance(number, float) and math.isfinite(number) if number is not None else found.ok is False
        if not sound or not isinstance(found.ok, bool) or not isinstance(found.reason, str):
            raise ValueError(f"no attempt: {data!r}")
        return found

    @property
    def error(self) -> float:
        """`tolerances` as a number."""
        return float("inf") if self.tolerances is None else self.tolerances

    def __str__(self) -> str:
        how = f"without {' and '.join(self.without)}" if self.without else "as asked"
        return f"{how}: {self.size if self.ok else self.reason}"

    @property
    def size(self) -> str:
        """The error in words."""
        return f"largest error {self.tolerances:.2g} tolerances"


@dataclass(frozen=True)
class Verdict:
    """Whether a model's answers are right, and what it had to do without for that.

    status    one of MEANINGS                           reason    why there was no check
    feeds     digests of the feeds it was checked on    evidence  what these feeds were
    attempts  in the order they were made              without   stages the model in use does without
    idle      outputs that hardly vary on these feeds, about which they prove nothing
    """

    status: str
    reason: str = ""
    feeds: tuple[str, ...] = ()
    evidence: str = ""
    attempts: tuple[Attempt, ...] = ()
    without: tuple[str, ...] = ()
    idle: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Plain data, as JSON takes it."""
        return asdict(self)

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Verdict:
        """The verdict `as_dict` gave, after a way through JSON. Raises ValueError for anything else."""
        try:
            attempts = tuple(map(Attempt.of, data["attempts"]))
            lists = {name: _names(data[name]) for name in ("feeds", "idle", "without")}
            found = cls(**{**data, **lists, "attempts": attempts})
        except (KeyError, TypeError) as error:
            raise ValueError(f"no verdict: {error!r}") from error
        if not all(isinstance(text, str) for text in (found.status, found.reason, found.evidence)):
            raise ValueError("no verdict: a text is something else")
        if found.status not in MEANINGS:
            raise ValueError(f"no verdict: status {found.status!r}")
        if (found.status in CHECKED) != bool(attempts) or (found.status == RIGHT and not attempts[-1].ok):
            raise ValueError(f"no verdict: status {found.status!r} with attempts {attempts}")
        return found

    def lines(self) -> list[str]:
        """For people: the outcome, then what was tried where that is more than one lowering."""
        details = [self.reason, self.evidence]
        if self.status == RIGHT:
            details.insert(0, self.attempts[-1].size)
        shown = "; ".join(filter(None, details))
        lines = [f"answers: {MEANINGS[self.status]}" + (f" ({shown})" if shown else "")]
        if len(self.attempts) > 1:
            lines += [f"  {attempt}" for attempt in self.attempts]
        if self.idle and self.status != UNPROVEN:
            lines.append(f"  these feeds prove nothing about {', '.join(self.idle)}, which hardly vary")
        return lines


def _names(data: Any) -> tuple[str, ...]:
    """A list of names, as JSON has it. Raises ValueError for anything else."""
    if not isinstance(data, list | tuple) or not all(isinstance(name, str) for name in data):
        raise ValueError(f"no names: {data!r}")
    return tuple(data)


def verdict_key(source: Graph, options: object) -> str:
    """The key of a model's verdict: its graph with every weight, what it is compiled with, and by which code."""
    parts = (print_graph(source), repr(options), package_digest(), toolchain_digest())
    return digest([part.encode() for part in parts])


def load_verdict(cache: Cache | None, key: str) -> Verdict | None:
    """The verdict kept under `key`; None without one, and for an entry that is damaged or says something else."""
    entry = None if cache is None else cache.load(KIND, key)
    if entry is None:
        return None
    try:
        return Verdict.of(entry.header)
    except ValueError:
        return None


def store_verdict(cache: Cache | None, key: str, verdict: Verdict) -> None:
    """Keep a verdict, in place of the one that was kept under this key."""
    if cache is not None:
        cache.store(KIND, key, verdict.as_dict(), {})
