"""Which algorithm computes a group: the template it was formed with, or a faster one that computes the same.

A faster algorithm is listed in ALGORITHMS under the name by which `disable=` turns it off. It may round differently,
so exact precision uses none of them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING

from jitopt.lower.template import Template

if TYPE_CHECKING:
    from jitopt_kernels.targets import Target

    from jitopt.lower.groups import Group


class Alternative(Template):
    """Another way to compute the groups of some template."""

    @abstractmethod
    def pays(self, group: Group, target: Target) -> bool:
        """Whether it can compute the group and is expected to be faster than the group's own template."""


ALGORITHMS: dict[str, Alternative] = {}


def offer(template: Alternative) -> None:
    """Let `template` be considered for every group."""
    ALGORITHMS[template.name] = template


def algorithm_of(group: Group, target: Target, allowed: Iterable[str]) -> Template:
    """The template that lowers the group: the first of the `allowed` algorithms that pays, else the group's own."""
    alternatives = (ALGORITHMS[name] for name in allowed)
    return next((t for t in alternatives if t.pays(group, target)), group.template)
