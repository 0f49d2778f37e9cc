"""Which passes run, in which order.

A stage runs until nothing in it changes before the next one starts; the whole list runs until nothing changes at all.
Cleaning comes first because patterns are recognised in clean graphs only; recognition comes before the operator
replacements, which would take patterns apart; folding into weights comes before what is left of BatchNormalization
becomes scale and shift.
"""

from __future__ import annotations

from jitopt.passes.base import Pass
from jitopt.passes.captures import LocalConstants
from jitopt.passes.common_subexpressions import CommonSubexpressions, MergeConstants
from jitopt.passes.dead_code import DeadCode
from jitopt.passes.fold_constants import FoldConstants, ShapeArithmetic
from jitopt.passes.identities import RemoveIdentities
from jitopt.passes.pairs import CancelPairs

PASSES: dict[str, Pass] = {
    p.name: p
    for p in (
        LocalConstants(), RemoveIdentities(), CancelPairs(), FoldConstants(), ShapeArithmetic(),
        CommonSubexpressions(), DeadCode(), MergeConstants(),
    )
}  # fmt: skip

STAGES: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "clean",
        (
            "dead-code",
            "local-constants",
            "fold-constants",
            "shape-arithmetic",
            "remove-identities",
            "cancel-pairs",
            "common-subexpressions",
        ),
    ),
    ("finish", ("merge-constants", "dead-code")),
)
