"""Patterns: commutative operands, products in any association, names, attributes, inner readers."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from jitopt.ir.graph import Graph, Value
from jitopt.passes import infer
from jitopt.passes.base import Refusal
from jitopt.passes.patterns import Any, Constant, Match, OneOf, Op, Product, Scalar, match

X, Y = Any("x"), Any("y")


class G:
    def __init__(self) -> None:
        self.graph = Graph("g")
        self.a, self.b = (self.graph.input(n, "float32", (2, 3)) for n in "ab")

    def __call__(self, op: str, *inputs: Value | float, **attrs: object) -> Value:
        values = [v if isinstance(v, Value) else self.graph.constant(np.array(v, np.float32)) for v in inputs]
        value = self.graph.add(op, values, **attrs)
        infer(self.graph)
        return value


def found(pattern: object, value: Value) -> Match:
    assert value.producer is not None
    result = match(pattern, value.producer)  # type: ignore[arg-type]
    assert isinstance(result, Match), result
    return result


def missed(pattern: object, value: Value) -> bool:
    assert value.producer is not None
    return match(pattern, value.producer) is None  # type: ignore[arg-type]


def test_operands_commute_where_the_operator_does() -> None:
    g = G()
    pattern = Op("Add", X, Op("Exp", Y))
    for value in (g("Add", g.a, g("Exp", g.b)), g("Add", g("Exp", g.b), g.a)):
        assert found(pattern, value)["x"] is g.a
    assert missed(Op("Sub", X, Op("Exp", Y)), g("Sub", g("Exp", g.b), g.a))


def test_one_name_is_one_value() -> None:
    g = G()
    assert found(Op("Mul", X, Op("Sigmoid", X)), g("Mul", g("Sigmoid", g.a), g.a))["x"] is g.a
    assert missed(Op("Mul", X, Op("Sigmoid", X)), g("Mul", g("Sigmoid", g.a), g.b))
    assert found(Op("Mul", X, X), g("Mul", g.a, g.a))["x"] is g.a


def test_backtracking_over_commutative_operands() -> None:
    g = G()
    value = g("Add", g("Mul", g.a, g.b), g("Exp", g.b))
    assert found(Op("Add", Op("Exp", X), Op("Mul", X, Y)), value)["y"] is g.a


def test_attributes_and_operators() -> None:
    g = G()
    value = g("LeakyRelu", g.a, alpha=0.25)
    assert found(Op("LeakyRelu", X, alpha=0.25), value)
    assert missed(Op("LeakyRelu", X, alpha=0.3), value)
    assert found(Op(("Relu", "LeakyRelu"), X, name="y"), value)["y"] is value
    assert missed(Op("Relu", X), value)


def test_constants() -> None:
    g = G()
    assert found(Op("Add", X, Scalar(1.0)), g("Add", 1.0, g.a))
    assert found(Op("Add", X, Scalar(1.0)), g("Add", g.a, 1.000001))
    assert missed(Op("Add", X, Scalar(1.0)), g("Add", g.a, 1.001))
    assert found(Op("Add", X, Scalar(name="c")), g("Add", g.a, 7.0))["c"].constant == 7
    several = g("Add", g.a, g.graph.constant(np.ones(3, np.float32)))
    assert missed(Op("Add", X, Scalar(1.0)), several)
    assert found(Op("Add", X, Constant("c")), several)["c"].constant.size == 3


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
@pytest.mark.parametrize("left", [True, False])
def test_products_in_every_association(order: tuple[int, ...], left: bool) -> None:
    g = G()
    factors = [g.a, g("Exp", g.b), 0.5]
    a, b, c = (factors[i] for i in order)
    value = g("Mul", g("Mul", a, b), c) if left else g("Mul", a, g("Mul", b, c))
    result = found(Product(X, Op("Exp", Y), scale=0.5), value)
    assert (result["x"], result["y"]) == (g.a, g.b)


def test_products_with_divisions_and_scales() -> None:
    g = G()
    value = g("Div", g("Mul", g("Mul", 3.0, g.a), g("Exp", g.b)), 6.0)
    assert found(Product(X, Op("Exp", Y), scale=0.5), value)
    assert missed(Product(X, Op("Exp", Y)), value)
    value = g("Div", g("Mul", g("Mul", 3.0, g("Abs", g.a)), g("Exp", g.b)), 6.0)
    assert found(Product(Op("Abs", X), Op("Exp", Y), scale=None, scale_name="s"), value).numbers["s"] == 0.5
    assert missed(Product(X, scale=None, scale_name="s"), g("Exp", g.a))


def test_a_factor_may_be_a_product_itself() -> None:
    g = G()
    x = g("Mul", g.a, g.b)
    assert found(Product(X, Op("Sigmoid", X)), g("Mul", x, g("Sigmoid", x)))["x"] is x


def test_alternatives() -> None:
    g = G()
    square = OneOf((Op("Mul", X, X), Op("Pow", X, Scalar(2.0))))
    assert found(square, g("Mul", g.a, g.a))["x"] is g.a
    assert found(square, g("Pow", g.a, 2.0))["x"] is g.a
    assert missed(square, g("Pow", g.a, 3.0))


def test_inner_readers_refuse() -> None:
    g = G()
    e = g("Exp", g.a)
    value = g("Add", e, g.b)
    pattern = Op("Add", Op("Exp", X), Y)
    assert isinstance(match(pattern, value.producer), Match)
    g("Neg", e)
    assert isinstance(match(pattern, value.producer), Refusal)


def test_an_inner_graph_output_refuses_and_a_bound_one_does_not() -> None:
    g = G()
    e = g("Exp", g.a)
    value = g("Add", e, g.b)
    g.graph.output(e)
    assert isinstance(match(Op("Add", Op("Exp", X), Y), value.producer), Refusal)
    assert isinstance(match(Op("Add", X, Y), value.producer), Match)


def test_absent_and_further_operands() -> None:
    g = G()
    clip = g.graph.add("Clip", [g.a, None, g.graph.constant(6.0)])
    infer(g.graph)
    assert missed(Op("Clip", X, Scalar(6.0)), clip)
    assert missed(Op("Clip", X), g("Clip", g.a, 0.0, 6.0))
