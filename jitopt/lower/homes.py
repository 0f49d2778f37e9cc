"""Values that live inside others: parts of a Concat, and what Split and Slice take out.

Where the outer axes allow it, a Concat is no work: each part's kernel stores into its range of the result's buffer. In
the blocked layout that needs parts that begin at whole blocks of channels; in any layout the parts lie in one piece if
the axes before the concatenated one have extent 1, else image for image, which their kernels must be able to step over
(`Template.takes_images`). Concats of concats compose. A part that cannot be placed is copied, the others are not.
Taking a Split or a Slice apart is the same the other way round.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from jitopt.ir.dims import Dim, product
from jitopt.ir.graph import Graph, Node, Value
from jitopt.lower.groups import Group
from jitopt.lower.loops import value_shape
from jitopt.lower.tables import table_of
from jitopt.lower.windows import joined_axis, parts_of, windows_of


@dataclass(frozen=True, slots=True)
class Home:
    """A value lies within another, from position `first` along `axis` on: in one piece, or `apart`, image for image.

    Positions are those of `jitopt.lower.windows`.
    """

    within: Value
    axis: int
    first: Dim
    apart: bool


def find_homes(graph: Graph, order: Iterable[Group | Node], aside: Collection[Node]) -> dict[Value, Home]:
    """Homes for parts of Concats and results of Splits and Slices, where that is possible.

    `order` are the groups and host nodes in the order they run, `aside` the nodes that nothing runs for; views and
    transposes among them are read where their input lies.
    """
    return _Finder(graph, order, aside).run()


class _Finder:
    def __init__(self, graph: Graph, order: Iterable[Group | Node], aside: Collection[Node]) -> None:
        self.graph, self.aside = graph, aside
        self.groups: dict[Node, Group] = {}
        self.segment: dict[Group, int] = {}  # groups between the same host steps have the same number
        self.homes: dict[Value, Home] = {}
        self.guests: dict[Value, list[Value]] = {}
        segment = 0
        for unit in order:
            if isinstance(unit, Group):
                self.segment[unit] = segment
                self.groups.update(dict.fromkeys(unit.nodes, unit))
            elif unit not in aside:
                segment += 1

    def run(self) -> dict[Value, Home]:
        for group in self.segment:
            if group.anchor.op == "Concat":
                self._concat(group)
            elif group.anchor.op in ("Split", "Slice"):
                self._windows(group.anchor)
        return self.homes

    def _concat(self, group: Group) -> None:
        target = group.anchor.output
        axis = joined_axis(group.anchor)
        apart = self._apart(target, axis)
        if apart is None:
            return
        for part, first in parts_of(group.anchor):
            if self._placeable(part, group, apart):
                self._settle(part, Home(target, axis, first, apart))

    def _windows(self, node: Node) -> None:
        source = node.arg(0)
        if source.constant is not None or table_of(source) is not None:
            return
        for value, axis, first in windows_of(node):
            apart = self._apart(source, axis)
            if apart is None or (self._scattered(source) and not apart):
                continue
            if not self.graph.is_output(value) and self._reachable(value, apart):
                self._settle(value, Home(source, axis, first, apart))

    def _settle(self, value: Value, home: Home) -> None:
        self.homes[value] = home
        self.guests.setdefault(home.within, []).append(value)

    # conditions -------------------------------------------------------------------------------------------------
    @staticmethod
    def _apart(whole: Value, axis: int) -> bool | None:
        """Whether a window along `axis` lies image for image; None where it lies in more pieces than that."""
        outer = product(value_shape(whole)[:axis])
        if outer == 1:
            return False
        return True if axis == 1 else None

    def _scattered(self, value: Value) -> bool:
        """Whether the value lies in more than one piece."""
        home = self.homes.get(value)
        return home is not None and (home.apart or self._scattered(home.within))

    def _placeable(self, part: Value, concat: Group, apart: bool) -> bool:
        """Whether the part's kernel can store into the result of the Concat, and its readers read it there."""
        writer = self.groups.get(part.producer) if part.producer is not None else None
        if writer is None or part in self.homes or self.segment[writer] != self.segment[concat]:
            return False
        target = concat.anchor.output
        if part.layout != target.layout or part.dtype != target.dtype or self.graph.is_output(part):
            return False
        if apart and not (writer.template.takes_images(writer, part) and all(map(self._follows, self._inside(part)))):
            return False
        return self._reachable(part, apart)

    def _inside(self, value: Value) -> Iterator[Value]:
        """What lives inside the value, at any depth."""
        for guest in self.guests.get(value, ()):
            yield guest
            yield from self._inside(guest)

    def _follows(self, guest: Value) -> bool:
        """Whether the guest stays where it is in its host if the host's images move apart."""
        return self.homes[guest].apart

    def _reachable(self, value: Value, apart: bool) -> bool:
        """Whether all readers are kernels (a host step and the caller want an array of its own) that can read it."""
        for user, _ in value.uses:
            group = self.groups.get(user)
            if group is not None:
                if apart and not group.template.takes_images(group, value):
                    return False
            elif user not in self.aside or not all(self._looked_through(v, apart) for v in user.outputs):
                return False
        return True

    def _looked_through(self, view: Value, apart: bool) -> bool:
        """Whether a view of a value, which lies where that does, stays right; one that depends on shapes only does."""
        whole = not apart and not self.graph.is_output(view) and self._reachable(view, apart)
        return whole or table_of(view) is not None
