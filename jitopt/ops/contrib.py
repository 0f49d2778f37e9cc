"""com.microsoft operators that are only other spellings: rewritten into ONNX's own when a model is read.

Each is declared with its schema, its types and a rewrite; it has no reference, because the graph never holds it. Those
that say something ONNX cannot (quantised and fused products) are declared beside their kin.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jitopt.errors import ModelError
from jitopt.ir.graph import Graph, Node, Value
from jitopt.ops import cases
from jitopt.ops.normalisation import EPSILON
from jitopt.ops.operator import Attribute, Kind, Operator, Param, Sample
from jitopt.ops.rules import ShapeRule, same_as_first
from jitopt.ops.signature import REALS, declare
from jitopt.ops.upgrades import take_out

Rewrite = Callable[["Call"], Sequence[Value | None]]
FLOATS = frozenset(d for d in REALS if d.name != "float64")


class Call:
    """A node being rewritten: its operands (absent ones are None), attributes and the outputs asked for."""

    def __init__(self, graph: Graph, node: Node, inputs: Sequence[Param], attributes: Mapping[str, Attribute]) -> None:
        self.graph, self.name = graph, node.name
        self.inputs = [node.input(i) for i in range(max(len(inputs), len(node.inputs)))]
        self.attrs = {key: node.attrs.get(key, a.default) for key, a in attributes.items()}
        self.wanted = [bool(v.uses) or graph.is_output(v) for v in node.outputs]

    def add(self, op: str, inputs: Sequence[Value | None], part: str = "", **rest: Any) -> Any:
        """Append a node; `part` tells it from the others of this rewrite."""
        return self.graph.add(op, inputs, name=f"{self.name}/{part}" if part else self.name, **rest)


def spelling(
    name: str, inputs: Sequence[Param], rewrite: Rewrite, samples: Callable[[], Sequence[Sample]], *,
    outputs: Sequence[Param] = (Param("Y", REALS),), shape: ShapeRule = same_as_first,
    attributes: Mapping[str, Attribute] | None = None,
) -> Operator:  # fmt: skip
    """Declare com.microsoft's `name`; `rewrite(call)` builds the replacement and returns its results.

    A result is None where the output is not wanted; each must be some new node's output.
    """
    declared = dict(attributes or {})

    def upgrade(graph: Graph, node: Node) -> None:
        call = Call(graph, node, inputs, declared)
        for output, result in zip(take_out(graph, node), rewrite(call), strict=False):
            if result is not None:
                producer = result.producer
                assert producer is not None
                graph_outputs = producer.outputs
                graph_outputs[next(i for i, v in enumerate(graph_outputs) if v is result)] = output
                output.producer = producer
                for reader, index in list(result.uses):
                    reader.set_input(index, output)

    return declare(
        f"com.microsoft.{name}", Kind.OPAQUE, inputs, outputs, shape, None, attributes=declared, since=(1,),
        upgrades=((2, upgrade),), samples=samples,
    )  # fmt: skip


# activations --------------------------------------------------------------------------------------------------------
def _gelu(call: Call) -> list[Value]:
    return [call.add("Gelu", call.inputs[:1])]


def _bias_gelu(call: Call) -> list[Value]:
    return [call.add("Gelu", [call.add("Add", call.inputs[:2], "bias")])]


def _fast_gelu(call: Call) -> list[Value]:
    x, bias = call.inputs[:2]
    if bias is not None:
        x = call.add("Add", [x, bias], "bias")
    return [call.add("Gelu", [x], approximate="tanh")]


def _quick_gelu(call: Call) -> list[Value]:
    return [call.add("Swish", call.inputs[:1], alpha=call.attrs["alpha"])]


def _samples(*, bias: bool = False, optional: bool = False) -> Callable[[], Sequence[Sample]]:
    x, b = cases.floats(2, 3, 8, low=-4, high=4), cases.floats(8, seed=1)

    def build() -> list[Sample]:
        out = [cases.sample(x, b)] if bias else []
        return out if bias and not optional else [*out, cases.sample(x)]

    return build


X = Param("X", REALS)
spelling("Gelu", (X,), _gelu, _samples())
spelling("BiasGelu", (X, Param("B", REALS)), _bias_gelu, _samples(bias=True))
spelling("FastGelu", (X, Param("bias", REALS, optional=True)), _fast_gelu, _samples(bias=True, optional=True))
spelling("QuickGelu", (X,), _quick_gelu, _samples(), attributes={"alpha": Attribute("float", 1.702)})


# sum and normalisation ----------------------------------------------------------------------------------------------
def _summed(call: Call, *terms: Value | None) -> Any:
    total = terms[0]
    for index, term in enumerate(terms[1:]):
        if term is not None:
            total = call.add("Add", [total, term], f"sum{index}")
    return total


def _skip_layer(call: Call) -> list[Value | None]:
    x, skip, gamma, beta, bias = call.inputs
    total = _summed(call, x, skip, bias)
    count = 3 if any(call.wanted[1:3]) else 1
    attrs = {"axis": -1, "epsilon": call.attrs["epsilon"]}
    found = call.add("LayerNormalization", [total, gamma, beta], outputs=count, **attrs)
    return [*(found if count == 3 else (found, None, None)), total]


def _skip_rms(call: Call) -> list[Value | None]:
    x, skip, gamma, bias = call.inputs
    if any(call.wanted[1:3]):
        raise ModelError("the statistics of SkipSimplifiedLayerNormalization are for training only")
    total = _summed(call, x, skip, bias)
    found = call.add("RMSNormalization", [total, gamma], axis=-1, epsilon=call.attrs["epsilon"])
    return [found, None, None, total]


def _skip_samples(*, beta: bool) -> Callable[[], Sequence[Sample]]:
    x, skip = cases.floats(2, 3, 8), cases.floats(2, 3, 8, seed=1)
    gamma, shift, bias = (cases.floats(8, seed=i) for i in (2, 3, 4))
    extra = (shift,) if beta else ()

    def build() -> list[Sample]:
        return [
            cases.sample(x, skip, gamma, *extra, epsilon=1e-5),
            cases.sample(x, skip, gamma, *extra, bias),
            cases.sample(x, skip, gamma, *extra, bias, outputs=4),
        ]

    return build


_SKIPPED = (Param("input", FLOATS), Param("skip", FLOATS), Param("gamma", FLOATS))
_BIAS = Param("bias", FLOATS, optional=True)
_SUMMED = (
    Param("output", FLOATS), Param("mean", FLOATS, optional=True), Param("inv_std_var", FLOATS, optional=True),
    Param("input_skip_bias_sum", FLOATS, optional=True),
)  # fmt: skip
_TINY = {"epsilon": Attribute("float", 1e-12, check=EPSILON.check)}
spelling(
    "SkipLayerNormalization", (*_SKIPPED, Param("beta", FLOATS, optional=True), _BIAS), _skip_layer,
    _skip_samples(beta=True), outputs=_SUMMED, attributes=_TINY,
)  # fmt: skip
spelling(
    "SkipSimplifiedLayerNormalization", (*_SKIPPED, _BIAS), _skip_rms, _skip_samples(beta=False), outputs=_SUMMED,
    attributes=_TINY,
)  # fmt: skip
