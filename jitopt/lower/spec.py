"""Kernel specs: what a kernel is, as plain hashable data that prints.

A spec says which template, which constants are compiled in, which operands it loads and stores and how they lie in
its loops, the pointwise body between them, and the table of its argument words. Two groups with equal specs share one
compiled kernel; extents, outer strides, addresses and scalars are argument words, so shapes are not part of a spec.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

Constant = int | float | str | bool | tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Operand:
    """One tensor a body loads or stores.

    `inner` says how it varies along the vectorised axis: "unit" (contiguous), "splat" (constant) or "strided" (by a
    run-time stride, which may be 0). `along` is for reductions: whether it varies along the reduced axis.
    """

    name: str
    dtype: str
    inner: str = "unit"
    along: bool = True

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype} {self.inner}" + ("" if self.along else " per row")


@dataclass(frozen=True, slots=True)
class Instruction:
    """`result = formula(args)`; args are names of operands, scalars or earlier results, or literals in quotes.

    `dtype` is the result's element type. Formulas named "reduce_..." fold along the reduced axis.
    """

    result: str
    formula: str
    args: tuple[str, ...]
    dtype: str

    @property
    def reduces(self) -> bool:
        return self.formula.startswith("reduce_")

    def __str__(self) -> str:
        return f"{self.result} = {self.formula}({', '.join(self.args)})"


@dataclass(frozen=True, slots=True)
class Store:
    """Write body value `source` to the operand `target`."""

    target: Operand
    source: str


@dataclass(frozen=True, slots=True)
class Scalar:
    """A run-time scalar: float32 bits or an integer in one argument word."""

    name: str
    dtype: str


@dataclass(frozen=True, slots=True)
class Body:
    """The pointwise part of a kernel: loads, scalars, instructions in order, stores."""

    loads: tuple[Operand, ...] = ()
    scalars: tuple[Scalar, ...] = ()
    instructions: tuple[Instruction, ...] = ()
    stores: tuple[Store, ...] = ()

    def __str__(self) -> str:
        lines = [f"load {o}" for o in self.loads] + [f"scalar {s.name}: {s.dtype}" for s in self.scalars]
        lines += [str(i) for i in self.instructions]
        return "\n".join(lines + [f"store {s.target} = {s.source}" for s in self.stores])


@dataclass(frozen=True, slots=True)
class KernelSpec:
    """One kernel: template, compiled-in constants, body and the names of its argument words from word 4 on."""

    template: str
    lanes: int
    constants: tuple[tuple[str, Constant], ...] = ()
    body: Body = field(default_factory=Body)
    words: tuple[str, ...] = ()

    def constant(self, name: str) -> Any:
        """A compiled-in constant by name. Raises KeyError."""
        return dict(self.constants)[name]

    def __str__(self) -> str:
        constants = ", ".join(f"{k}={v!r}" for k, v in self.constants)
        body = "".join(f"\n  {line}" for line in str(self.body).splitlines())
        return f"{self.template}<{self.lanes}>({constants})\n  words {' '.join(self.words)}{body}"

    @property
    def digest(self) -> str:
        """Sixteen hex digits that name the spec."""
        return sha256(str(self).encode()).hexdigest()[:16]


FIRST_WORD = 4  # words 0-3: status address, scratch address, scratch bytes a thread, phase


def table(constants: Mapping[str, Any]) -> tuple[tuple[str, Constant], ...]:
    """Constants as a spec stores them."""
    return tuple(sorted(constants.items()))


def unique(names: Iterable[str]) -> tuple[str, ...]:
    """The names, which must differ. Raises ValueError."""
    out = tuple(names)
    if len(set(out)) != len(out):
        raise ValueError(f"argument words repeat: {out}")
    return out
