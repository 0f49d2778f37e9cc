"""Names to values: what a graph's nodes see, what a subgraph captures, what an inlined function's body sees."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from jitopt.errors import ModelError, UnsupportedOperator
from jitopt.ir.graph import Graph, Value
from jitopt.ir.storage import element_type
from jitopt.ir.types import TensorType, Type


class Scope:
    """The names visible in one graph, or in one inlined function body.

    A graph's scope sees its parent's names: a value found there becomes a capture, a constant found there a constant
    of this graph that shares the array (so constants are never captured). A function's body sees only its own names;
    it shares `graph` with its call. Value names are unique over all graphs of a model (`taken`), because a value's
    name stands in the symbols of its unknown extents. `arguments` are the attributes a function was called with, each
    with the scope its subgraphs belong to.
    """

    def __init__(
        self, graph: Graph, opsets: Mapping[str, int], taken: dict[str, int], *,
        parent: Scope | None = None, prefix: str = "",
        arguments: Mapping[str, tuple[Any, Scope]] | None = None,
    ) -> None:  # fmt: skip
        self.graph, self.opsets, self.taken, self.parent, self.prefix = graph, opsets, taken, parent, prefix
        self.arguments: Mapping[str, tuple[Any, Scope]] = arguments or {}
        if arguments is None and parent is not None:
            self.arguments = parent.arguments
        self.captures: dict[Value, Value] = {}  # outer value to the value that stands for it here
        self._values: dict[str, Value | None] = {}

    def define(self, name: str, value: Value | None = None) -> Value:
        """A new name, for `value` or for a fresh one. Raises ModelError where it is empty or already defined."""
        if not name:
            raise ModelError(f"graph '{self.graph.name}' defines a value without a name")
        if name in self._values:
            raise ModelError(f"value '{name}' is defined twice")
        if value is None:
            value = self.graph.value(unique(f"{self.prefix}{name}", self.taken))
        self._values[name] = value
        return value

    def bind(self, name: str, value: Value | None) -> None:
        """A function's formal input; None where the call leaves it out."""
        if name in self._values:
            raise ModelError(f"the function names its input '{name}' twice")
        self._values[name] = value

    def defined(self, name: str) -> bool:
        """Whether the name is this scope's own, not an outer one."""
        return name in self._values

    def find(self, name: str) -> Value | None:
        """The value; None for the empty name and for an input a function's caller left out.

        Raises ModelError for a name nobody defines.
        """
        if not name:
            return None
        if name not in self._values:
            outer = self._outer(name)
            self._values[name] = None if outer is None else self._take(outer)
        return self._values[name]

    def _outer(self, name: str) -> Value | None:
        if self.parent is None:
            raise ModelError(f"value '{name}' is used, but nothing defines it")
        return self.parent.find(name)

    def _take(self, outer: Value) -> Value:
        if outer.constant is not None:
            return make_constant(self.graph.value(outer.name), outer.constant)
        return self.capture(outer)

    def capture(self, outer: Value) -> Value:
        """The value of this graph that stands for a value of the graph around it."""
        if outer not in self.captures:
            self.captures[outer] = self.graph.value(outer.name, outer.type)
        return self.captures[outer]

    def argument(self, name: str) -> tuple[Any, Scope] | None:
        """The attribute the enclosing function was called with, and the scope its subgraphs read."""
        found = self.arguments.get(name)
        if found is not None and found[0].HasField("g") and found[1].graph is not self.graph:
            raise UnsupportedOperator(f"a subgraph passed as attribute '{name}' is used inside another subgraph")
        return found


def unique(stem: str, taken: dict[str, int]) -> str:
    """`stem` the first time, then stem_1, stem_2, ..., never one that is taken."""
    name = stem
    while name in taken:
        taken[stem] += 1
        name = f"{stem}_{taken[stem]}"
    taken[name] = 0
    return name


def make_constant(value: Value, array: np.ndarray[Any, Any]) -> Value:
    """Make `value` a constant holding `array`. Raises ModelError where the file declares another type for it."""
    found = TensorType(element_type(array), tuple(array.shape))
    check_declared(value.name, value.type, found)
    value.constant, value.type = array, found
    return value


def check_declared(name: str, declared: Type | None, found: TensorType) -> None:
    """A constant against a declaration: dtype and rank must agree; declared extents may be out of date."""
    if declared is None:
        return
    if not isinstance(declared, TensorType) or declared.dtype is not found.dtype:
        raise ModelError(f"constant '{name}' is {found}, but declared as {declared}")
    if declared.shape is not None and declared.rank != found.rank:
        raise ModelError(f"constant '{name}' is {found}, but declared as {declared}")
