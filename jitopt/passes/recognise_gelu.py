"""GELU in the forms exporters write it, and the approximation the caller asked for.

    x * 0.5 * (1 + erf(x / sqrt(2)))                            exact (Hendrycks and Gimpel, arXiv 1606.08415)
    x * 0.5 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)))   the tanh form
    x * sigmoid(1.702 * x)                                      the sigmoid form: Swish with alpha = 1.702

A form the model itself approximates stays that form. `gelu="tanh"` (or precision "fast") turns exact GELUs into the
tanh form, off by at most 5e-4; `gelu="sigmoid"` turns every GELU into the sigmoid form, off by at most 2e-2.
"""

from __future__ import annotations

import math

from jitopt.ir.graph import Node
from jitopt.passes.base import PassContext, Refusal
from jitopt.passes.facts import attribute, same_type
from jitopt.passes.patterns import Any, Match, OneOf, Op, Pattern, Product, Scalar, match
from jitopt.passes.rules import Builder, Replacement, RulePass

SIGMOID_ALPHA = 1.702
_X = Any("x")
_CUBE = OneOf((Op("Pow", _X, Scalar(3.0)), Product(_X, _X, _X), Product(_X, Op("Pow", _X, Scalar(2.0)))))
_SQUARE = OneOf((Op("Pow", _X, Scalar(2.0)), Product(_X, _X)))
_ROOT = math.sqrt(2 / math.pi)

EXACT = Product(_X, Op("Add", Op("Erf", Product(_X, scale=math.sqrt(0.5))), Scalar(1.0)), scale=0.5)
_INNER = OneOf(
    (
        Product(
            Op("Add", _X, OneOf((Product(_CUBE, scale=0.044715), Product(_X, _X, _X, scale=0.044715)))), scale=_ROOT
        ),
        Product(_X, Op("Add", Product(_SQUARE, scale=0.044715), Scalar(1.0)), scale=_ROOT),
        Product(_X, Op("Add", Product(_X, _X, scale=0.044715), Scalar(1.0)), scale=_ROOT),
        Product(_X, Op("Add", Product(_SQUARE, scale=0.044715 * _ROOT), Scalar(_ROOT))),
    )
)
TANH = Product(_X, Op("Add", Op("Tanh", _INNER), Scalar(1.0)), scale=0.5)
_FORMS: tuple[tuple[str, Pattern], ...] = (("none", EXACT), ("tanh", TANH))


class RecogniseGelu(RulePass):
    name = "recognise-gelu"
    description = "GELU written with Erf or Tanh becomes one Gelu"
    exactness = "bounded"
    bound = "the rounding of the decomposed form"
    outermost_first = True
    roots = frozenset({"Mul", "Div"})

    def rule(self, node: Node, build: Builder) -> Replacement | Refusal | None:
        refusal: Refusal | None = None
        for approximate, pattern in _FORMS:
            found = match(pattern, node)
            if isinstance(found, Match):
                if not same_type(found["x"], node.output):
                    return Refusal("its constants broadcast x")
                new = build.add("Gelu", [found["x"]], approximate=approximate)
                return Replacement({node.output: new}, f"{len(found.nodes)} nodes => Gelu({approximate})")
            refusal = found or refusal
        return refusal


class ApproximateGelu(RulePass):
    name = "approximate-gelu"
    description = "Gelu in the cheaper form the caller asked for"
    exactness = "approximate"
    bound = "tanh: 5e-4; sigmoid: 2e-2"
    roots = frozenset({"Gelu", "com.microsoft.Gelu"})

    def allowed(self, context: PassContext) -> bool:
        return super().allowed(context) and _form(context) != "none"

    def rule(self, node: Node, build: Builder) -> Replacement | Refusal | None:
        form = _form(build.context)
        given = attribute(node, "approximate") if node.op == "Gelu" else "none"
        if form == "sigmoid":
            new = build.add("Swish", [node.arg(0)], alpha=SIGMOID_ALPHA)
        elif given == "none":
            new = build.add("Gelu", [node.arg(0)], approximate="tanh")
        else:
            return None
        return Replacement({node.output: new}, f"Gelu => its {form} form")


def _form(context: PassContext) -> str:
    """The approximation asked for; "none" where every GELU stays what it is."""
    if context.gelu != "exact":
        return context.gelu
    return "tanh" if context.precision == "fast" else "none"
