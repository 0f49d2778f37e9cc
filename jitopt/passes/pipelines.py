"""Which passes run, in which order.

A stage runs until nothing in it changes before the next one starts; the whole list runs until nothing changes at all.
Cleaning comes first because patterns are recognised in clean graphs only; recognition comes before the operator
replacements, which would take patterns apart; folding into weights comes before what is left of BatchNormalization
becomes scale and shift.
"""

from __future__ import annotations

from jitopt.passes.affine import FoldAffine, FoldAffineBefore
from jitopt.passes.base import Pass
from jitopt.passes.batchnorm import BatchNormToAffine, FoldBatchNorm
from jitopt.passes.captures import LocalConstants
from jitopt.passes.common_subexpressions import CommonSubexpressions, MergeConstants
from jitopt.passes.dead_code import DeadCode
from jitopt.passes.fold_constants import FoldConstants, ShapeArithmetic
from jitopt.passes.fold_pad import FoldPad
from jitopt.passes.grouped_transposes import UngroupTransposes
from jitopt.passes.identities import RemoveIdentities
from jitopt.passes.inline_if import InlineIf
from jitopt.passes.merge_affine import MergeAffine
from jitopt.passes.nest_concats import NestConcats
from jitopt.passes.pairs import CancelPairs
from jitopt.passes.recognise_activations import RecogniseActivations
from jitopt.passes.recognise_gelu import ApproximateGelu, RecogniseGelu
from jitopt.passes.recognise_layernorm import RecogniseLayerNorm
from jitopt.passes.recognise_softmax import RecogniseSoftmax, UnwrapSoftmax
from jitopt.passes.replacements import ReplaceExactly, ReplaceWithinBound
from jitopt.passes.transposes import CancelTransposes, MergeTransposes
from jitopt.passes.views import ConstantShapes, MergeViews

CLEAN = (
    "dead-code",
    "local-constants",
    "fold-constants",
    "shape-arithmetic",
    "inline-if",
    "remove-identities",
    "cancel-pairs",
    "common-subexpressions",
)

STAGES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("clean", CLEAN),
    (
        "shapes",
        (
            "constant-shapes",
            "unwrap-softmax",
            "merge-views",
            "ungroup-transposes",
            "merge-transposes",
            "cancel-transposes",
            *CLEAN,
        ),
    ),
    ("recognise", ("recognise-layernorm", "recognise-gelu", "recognise-activations", "recognise-softmax", "dead-code")),
    ("weights", ("fold-pad", "fold-batchnorm", "fold-affine", "dead-code")),
    ("affine", ("batchnorm-to-affine", "merge-affine", "fold-affine", "fold-affine-before", "dead-code")),
    ("operators", ("approximate-gelu", "replace-operators", "replace-operators-bounded", *CLEAN)),
    ("finish", ("nest-concats", "merge-constants", "dead-code")),
)

PASSES: dict[str, Pass] = {
    rewrite.name: rewrite
    for rewrite in (
        ApproximateGelu(), BatchNormToAffine(), CancelPairs(), CancelTransposes(), CommonSubexpressions(),
        ConstantShapes(), DeadCode(), FoldAffine(), FoldAffineBefore(), FoldBatchNorm(), FoldConstants(), FoldPad(),
        InlineIf(), LocalConstants(), MergeAffine(), MergeConstants(), MergeTransposes(), MergeViews(), NestConcats(),
        RecogniseActivations(), RecogniseGelu(), RecogniseLayerNorm(), RecogniseSoftmax(), RemoveIdentities(),
        ReplaceExactly(), ReplaceWithinBound(), ShapeArithmetic(), UngroupTransposes(), UnwrapSoftmax(),
    )
}  # fmt: skip
