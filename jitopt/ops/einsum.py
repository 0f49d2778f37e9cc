"""Einsum: sums of products by index letters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jitopt.errors import ModelError
from jitopt.ir.dims import Dim, Shape
from jitopt.ir.graph import Node
from jitopt.ops import cases
from jitopt.ops.operator import Array, Attribute, Attrs, Kind, Param, Sample
from jitopt.ops.rules import broadcast, broadcast_dims, require, shape_of, show
from jitopt.ops.signature import NUMERIC, declare


@dataclass(frozen=True)
class Equation:
    """The index letters of every operand and of the result; "." stands for an ellipsis."""

    terms: tuple[str, ...]
    result: str


def parse(text: str) -> Equation:
    """The equation with an implicit result spelled out. Raises ModelError for one that is malformed."""
    left, arrow, right = text.replace(" ", "").replace("...", ".").partition("->")
    terms = tuple(left.split(","))
    for term in (*terms, right):
        if term.count(".") > 1 or not all(c == "." or (c.isascii() and c.isalpha()) for c in term):
            raise ModelError(f"the equation {text!r} is malformed")
    letters = "".join(terms)
    if arrow:
        missing = [c for c in right if c not in letters and c != "."]
        if missing or len(set(right)) != len(right):
            raise ModelError(f"the result of equation {text!r} must name indices of the operands, each once")
    else:
        right = ("." if "." in letters else "") + "".join(sorted(c for c in set(letters) if letters.count(c) == 1))
        right = right if right.count(".") < 2 else "." + right.replace(".", "")
    return Equation(terms, right)


def _rule(node: Node, attrs: Attrs) -> Sequence[Shape]:
    equation = parse(attrs.equation)
    if len(equation.terms) != len(node.inputs):
        raise ModelError(f"the equation names {len(equation.terms)} operands, {len(node.inputs)} are given")
    extents: dict[str, Dim] = {}
    rest: Shape = ()
    for index, term in enumerate(equation.terms):
        shape = shape_of(node, index)
        letters = len(term) - term.count(".")
        fits = len(shape) >= letters if "." in term else len(shape) == letters
        require(fits, f"operand {index} of shape {show(shape)} does not match '{term.replace('.', '...')}'")
        before = term.index(".") if "." in term else letters
        after = letters - before
        rest = broadcast(rest, shape[before : len(shape) - after]) if "." in term else rest
        dims = [*shape[:before], *shape[len(shape) - after :]] if after else list(shape[:before])
        for letter, dim in zip(term.replace(".", ""), dims, strict=True):
            extents[letter] = broadcast_dims(extents[letter], dim) if letter in extents else dim
    out: list[Dim] = []
    for letter in equation.result:
        out += rest if letter == "." else [extents[letter]]
    return [tuple(out)]


def _einsum(attrs: Attrs, *arrays: Array) -> Array:
    return np.asarray(np.einsum(attrs.equation.replace(" ", ""), *arrays, optimize=len(arrays) > 1))


def _samples() -> list[Sample]:
    def of(equation: str, *shapes: tuple[int, ...]) -> Sample:
        return cases.sample(*(cases.floats(*s, seed=i) for i, s in enumerate(shapes)), equation=equation)

    whole: list[Any] = [cases.ints(3, 5), cases.ints(5, 2, seed=1)]
    return [
        of("ij,jk->ik", (3, 5), (5, 4)),
        of("bhqd, bhkd -> bhqk", (2, 3, 4, 5), (2, 3, 6, 5)),
        of("...ij,...jk->...ik", (2, 1, 3, 5), (1, 4, 5, 2)),
        of("ij->ji", (3, 5)),
        of("ii->i", (4, 4)),
        of("ij->", (3, 5)),
        of("ij,jk", (3, 5), (5, 4)),
        of("i,j->ij", (3,), (4,)),
        of("btgi,gih->btgh", (2, 3, 4, 5), (4, 5, 6)),
        of("bij,jk,kl->bil", (2, 3, 4), (4, 5), (5, 6)),
        cases.sample(*whole, equation="ij,jk->ik"),
    ]


declare(
    "Einsum", Kind.CONTRACT, (Param("Inputs", NUMERIC, variadic=True),), (Param("Output", NUMERIC),), _rule, _einsum,
    since=(12, 28), attributes={"equation": Attribute("string", required=True)}, samples=_samples,
)  # fmt: skip
