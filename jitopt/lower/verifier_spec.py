"""What must hold of a kernel spec by itself, and which of its argument words are addresses."""

from __future__ import annotations

import re
from collections.abc import Iterator

from jitopt.errors import CompileError
from jitopt.ir.dtypes import BY_NAME
from jitopt.lower.epilogue import ACCUMULATOR
from jitopt.lower.spec import KernelSpec

# Names a template gives to its body beside loads and scalars; those not listed hand over an accumulator.
GIVEN: dict[str, tuple[str, ...]] = {"pointwise": (), "rows": ("length",)}
# Kernels that load and store by themselves name the words of operands x, y, a, b, w, indices, <piece>_src, <piece>_dst.
_OPERAND = re.compile(r"(x|y|a|b|w|indices)|\w+_(at|src|dst)")
_RESULT = re.compile(r"y|\w+_dst")
_INNER = ("unit", "splat", "strided", "column")


def is_address(word: str) -> bool:
    """Whether the argument word must hold the address of an operand."""
    return _OPERAND.fullmatch(word) is not None


def stored_words(spec: KernelSpec) -> Iterator[str]:
    """Words that address what the kernel writes."""
    yield from (f"{s.target.name}_at" for s in spec.body.stores)
    yield from (word for word in spec.words if _RESULT.fullmatch(word))


def verify_spec(spec: KernelSpec) -> None:
    """Check that words and names are unique, every operand and scalar has its word, and the body is in SSA form.

    Every instruction reads loads, scalars, what the template gives, results of earlier instructions or quoted
    literals; stores write such values. Raises CompileError.
    """
    if spec.lanes < 1 or spec.lanes & (spec.lanes - 1):
        raise _error(spec, f"{spec.lanes} lanes are no power of two")
    words = set(spec.words)
    if len(words) != len(spec.words):
        raise _error(spec, f"argument words repeat: {', '.join(spec.words)}")
    body = spec.body
    defined = dict.fromkeys(GIVEN.get(spec.template, (ACCUMULATOR,)), "given by the template")
    for operand in (*body.loads, *(s.target for s in body.stores)):
        _define(spec, defined, operand.name, operand.dtype)
        if f"{operand.name}_at" not in words:
            raise _error(spec, f"operand '{operand.name}' has no word '{operand.name}_at'")
        if operand.inner not in _INNER:
            raise _error(spec, f"operand '{operand.name}' is '{operand.inner}', not one of {', '.join(_INNER)}")
    for scalar in body.scalars:
        _define(spec, defined, scalar.name, scalar.dtype)
        if f"{scalar.name}_word" not in words:
            raise _error(spec, f"scalar '{scalar.name}' has no word '{scalar.name}_word'")
    targets = {s.target.name for s in body.stores}
    for i in body.instructions:
        for arg in i.args:
            if (arg not in defined and not arg.startswith('"')) or arg in targets:
                raise _error(spec, f"'{i}' reads '{arg}', which is not defined before it")
        if i.reduces and spec.template != "rows":
            raise _error(spec, f"'{i}' folds, which only the template rows can do")
        _define(spec, defined, i.result, i.dtype)
    for store in body.stores:
        if store.source not in defined or store.source in targets:
            raise _error(spec, f"'{store.target.name}' stores '{store.source}', which is not defined")


def _define(spec: KernelSpec, defined: dict[str, str], name: str, dtype: str) -> None:
    if name in defined:
        raise _error(spec, f"'{name}' is defined twice")
    if dtype not in BY_NAME:
        raise _error(spec, f"'{name}' has the unknown element type '{dtype}'")
    defined[name] = dtype


def _error(spec: KernelSpec, message: str) -> CompileError:
    return CompileError(f"kernel {spec.digest} ({spec.template}): {message}")
