"""From nodes to the pointwise body of a kernel: each operator's formula applied to loads, scalars and results."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from jitopt.errors import CompileError
from jitopt.ir.graph import Node, Value
from jitopt.lower.program import Float
from jitopt.lower.spec import Instruction, Scalar
from jitopt.ops import operator_of
from jitopt.ops.operator import Attrs, Kind

# Element types kernels load, store and compute with; operators on others are host steps.
KERNEL_DTYPES = frozenset({"float32", "int32", "int64", "bool", "uint8", "int8"})
_SCALAR_DTYPES = frozenset({"float32", "int32", "int64"})


class BodyBuilder:
    """Collects instructions; external values become loads in order of first use, one-element constants scalars."""

    def __init__(self) -> None:
        self.loads: list[tuple[str, Value]] = []
        self.scalars: list[Scalar] = []
        self.scalar_words: list[Any] = []
        self.instructions: list[Instruction] = []
        self._refs: dict[Value, str] = {}
        self._literals: dict[tuple[str, Any], str] = {}
        self._dtypes: dict[str, str] = {}

    def ref(self, value: Value) -> str:
        """The body's name for a value: a result, or a load or scalar made now."""
        found = self._refs.get(value)
        if found is None:
            found = self._external(value)
            self._refs[value] = found
        return found

    def _external(self, value: Value) -> str:
        array = value.constant
        if array is not None and array.size == 1 and value.dtype.name in _SCALAR_DTYPES:
            return self.literal(array.item(), value.dtype.name)
        name = f"x{len(self.loads)}"
        self.loads.append((name, value))
        self._dtypes[name] = value.dtype.name
        return name

    def literal(self, number: float | int, dtype: str) -> str:
        """A scalar argument of that value; equal ones are passed once."""
        key = (dtype, np.float32(number).tobytes() if dtype == "float32" else int(number))
        found = self._literals.get(key)
        if found is None:
            found = f"s{len(self.scalars)}"
            self._literals[key] = found
            self.scalars.append(Scalar(found, dtype))
            self.scalar_words.append(Float(float(number)) if dtype == "float32" else int(number))
            self._dtypes[found] = dtype
        return found

    def emit(self, formula: str, *args: str, dtype: str | None = None) -> str:
        """Append an instruction and return its result's name; the dtype is the first argument's unless given."""
        name = f"v{len(self.instructions)}"
        kind = dtype or self._dtypes[args[0]]
        self.instructions.append(Instruction(name, formula, args, kind))
        self._dtypes[name] = kind
        return name

    def dtype(self, name: str) -> str:
        return self._dtypes[name]

    def know(self, name: str, dtype: str) -> None:
        """Let instructions name something the template provides, such as the length of the folded axis."""
        self._dtypes[name] = dtype

    def define(self, value: Value, name: str) -> None:
        """Say which result a value is."""
        self._refs[value] = name

    def add_map(self, node: Node) -> None:
        """Append a MAP node."""
        operator = operator_of(node)
        attrs = operator.attrs(node)
        special = _SPECIAL.get(node.op)
        if special is not None:
            name = special(self, node, attrs)
        else:
            if operator.formula is None:
                raise CompileError(f"{node.op} declares no formula", node=node.name)
            args = [self.ref(v) for v in node.inputs if v is not None]
            args += [self.literal(getattr(attrs, s), "float32") for s in operator.scalars]
            name = self.emit(formula_name(operator.formula), *args, dtype=node.output.dtype.name)
        self.define(node.output, name)


def formula_name(dotted: str) -> str:
    """The function's own name; formulas live in jitopt_kernels.formulas."""
    return dotted.rpartition(".")[2]


def _fold(formula: str) -> Callable[[BodyBuilder, Node, Attrs], str]:
    def emit(b: BodyBuilder, node: Node, attrs: Attrs) -> str:
        refs = [b.ref(node.arg(i)) for i in range(len(node.inputs))]
        out = refs[0]
        for ref in refs[1:]:
            out = b.emit(formula, out, ref)
        return out

    return emit


