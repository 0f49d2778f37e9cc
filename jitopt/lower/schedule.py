"""How a row body with folds is cut into passes over the row.

A value is at level k when k folds lie on the longest path to it. Pass k runs over the row, computes what is at level
k, and completes the folds there. Cheap values of earlier levels are computed again; dear ones are kept in a scratch
row.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from jitopt.lower.spec import Body, Instruction, Operand

# Formulas dear enough to keep their results for a later pass instead of computing them again.
DEAR = frozenset({"exp", "tanh", "erf", "log", "pow", "sigmoid", "gelu_erf", "gelu_tanh", "silu", "sin", "cos", "mish"})


@dataclass
class Pass:
    """One run over the row: values computed in order, folds completed, values kept, stores made."""

    values: list[Instruction] = field(default_factory=list)
    loads: list[Operand] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    recalled: list[str] = field(default_factory=list)
    folds: list[Instruction] = field(default_factory=list)


@dataclass
class Schedule:
    """Passes, what is computed once a row before and between them, and the scratch rows kept between them."""

    passes: list[Pass]
    per_row: list[list[Instruction]]  # [k]: per-row instructions after pass k - 1 (k = 0: before the first)
    level: dict[str, int]
    along: dict[str, bool]
    kept: list[str]


def schedule(body: Body) -> Schedule:
    """Assign every instruction to passes; see the module's text for the rule."""
    level = {o.name: 0 for o in body.loads} | {s.name: 0 for s in body.scalars} | {"length": 0}
    along = {o.name: o.along for o in body.loads} | {s.name: False for s in body.scalars} | {"length": False}
    made = {i.result: i for i in body.instructions}
    for i in body.instructions:
        args = [a for a in i.args if a in level]
        deepest = max((level[a] for a in args), default=0)
        level[i.result] = deepest + i.reduces
        along[i.result] = not i.reduces and any(along[a] for a in args)
    count = 1 + max(level.values())
    passes = [Pass() for _ in range(count)]
    per_row: list[list[Instruction]] = [[] for _ in range(count)]
    for i in body.instructions:
        if i.reduces:
            passes[level[i.result] - 1].folds.append(i)
        elif not along[i.result]:
            per_row[level[i.result]].append(i)
    loads = {o.name: o for o in body.loads}
    wanted = [{i.args[0] for i in p.folds} for p in passes]
    for store in body.stores:
        if along[store.source]:
            wanted[level[store.source]].add(store.source)
    kept: list[str] = []
    for k in range(count - 1, -1, -1):
        # Walk back from what this pass must have; a dear value of an earlier level is recalled, not recomputed.
        need, stack = set(), list(wanted[k])
        while stack:
            name = stack.pop()
            if name in need or not along.get(name, False):
                continue
            need.add(name)
            instruction = made.get(name)
            if instruction is None:
                continue
            if level[name] < k and instruction.formula in DEAR:
                passes[k].recalled.append(name)
                if name not in kept:
                    kept.append(name)
                wanted[level[name]].add(name)
            else:
                stack.extend(instruction.args)
        recalled = set(passes[k].recalled)
        passes[k].recalled.sort()
        passes[k].values = [i for i in body.instructions if i.result in need - recalled]
        passes[k].loads = [o for o in body.loads if o.name in need and o.name in loads]
    for k, p in enumerate(passes):
        p.kept = [n for n in kept if level[n] == k]
    return Schedule(passes, per_row, level, along, kept)


def scratch_rows(body: Body) -> int:
    """Rows of scratch a thread needs (each of the folded axis' length, times the lanes in a vertical kernel)."""
    return len(schedule(body).kept)
