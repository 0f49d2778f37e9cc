"""What is certain about the sign of a symbolic dimension, and the clamps of shape arithmetic that it decides.

A symbol may take any value >= 0, so an answer here holds for empty extents too: `larger(s, 0)` is s, while
`larger(s - 1, 0)` stays max(s - 1, 0). "Not provable" is an answer; nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, reduce

from jitopt.ir.dims import Atom, Dim, Expr, Monomial, _from_atom, dim_max, dim_min, product, select_eq

_DEPTH, _STEPS = 6, 64
FAR = 2**31 - 1  # an index at or beyond this stands for "to the end", whatever the extent


@lru_cache(maxsize=4096)
def nonnegative(d: Dim) -> bool:
    """d >= 0 for every value of its symbols, as far as this can tell; False where it cannot."""
    return _Search().nonnegative(d, _DEPTH)


def at_most(a: Dim, b: Dim) -> bool:
    """a <= b for certain."""
    return a is b or nonnegative(b - a)


def smaller(a: Dim, b: Dim) -> Dim:
    """min(a, b), decided where it is certain."""
    if at_most(a, b):
        return a
    return b if at_most(b, a) else dim_min(a, b)


def larger(a: Dim, b: Dim) -> Dim:
    """max(a, b), decided where it is certain."""
    if at_most(a, b):
        return b
    return a if at_most(b, a) else dim_max(a, b)


def clamp(d: Dim, low: Dim, high: Dim) -> Dim:
    """min(max(d, low), high); an index at or beyond FAR on either side goes straight to that bound."""
    if isinstance(d, int) and abs(d) >= FAR:
        return high if d > 0 else smaller(low, high)
    return smaller(larger(d, low), high)


def from_end(index: Dim, extent: Dim) -> Dim:
    """`index`, with `extent` added where it is negative (an index that counts from the end)."""
    if nonnegative(index) or (isinstance(index, int) and index <= -FAR):
        return index
    if nonnegative(-1 - index):
        return index + extent
    return select_eq(dim_min(index, 0), 0, index, index + extent)


def gap(low: Dim, high: Dim) -> Dim:
    """high - low; where `low` is a maximum, the least gap to its arguments: n - max(n - 1, 0) is min(n, 1)."""
    if isinstance(low, Expr) and len(low.terms) == 1:
        mono, coeff = low.terms[0]
        if coeff == 1 and len(mono) == 1 and mono[0].op == "max":
            gaps: list[Dim] = [high - a for a in mono[0].args]
            return reduce(smaller, gaps)
    return high - low


class _Search:
    """One search for a proof; it gives up after `_STEPS` expressions."""

    def __init__(self) -> None:
        self.steps = _STEPS

    def nonnegative(self, d: Dim, depth: int) -> bool:
        if isinstance(d, int):
            return d >= 0
        if all(c >= 0 and all(self._atom(a, depth) for a in mono) for mono, c in d.terms):
            return True
        self.steps -= 1
        return depth > 0 < self.steps and any(self._without(d, mono, c, depth - 1) for mono, c in d.terms if mono)

    def _atom(self, atom: Atom, depth: int) -> bool:
        if atom.op == "symbol":
            return True
        if depth == 0:
            return False
        signs = [self.nonnegative(a, depth - 1) for a in atom.args]
        if atom.op == "max":
            return any(signs)
        if atom.op == "mod":
            return signs[1]
        return all(signs[2:] if atom.op == "select_eq" else signs)

    def _without(self, d: Expr, mono: Monomial, coeff: int, depth: int) -> bool:
        """d >= 0 after one non-polynomial atom of the term coeff*mono gave way to a bound on the term's worse side."""
        for atom in dict.fromkeys(mono):
            rest = list(mono)
            rest.remove(atom)
            if atom.op == "symbol" or not all(self._atom(a, depth) for a in rest):
                continue
            factor = product([*map(_from_atom, rest), coeff])
            others = d - factor * _from_atom(atom)
            bounds, divisor, every = _bounds(atom, below=coeff > 0)
            # floor(a / k) stands between (a - k + 1) / k and a / k: the whole sum is scaled by k.
            tests = (self.nonnegative(others * divisor + factor * b, depth) for b in bounds)
            if bounds and (all(tests) if every else any(tests)):
                return True
        return False


def _bounds(atom: Atom, below: bool) -> tuple[Sequence[Dim], int, bool]:
    """Bounds of an atom from below (or above), the divisor they are over, and whether all must be tried, not any."""
    a, b = atom.args[0], atom.args[1]
    positive = isinstance(b, int) and b > 0
    if atom.op == "floordiv" and positive:
        return ([a - b + 1] if below else [a]), b, False
    if atom.op == "mod" and positive:
        return ([0] if below else [b - 1]), 1, False
    if atom.op == "min":
        return atom.args, 1, below
    if atom.op == "max":
        return atom.args, 1, not below
    if atom.op == "select_eq":
        return atom.args[2:], 1, True
    return (), 1, False