def _mean(b: BodyBuilder, node: Node, attrs: Attrs) -> str:
    total = _fold("add")(b, node, attrs)
    return b.emit("div", total, b.literal(float(len(node.inputs)), "float32"))


def _clip(b: BodyBuilder, node: Node, attrs: Attrs) -> str:
    out = b.ref(node.arg(0))
    for index, formula in ((1, "maximum"), (2, "minimum")):
        bound = node.input(index)
        if bound is not None:
            out = b.emit(formula, out, b.ref(bound))
    return out


def _cast(b: BodyBuilder, node: Node, attrs: Attrs) -> str:
    target = node.output.dtype.name
    source = b.ref(node.arg(0))
    return source if b.dtype(source) == target else b.emit("cast", source, f'"{target}"', dtype=target)


def _gelu(b: BodyBuilder, node: Node, attrs: Attrs) -> str:
    kind = getattr(attrs, "approximate", "none")
    return b.emit({"none": "gelu_erf", "tanh": "gelu_tanh", "sigmoid": "gelu_sigmoid"}[kind], b.ref(node.arg(0)))


def _identity(b: BodyBuilder, node: Node, attrs: Attrs) -> str:
    return b.ref(node.arg(0))


def _mod(b: BodyBuilder, node: Node, attrs: Attrs) -> str:
    return b.emit("fmod" if attrs.fmod else "mod", b.ref(node.arg(0)), b.ref(node.arg(1)))


def _pow(b: BodyBuilder, node: Node, attrs: Attrs) -> str:
    return b.emit("pow", b.ref(node.arg(0)), b.ref(node.arg(1)), dtype=node.output.dtype.name)


_SPECIAL: dict[str, Callable[[BodyBuilder, Node, Attrs], str]] = {
    "Cast": _cast,
    "CastLike": _cast,
    "Clip": _clip,
    "Dropout": _identity,
    "Gelu": _gelu,
    "Identity": _identity,
    "Max": _fold("maximum"),
    "Mean": _mean,
    "Min": _fold("minimum"),
    "Mod": _mod,
    "Pow": _pow,
    "Sum": _fold("add"),
}


def has_body_form(node: Node) -> bool:
    """Whether `add_map` can compute the node: its operator names a formula, or has a form of its own here."""
    return node.op in _SPECIAL or operator_of(node).formula is not None


# Folds along spatial axes that make zero of zeros.
_ZERO_FOLDS = frozenset({
    "GlobalAveragePool", "GlobalMaxPool", "ReduceL1", "ReduceL2", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum",
    "ReduceSumSquare",
})  # fmt: skip


def zero_preserving(nodes: Iterable[Node], blocked: Callable[[Value], bool]) -> set[Value]:
    """Values among the nodes' outputs whose lanes beyond C are zero if the blocked operands' are.

    Decided by the references: with zeros for blocked operands and the constants for scalars. A fold makes zero of zeros
    only. A value that depends on anything else (another operand's lanes are not zero) counts as not preserving.
    """
    members = list(nodes)
    inside = set(members)
    known: dict[Value, np.ndarray[Any, Any]] = {}
    good: set[Value] = set()
    for node in members:
        operator = operator_of(node)
        if node.op in _ZERO_FOLDS:
            source = node.arg(0)
            if source in good or (blocked(source) and source not in known and source.producer not in inside):
                known[node.output] = np.zeros(1, node.output.dtype.numpy)
                good.add(node.output)
            continue
        if operator.kind is not Kind.MAP:
            continue
        arrays: list[Any] = []
        for value in node.inputs:
            if value is None:
                arrays.append(None)
            elif value in known:
                arrays.append(known[value])
            elif value.constant is not None and value.constant.size == 1:
                arrays.append(value.constant.reshape(1))
            elif blocked(value) and value.producer not in inside:
                arrays.append(np.zeros(1, value.dtype.numpy))
            else:
                break
        else:
            if operator.reference is None:
                continue
            with np.errstate(all="ignore"):
                out = np.asarray(operator.reference(operator.attrs(node), *arrays))
            known[node.output] = out.reshape(-1)[:1]
            if not out.reshape(-1)[0]:
                good.add(node.output)
    return good
