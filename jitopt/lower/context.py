"""What templates see while they lower groups: where values live, and how to make constants, tables and steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from jitopt.errors import CompileError
from jitopt.ir.dims import Dim, product
from jitopt.ir.graph import Graph, Layout, Value
from jitopt.lower.homes import Home
from jitopt.lower.loops import Strides, placed_strides, value_shape
from jitopt.lower.program import CONSTANT, POOL, TABLE, Address, Buffer, Region, Step
from jitopt.lower.spec import KernelSpec
from jitopt.lower.tables import table_of

if TYPE_CHECKING:
    from jitopt_kernels.targets import Target

    from jitopt.lower.groups import Group

Array = np.ndarray[Any, Any]


class Context:
    """State of one lowering: the graph, the target and the places given out so far.

    `homes` says which values live inside others.
    """

    def __init__(self, graph: Graph, target: Target, homes: Mapping[Value, Home] | None = None) -> None:
        self.graph, self.target = graph, target
        self.lanes = target.lanes
        self._homes = homes or {}
        self._regions: dict[Value, Region] = {}
        self._packed: dict[Any, Buffer] = {}
        self._alive: list[Array] = []

    # where values live ------------------------------------------------------------------------------------------
    def address(self, value: Value) -> Address:
        """Where a value begins."""
        region = self.region(value)
        return Address(region.buffer, region.offset)

    def region(self, value: Value) -> Region:
        """The bytes of a value: a constant is packed for its layout, known contents become a table, others a buffer or
        a part of another's."""
        found = self._regions.get(value)
        if found is None:
            found = self._regions[value] = self._place(value)
        return found

    def _place(self, value: Value) -> Region:
        home = self._homes.get(value)
        if home is not None:
            return self.inside(home, value)
        if value.constant is not None:
            return Region(self.pack(value.constant, ("layout", str(value.layout)), lambda a: blocked(a, value.layout)))
        table = table_of(value)
        if table is not None:
            return Region(Buffer(value.name, TABLE, self.size(value), table=table, type=value.tensor))
        return Region(Buffer(value.name, POOL, self.size(value), type=value.tensor))

    def inside(self, home: Home, value: Value) -> Region:
        """The bytes of a value as large as this one in that place."""
        address = self.address(home.within)
        offset = address.offset + self.offset(home.within, home.axis, home.first)
        if not home.apart:
            return Region(address.buffer, offset, self.size(value))
        one = product(value_shape(value)[1:]) * value.dtype.itemsize
        return Region(address.buffer, offset, one, value.shape[0], self.image_bytes(home.within))

    def home(self, value: Value | None) -> Home | None:
        """Where the value lives, if that is inside another."""
        return None if value is None else self._homes.get(value)

    def place(self, value: Value, buffer: Buffer) -> None:
        """Give a value a buffer of its own. Raises CompileError if it has a place already."""
        self._fix(value, Region(buffer))

    def alias(self, view: Value, source: Value) -> None:
        """Let a view lie where its source does. Raises CompileError if it has a place already."""
        self._fix(view, self.region(source))

    def _fix(self, value: Value, region: Region) -> None:
        if value in self._regions:
            raise CompileError(f"'{value.name}' is placed twice")
        self._regions[value] = region

    def placed(self, value: Value) -> bool:
        return value in self._regions

    def image(self, value: Value) -> Dim | None:
        """Elements from one image (along the first axis) to the next, None where they follow one another."""
        home = self._homes.get(value)
        return self.region(value).stride // value.dtype.itemsize if home is not None and home.apart else None

    def strides(self, value: Value) -> Strides:
        """Strides in elements of the value as it lies in memory."""
        return placed_strides(value_shape(value), self.image(value))

    def offset(self, value: Value, axis: int, first: Dim) -> Dim:
        """Bytes from the start of a value to its position `first` along an axis of memory, where the value lies."""
        return first * self.strides(value)[axis] * value.dtype.itemsize

    def image_bytes(self, value: Value) -> Dim:
        """Bytes from one image of the value to the next."""
        return self.strides(value)[0] * value.dtype.itemsize

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
        self, spec: KernelSpec, args: Iterable[Any], reads: Iterable[Value], writes: Iterable[Value | Region],
        group: Group, *, scratch: Dim = 0, phases: int = 1, work: Dim = 0,
    ) -> Step:  # fmt: skip
        """A step whose arguments fill the spec's words. Raises CompileError where their numbers differ."""
        words = tuple(args)
        if len(words) != len(spec.words):
            raise CompileError(f"{spec.template}: {len(words)} arguments for {len(spec.words)} words")
        stores = list(dict.fromkeys(v if isinstance(v, Region) else self.region(v) for v in writes))
        loads = list(dict.fromkeys(self.region(v) for v in reads))
        named = {r.buffer for r in (*stores, *loads)}
        extra = [a.buffer for a in words if isinstance(a, Address) and a.buffer not in named]
        loads += map(Region, dict.fromkeys(extra))
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
