"""What templates see while they lower groups: where values live, and how to make constants, tables and steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from jitopt.errors import CompileError
from jitopt.ir.dims import Dim, product
from jitopt.ir.graph import Graph, Layout, Value
from jitopt.lower.loops import value_shape
from jitopt.lower.program import CONSTANT, POOL, TABLE, Address, Buffer, Step
from jitopt.lower.spec import KernelSpec
from jitopt.lower.tables import table_of

if TYPE_CHECKING:
    from jitopt_kernels.targets import Target

    from jitopt.lower.groups import Group

Array = np.ndarray[Any, Any]


class Context:
    """State of one lowering: the graph, the target and the addresses given out so far."""

    def __init__(self, graph: Graph, target: Target) -> None:
        self.graph, self.target = graph, target
        self.lanes = target.lanes
        self._addresses: dict[Value, Address] = {}
        self._packed: dict[Any, Buffer] = {}
        self._alive: list[Array] = []

    # where values live ------------------------------------------------------------------------------------------
    def address(self, value: Value) -> Address:
        """Address of a value: a constant is packed for its layout, known contents become a table, others a buffer."""
        found = self._addresses.get(value)
        if found is None:
            found = self._addresses[value] = self._place(value)
        return found

    def _place(self, value: Value) -> Address:
        if value.constant is not None:
            return Address(self.pack(value.constant, ("layout", str(value.layout)), lambda a: blocked(a, value.layout)))
        table = table_of(value)
        if table is not None:
            return Address(Buffer(value.name, TABLE, self.size(value), table=table, type=value.tensor))
        return Address(Buffer(value.name, POOL, self.size(value), type=value.tensor))

    def place(self, value: Value, address: Address) -> None:
        """Fix the address of a value, a view's for one. Raises CompileError if it has one already."""
        if value in self._addresses:
            raise CompileError(f"'{value.name}' is placed twice")
        self._addresses[value] = address

    def placed(self, value: Value) -> bool:
        return value in self._addresses

    @staticmethod
    def size(value: Value) -> Dim:
        """Bytes the value takes under its layout."""
        return product(value_shape(value)) * value.dtype.itemsize

    # constants and tables ---------------------------------------------------------------------------------------
    def pack(self, array: Array, key: Any, packing: Callable[[Array], Array]) -> Buffer:
        """A constant buffer holding `packing(array)`; the same array packed the same way is packed once."""
        full = (id(array), key)
        found = self._packed.get(full)
        if found is None:
            packed = np.ascontiguousarray(packing(array))
            found = Buffer(f"c{len(self._packed)}", CONSTANT, packed.nbytes, packed)
            self._alive.append(array)  # so that its id stays its own
            self._packed[full] = found
        return found

    # steps ------------------------------------------------------------------------------------------------------
    def step(
        self, spec: KernelSpec, args: Iterable[Any], reads: Iterable[Value], writes: Iterable[Value], group: Group, *,
        scratch: Dim = 0, phases: int = 1, work: Dim = 0,
    ) -> Step:  # fmt: skip
        """A step whose arguments fill the spec's words. Raises CompileError where their numbers differ."""
        words = tuple(args)
        if len(words) != len(spec.words):
            raise CompileError(f"{spec.template}: {len(words)} arguments for {len(spec.words)} words")
        extra = [a.buffer for a in words if isinstance(a, Address)]
        stores = list(dict.fromkeys(self.address(v).buffer for v in writes))
        loads = [b for b in dict.fromkeys([*(self.address(v).buffer for v in reads), *extra]) if b not in stores]
        loads += [self.address(v).buffer for v in reads if self.address(v).buffer in stores]
        nodes, ops = tuple(n.name for n in group.nodes), tuple(n.op for n in group.nodes)
        return Step(spec, words, tuple(loads), tuple(stores), nodes, ops, scratch, phases, work)


def blocked(array: Array, layout: Layout) -> Array:
    """A logical [N, C, spatial...] array in the given layout, lanes beyond C zero."""
    c = layout.block
    if not c:
        return array
    n, channels, *spatial = array.shape
    blocks = -(-channels // c)
    padded = np.zeros((n, blocks * c, *spatial), array.dtype)
    padded[:, :channels] = array
    split = padded.reshape(n, blocks, c, *spatial)
    return np.ascontiguousarray(np.moveaxis(split, 2, -1))
