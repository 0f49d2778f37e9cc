"""Symbolic dimensions: integer polynomials over symbols and quotients, in canonical form and hash-consed.

A `Dim` is an int or an `Expr`. Two expressions that are equal as polynomials are the same object, so `is` and `==`
agree, and a shape comparison needs no prover. Atoms of the polynomials are symbols and the non-polynomial operations
(floor division, modulo, min, max, select); a symbol stands for an extent or for an integer the shape arithmetic
reads, and may take any value >= 0 unless an operation says otherwise.

    n, s = symbol("n"), symbol("s")
    (n * s * 384) // (n * 384)  ->  s            (exact division of monomials; extents are assumed non-zero)
    str((s + 1) // 2)           ->  "(s + 1) // 2"
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Union

Dim = Union[int, "Expr"]
Shape = tuple[Dim, ...]
Monomial = tuple["Atom", ...]
Terms = tuple[tuple[Monomial, int], ...]


class Atom:
    """A symbol, or an operation that polynomials cannot express; hash-consed through `_atom`."""

    __slots__ = ("args", "key", "op")

    def __init__(self, op: str, args: tuple[Any, ...], key: str) -> None:
        self.op, self.args, self.key = op, args, key

    def __repr__(self) -> str:
        return self.key


_ATOMS: dict[tuple[str, tuple[Any, ...]], Atom] = {}
_EXPRS: dict[Terms, Expr] = {}


def _atom(op: str, *args: Any) -> Atom:
    found = _ATOMS.get((op, args))
    if found is None:
        found = _ATOMS.setdefault((op, args), Atom(op, args, _ATOM_TEXT[op](*args)))
    return found


def _wrap(d: Dim) -> str:
    text = str(d)
    return f"({text})" if " " in text else text


_ATOM_TEXT: dict[str, Any] = {
    "symbol": lambda name: name,
    "floordiv": lambda a, b: f"({_wrap(a)} // {_wrap(b)})",
    "mod": lambda a, b: f"({_wrap(a)} % {_wrap(b)})",
    "min": lambda *xs: f"min({', '.join(map(str, xs))})",
    "max": lambda *xs: f"max({', '.join(map(str, xs))})",
    "select_eq": lambda a, b, x, y: f"select_eq({a}, {b}, {x}, {y})",
}


class Expr:
    """A non-constant polynomial with integer coefficients; build with `symbol` and the operators."""

    __slots__ = ("__weakref__", "terms", "text")

    def __init__(self, terms: Terms) -> None:
        self.terms, self.text = terms, _text(terms)

    def __repr__(self) -> str:
        return self.text

    __str__ = __repr__

    def __add__(self, other: Dim) -> Dim:
        return _sum(self, other, 1)

    __radd__ = __add__

    def __sub__(self, other: Dim) -> Dim:
        return _sum(self, other, -1)

    def __rsub__(self, other: int) -> Dim:
        return _sum(other, self, -1)

    def __neg__(self) -> Dim:
        return self * -1

    def __mul__(self, other: Dim) -> Dim:
        out: dict[Monomial, int] = {}
        for mono, coeff in self.terms:
            for mono2, coeff2 in _terms(other):
                product = tuple(sorted(mono + mono2, key=_by_key))
                out[product] = out.get(product, 0) + coeff * coeff2
        return _build(out)

    __rmul__ = __mul__

    def __floordiv__(self, other: Dim) -> Dim:
        return floor_div(self, other)

    def __rfloordiv__(self, other: int) -> Dim:
        return floor_div(other, self)

    def __mod__(self, other: Dim) -> Dim:
        return modulo(self, other)

    def __rmod__(self, other: int) -> Dim:
        return modulo(other, self)

    def __bool__(self) -> bool:
        raise TypeError(f"the symbolic dimension {self} has no truth value; compare with `is` or `==`")

    def __int__(self) -> int:
        raise TypeError(f"the dimension {self} is symbolic")


def _by_key(atom: Atom) -> str:
    return atom.key


def _terms(d: Dim) -> Terms:
    if isinstance(d, Expr):
        return d.terms
    return (((), int(d)),) if d else ()


def _build(out: Mapping[Monomial, int]) -> Dim:
    kept = [(m, c) for m, c in out.items() if c]
    if not kept:
        return 0
    if len(kept) == 1 and not kept[0][0]:
        return kept[0][1]
    terms = tuple(sorted(kept, key=lambda t: (-len(t[0]), tuple(a.key for a in t[0]))))
    found = _EXPRS.get(terms)
    return found if found is not None else _EXPRS.setdefault(terms, Expr(terms))


def _sum(a: Dim, b: Dim, sign: int) -> Dim:
    out = dict(_terms(a))
    for mono, coeff in _terms(b):
        out[mono] = out.get(mono, 0) + sign * coeff
    return _build(out)


def _text(terms: Terms) -> str:
    text = ""
    for mono, coeff in terms:
        factors = [a.key for a in mono]
        if not mono or abs(coeff) != 1:
            factors.insert(0, str(abs(coeff)))
        sign = (" - " if coeff < 0 else " + ") if text else ("-" if coeff < 0 else "")
        text += sign + "*".join(factors)
    return text


def _from_atom(atom: Atom) -> Expr:
    built = _build({(atom,): 1})
    assert isinstance(built, Expr)
    return built


def symbol(name: str) -> Expr:
    """The symbol of that name; the same name is the same symbol everywhere."""
    return _from_atom(_atom("symbol", name))


def _exact_quotient(a: Dim, b: Dim) -> Dim | None:
    """a / b if every term of a is divisible by the single term b, else None."""
    divisor = _terms(b)
    if len(divisor) != 1:
        return 1 if a is b else None
    mono_b, coeff_b = divisor[0]
    out: dict[Monomial, int] = {}
    for mono, coeff in _terms(a):
        rest = list(mono)
        for atom in mono_b:
            if atom not in rest:
                return None
            rest.remove(atom)
        if coeff % coeff_b:
            return None
        out[tuple(rest)] = coeff // coeff_b
    return _build(out)


def floor_div(a: Dim, b: Dim) -> Dim:
    """floor(a / b); b must not be zero."""
    if isinstance(a, int) and isinstance(b, int):
        return a // b
    exact = _exact_quotient(a, b)
    if exact is not None:
        return exact
    if isinstance(b, int) and isinstance(a, Expr):
        # floor((q*b + r) / b) = q + floor(r / b): take out the terms that b divides.
        whole = {m: c // b for m, c in a.terms if c % b == 0}
        rest = _build({m: c for m, c in a.terms if c % b})
        if whole:
            return _sum(_build(whole), floor_div(rest, b), 1)
    return _from_atom(_atom("floordiv", a, b))


def ceil_div(a: Dim, b: Dim) -> Dim:
    """ceil(a / b)."""
    return floor_div(_sum(_sum(a, b, 1), 1, -1), b)


def modulo(a: Dim, b: Dim) -> Dim:
    """a mod b with the sign of b."""
    if isinstance(a, int) and isinstance(b, int):
        return a % b
    if _exact_quotient(a, b) is not None:
        return 0
    return _from_atom(_atom("mod", a, b))


def _extremum(op: str, pick: Any, values: Iterable[Dim]) -> Dim:
    flat = list(dict.fromkeys(values))
    ints = [v for v in flat if isinstance(v, int)]
    exprs: list[Dim] = sorted((v for v in flat if not isinstance(v, int)), key=str)
    if not exprs:
        return int(pick(ints))
    args = exprs + ([pick(ints)] if ints else [])
    return args[0] if len(args) == 1 else _from_atom(_atom(op, *args))


def dim_min(*values: Dim) -> Dim:
    return _extremum("min", min, values)


def dim_max(*values: Dim) -> Dim:
    return _extremum("max", max, values)


def select_eq(a: Dim, b: Dim, then: Dim, otherwise: Dim) -> Dim:
    """`then` where a == b, else `otherwise`; decided now where that can be."""
    if a is b or (isinstance(a, int) and isinstance(b, int)):
        return then if a == b else otherwise
    return then if then is otherwise else _from_atom(_atom("select_eq", a, b, then, otherwise))


def product(dims: Iterable[Dim]) -> Dim:
    """The product, 1 for none."""
    out: Dim = 1
    for d in dims:
        out = out * d
    return out


def symbols(d: Dim) -> set[str]:
    """Names of all symbols the expression reads."""
    found: set[str] = set()
    stack: list[Any] = [d]
    while stack:
        item = stack.pop()
        if isinstance(item, Expr):
            stack.extend(atom for mono, _ in item.terms for atom in mono)
        elif isinstance(item, Atom):
            if item.op == "symbol":
                found.add(item.args[0])
            else:
                stack.extend(item.args)
    return found


_EVALUATE: dict[str, Any] = {
    "floordiv": lambda a, b: a // b,
    "mod": lambda a, b: a % b,
    "min": min,
    "max": max,
    "select_eq": lambda a, b, x, y: x if a == b else y,
}


class Environment:
    """Evaluates expressions for given symbol values, each expression once."""

    def __init__(self, values: Mapping[str, int]) -> None:
        self.values = dict(values)
        self._memo: dict[Any, int] = {}

    def __call__(self, d: Dim) -> int:
        """Value of `d`. Raises KeyError naming the symbol that has no value."""
        if isinstance(d, int):
            return d
        memo = self._memo.get(d)
        if memo is None:
            memo = 0
            for mono, coeff in d.terms:
                for atom in mono:
                    coeff *= self._atom(atom)
                memo += coeff
            self._memo[d] = memo
        return memo

    def _atom(self, atom: Atom) -> int:
        memo = self._memo.get(atom)
        if memo is None:
            is_symbol = atom.op == "symbol"
            memo = self.values[atom.args[0]] if is_symbol else int(_EVALUATE[atom.op](*map(self, atom.args)))
            self._memo[atom] = memo
        return memo

    def shape(self, dims: Iterable[Dim]) -> tuple[int, ...]:
        return tuple(map(self, dims))


def substitute(d: Dim, values: Mapping[str, Dim]) -> Dim:
    """`d` with symbols replaced, simplified again."""
    if isinstance(d, int):
        return d
    rebuild = {
        "floordiv": floor_div, "mod": modulo, "min": dim_min, "max": dim_max, "select_eq": select_eq,
    }  # fmt: skip
    total: Dim = 0
    for mono, coeff in d.terms:
        term: Dim = coeff
        for atom in mono:
            if atom.op == "symbol":
                factor = values.get(atom.args[0], _from_atom(atom))
            else:
                factor = rebuild[atom.op](*(substitute(a, values) for a in atom.args))  # type: ignore[operator]
            term = term * factor
        total = total + term
    return total
