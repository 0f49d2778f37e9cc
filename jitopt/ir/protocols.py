"""What the IR's own tools ask of the operator table, which lives above them in `jitopt.ops`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from jitopt.ir.dtypes import DType
from jitopt.ir.graph import Node


class ParamLike(Protocol):
    """One formal input or output."""

    @property
    def name(self) -> str: ...
    @property
    def dtypes(self) -> frozenset[DType]: ...
    @property
    def type_var(self) -> str: ...
    @property
    def optional(self) -> bool: ...
    @property
    def variadic(self) -> bool: ...


class AttrsLike(Protocol):
    """Checked attributes; what the interpreter fills in for control flow."""

    run: Callable[..., list[Any]] | None
    captures: Sequence[Any]


class OperatorLike(Protocol):
    """One operator's declaration."""

    @property
    def name(self) -> str: ...
    @property
    def inputs(self) -> Sequence[ParamLike]: ...
    @property
    def outputs(self) -> Sequence[ParamLike]: ...
    @property
    def reference(self) -> Callable[..., Any] | None: ...
    def attrs(self, node: Node, /) -> Any: ...


Lookup = Callable[[str], "OperatorLike | None"]
