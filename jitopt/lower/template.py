"""Kernel templates: what a family of kernels can compute, and how a group of nodes becomes its spec and arguments."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from typing import TYPE_CHECKING, ClassVar

from jitopt.ir.graph import Node, Value
from jitopt.ir.types import TensorType
from jitopt.lower.body import KERNEL_DTYPES
from jitopt.ops import operator_of
from jitopt.ops.operator import Kind

if TYPE_CHECKING:
    from jitopt.lower.context import Context
    from jitopt.lower.groups import Group
    from jitopt.lower.program import Step


class Template(ABC):
    """One family of kernels. Subclasses register themselves under the operators they serve."""

    name: ClassVar[str]

    @abstractmethod
    def refuses(self, node: Node) -> str | None:
        """Why the template cannot compute this node, or None if it can."""

    def absorbs(self, group: Group, node: Node, where: str) -> bool:
        """Whether a pointwise node may join the group, `where` being "before" or "after" its anchor."""
        return False

    def looks_through(self, node: Node, transposes: Collection[Node]) -> bool:
        """Whether the kernel of `node` can read what these Transposes make where their inputs lie."""
        return False

    def stores_transposed(self, group: Group, node: Node) -> bool:
        """Whether the group's kernel can store its result as the Transpose `node` would."""
        return False

    def takes_images(self, group: Group, value: Value) -> bool:
        """Whether the group's kernel can read or write a value whose images (along the first axis) lie anyhow apart."""
        return False

    @abstractmethod
    def lower(self, group: Group, context: Context) -> list[Step]:
        """The steps that compute the group (one kernel, in all but exceptional cases)."""


_BY_OPERATOR: dict[str, list[Template]] = {}


def serve(template: Template, *operators: str) -> None:
    """Let `template` be asked for these operators, after those registered before it."""
    for name in operators:
        _BY_OPERATOR.setdefault(name, []).append(template)


def template_of(node: Node) -> Template | None:
    """The first template that can compute the node."""
    return next((t for t in _candidates(node) if t.refuses(node) is None), None)


def refusal_of(node: Node) -> str:
    """Why no template computes the node, for `explain()`."""
    reasons = [f"{t.name}: {t.refuses(node)}" for t in _candidates(node)]
    return "; ".join(reasons) if reasons else "no kernel template serves this operator"


def _candidates(node: Node) -> list[Template]:
    found = _BY_OPERATOR.get(node.op)
    if found is not None:
        return found
    return _BY_OPERATOR["*map"] if _is_map(node) else []


def _is_map(node: Node) -> bool:
    return operator_of(node).kind is Kind.MAP


def unusable(values: list[Value | None], dtypes: frozenset[str] = KERNEL_DTYPES) -> str | None:
    """Why some value cannot be an operand of a kernel: not a tensor, unknown rank, an element type without kernels."""
    for value in values:
        if value is None:
            continue
        if not isinstance(value.type, TensorType):
            return f"'{value.name}' is not a tensor"
        if value.type.shape is None:
            return f"the rank of '{value.name}' is unknown"
        if value.type.dtype.name not in dtypes:
            return f"'{value.name}' is {value.type.dtype}, kernels compute {', '.join(sorted(dtypes))}"
    return None
