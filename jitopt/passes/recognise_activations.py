"""Activations that exporters write as several nodes: SiLU, HardSwish, HardSigmoid, Mish.

x * sigmoid(a * x)                 Swish(alpha=a)
clip(x + 3, 0, 6) / 6              HardSigmoid(alpha=1/6, beta=1/2), also clip((x + 3) / 6, 0, 1)
clip(a * x + b, 0, 1)              HardSigmoid(alpha=a, beta=b)
x * clip(x + 3, 0, 6) / 6          HardSwish
x * tanh(softplus(x))              Mish
"""

from __future__ import annotations

from jitopt.ir.graph import Node
from jitopt.passes.base import Refusal
from jitopt.passes.facts import same_type
from jitopt.passes.patterns import Any, Match, OneOf, Op, Pattern, Product, Scalar, match, scalar_of
from jitopt.passes.rules import Builder, Replacement, RulePass

_X = Any("x")
_PLUS_3 = Op("Add", _X, Scalar(3.0))
_RELU6 = OneOf(
    (
        Op("Clip", _PLUS_3, Scalar(0.0), Scalar(6.0)),
        Op("Min", Op("Max", _PLUS_3, Scalar(0.0)), Scalar(6.0)),
        Op("Min", Op("Relu", _PLUS_3), Scalar(6.0)),
    )
)
_LINE = Op("Add", Product(_X, scale=None, scale_name="alpha"), Scalar(name="beta"))
_SOFTPLUS = OneOf((Op("Softplus", _X), Op("Log", Op("Add", Op("Exp", _X), Scalar(1.0)))))

SWISH = Product(_X, Op("Sigmoid", Product(_X, scale=None, scale_name="alpha")))
PATTERNS: tuple[tuple[str, Pattern], ...] = (
    ("Swish", Product(_X, Op("Sigmoid", _X))),
    ("Swish", SWISH),
    ("HardSwish", Product(_X, Op("HardSigmoid", _X, alpha=1 / 6, beta=0.5))),
    ("HardSwish", Product(_X, _RELU6, scale=1 / 6)),
    ("HardSigmoid", Product(_RELU6, scale=1 / 6)),
    ("HardSigmoid", Op("Clip", Product(_PLUS_3, scale=1 / 6), Scalar(0.0), Scalar(1.0))),
    ("HardSigmoid", Op("Clip", _LINE, Scalar(0.0), Scalar(1.0))),
    ("Mish", Product(_X, Op("Tanh", _SOFTPLUS))),
)


class RecogniseActivations(RulePass):
    name = "recognise-activations"
    description = "SiLU, HardSwish, HardSigmoid and Mish written as several nodes become one"
    exactness = "bounded"
    bound = "the rounding of the decomposed form"
    outermost_first = True
    roots = frozenset({"Mul", "Div", "Clip"})

    def rule(self, node: Node, build: Builder) -> Replacement | Refusal | None:
        refusal: Refusal | None = None
        for op, pattern in PATTERNS:
            found = match(pattern, node)
            if not isinstance(found, Match):
                refusal = found or refusal
                continue
            if not same_type(found["x"], node.output):
                return Refusal("its constants broadcast x")
            if op == "HardSigmoid":
                alpha, beta = found.numbers.get("alpha", 1 / 6), scalar_of(found.values.get("beta"))
                new = build.add(op, [found["x"]], alpha=alpha, beta=0.5 if beta is None else beta)
            elif "alpha" in found.numbers:
                new = build.add(op, [found["x"]], alpha=found.numbers["alpha"])
            else:
                new = build.add(op, [found["x"]])
            return Replacement({node.output: new}, f"{len(found.nodes)} nodes => {op}")
        return refusal
