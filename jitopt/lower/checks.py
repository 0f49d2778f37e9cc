"""What must hold of the extents that feeds bring, so that kernels compiled for any extents stay inside their buffers.

Shape rules compare extents while a model is read. Where two of them are symbolic they note a demand instead; here those
demands, and that no extent is negative, become the checks of a program, evaluated whenever it meets new shapes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from jitopt.errors import JitoptError, ShapeError
from jitopt.ir.bounds import nonnegative
from jitopt.ir.dims import Dim, Environment, symbols
from jitopt.ir.graph import Graph, Node, Value
from jitopt.ir.types import TensorType
from jitopt.ops.registry import operator_of
from jitopt.ops.rules import RELATIONS, collect_demands


@dataclass(frozen=True, slots=True)
class Check:
    """Dims a and b must stand in `relation`, one of `jitopt.ops.rules.RELATIONS`; `node` and `what` say who asks."""

    relation: str
    a: Dim
    b: Dim
    node: str
    what: str

    def holds(self, environment: Environment) -> bool:
        """Raises KeyError where a symbol has no value yet, ZeroDivisionError where an expression divides by 0."""
        return RELATIONS[self.relation](environment(self.a), environment(self.b))


def checks_of(graph: Graph) -> list[Check]:
    """The checks of a graph whose types are inferred, each once."""
    found: dict[tuple[str, Dim, Dim], Check] = {}
    for node in graph:
        for check in _of_node(node):
            found.setdefault((check.relation, check.a, check.b), check)
    return list(found.values())


def _of_node(node: Node) -> Iterator[Check]:
    operator = operator_of(node)
    with collect_demands() as demands:
        try:
            operator.infer(node, operator.attrs(node))
        except JitoptError:
            if _ranked(node):
                raise
    for relation, a, b, what in demands:
        yield Check(relation, a, b, node.name, what)
    for value in node.outputs:
        shape = value.type.shape if isinstance(value.type, TensorType) else None
        for axis, dim in enumerate(shape or ()):
            if not nonnegative(dim):
                yield Check("at least", dim, 0, node.name, f"axis {axis} of '{value.name}' would have extent {dim}")


def extents_follow(node: Node) -> bool:
    """Whether the extents of the node's outputs follow from what is known of its operands before it runs."""
    if all(v is None or v.constant is not None or v.content is not None or not _whole(v) for v in node.inputs):
        return True
    operator = operator_of(node)
    try:
        types = operator.infer(node, operator.attrs(node))
    except JitoptError:  # of an operand whose rank is unknown
        return False
    for value, type in zip(node.outputs, types, strict=False):
        fresh = f"?{value.name}_"
        if isinstance(type, TensorType) and any(
            d is None or any(name.startswith(fresh) for name in symbols(d)) for d in type.shape or ()
        ):
            return False
    return True


def _whole(value: Value) -> bool:
    return isinstance(value.type, TensorType) and value.type.dtype.name == "int64"


def _ranked(node: Node) -> bool:
    types = [v.type for v in node.operands if v is not None]
    return all(isinstance(t, TensorType) and t.shape is not None for t in types)


def verify_extents(checks: Iterable[Check], environment: Environment, model: str) -> None:
    """Evaluate the checks whose symbols have values. Raises ShapeError, naming the node, for one that does not hold."""
    for check in checks:
        try:
            if check.holds(environment):
                continue
        except KeyError:
            continue  # an extent that a host step will tell
        except ZeroDivisionError:
            raise ShapeError(
                f"{check.what}: an expression divides by an extent of 0{_values(check, environment)}",
                model=model, node=check.node,
            ) from None  # fmt: skip
        raise ShapeError(f"{check.what}{_values(check, environment)}", model=model, node=check.node)


def _values(check: Check, environment: Environment) -> str:
    names = sorted(n for n in {*symbols(check.a), *symbols(check.b)} if n in environment.values)
    return f", with {', '.join(f'{n} = {environment.values[n]}' for n in names)}" if names else ""
