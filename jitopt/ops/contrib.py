"""com.microsoft operators that are only other spellings: rewritten into ONNX's own when a model is read.

Each is declared with its schema, its types and a rewrite; it has no reference, because the graph never holds it. Those
that say something ONNX cannot (quantised and fused products) are declared beside their kin.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jitopt.ir.graph import Graph, Node, Value
from jitopt.ops import cases
from jitopt.ops.operator import Attribute, Kind, Operator, Param, Sample
from jitopt.ops.rules import ShapeRule, same_as_first
from jitopt.ops.signature import REALS, declare
from jitopt.ops.upgrades import take_out

Rewrite = Callable[[Graph, list[Value | None], dict[str, Any], str], Any]


def spelling(
    name: str, inputs: Sequence[Param], rewrite: Rewrite, samples: Callable[[], Sequence[Sample]], *,
    shape: ShapeRule = same_as_first, attributes: Mapping[str, Attribute] | None = None,
) -> Operator:  # fmt: skip
    """Declare com.microsoft's `name`, with one output.

    `rewrite(graph, inputs, attributes, stem)` builds the replacement and returns its result's value;
    absent inputs are None.
    """

    def upgrade(graph: Graph, node: Node) -> None:
        operands = [node.input(i) for i in range(max(len(inputs), len(node.inputs)))]
        (output,) = take_out(graph, node)
        result = rewrite(graph, operands, node.attrs, node.name)
        assert result.producer is not None
        result.producer.outputs[0], output.producer = output, result.producer

    return declare(
        f"com.microsoft.{name}", Kind.OPAQUE, inputs, (Param("Y", REALS),), shape, None,
        attributes=dict(attributes or {}), since=(1,), upgrades=((2, upgrade),), samples=samples,
    )  # fmt: skip


def _gelu(graph: Graph, inputs: list[Value | None], attrs: dict[str, Any], stem: str) -> Any:
    return graph.add("Gelu", inputs[:1], name=stem)


def _bias_gelu(graph: Graph, inputs: list[Value | None], attrs: dict[str, Any], stem: str) -> Any:
    return graph.add("Gelu", [graph.add("Add", inputs[:2], name=f"{stem}/bias")], name=stem)


def _fast_gelu(graph: Graph, inputs: list[Value | None], attrs: dict[str, Any], stem: str) -> Any:
    x, bias = inputs[:2]
    if bias is not None:
        x = graph.add("Add", [x, bias], name=f"{stem}/bias")
    return graph.add("Gelu", [x], name=stem, approximate="tanh")


def _quick_gelu(graph: Graph, inputs: list[Value | None], attrs: dict[str, Any], stem: str) -> Any:
    return graph.add("Swish", inputs[:1], name=stem, alpha=attrs.get("alpha", 1.702))


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
