"""Subgraphs that run once, or once an element: If, SequenceMap.

A subgraph's inputs are typed, and its inside inferred, before the rules here run (`jitopt.passes.infer_bodies`); they
read the types of its outputs. References evaluate subgraphs through `attrs.run(graph, inputs, captures)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jitopt.errors import ModelError
from jitopt.ir.graph import Graph, Node
from jitopt.ir.types import SequenceType, Type
from jitopt.ops.contents import known
from jitopt.ops.joins import leaving, typed, union
from jitopt.ops.operator import ANY, Array, Attribute, Attrs, Kind, Operator, Param
from jitopt.ops.registry import register
from jitopt.ops.signature import BOOLS

SUBGRAPH_SINCE = (11, 13, 16, 19, 21, 23, 24, 25)


# If -----------------------------------------------------------------------------------------------------------------
def _if_infer(node: Node, attrs: Attrs) -> Sequence[Type]:
    branches: tuple[Graph, ...] = (attrs.then_branch, attrs.else_branch)
    for branch in branches:
        if branch.inputs or len(branch.outputs) != len(node.outputs):
            found = f"{len(branch.inputs)} inputs and {len(branch.outputs)} outputs"
            raise ModelError(f"a branch of If has {found} where If has {len(node.outputs)}", node=node.name)
    decided = known(node.arg(0))
    if decided is not None and decided.size == 1 and isinstance(decided.flat[0], (bool, int)):
        branches = (branches[0 if decided.flat[0] else 1],)
    columns = zip(*(leaving(node, branch) for branch in branches), strict=True)
    return [typed(node, i, union(node, i, types)) for i, types in enumerate(columns)]


def _if(attrs: Attrs, condition: Array) -> tuple[Any, ...]:
    assert attrs.run is not None
    branch = attrs.then_branch if bool(np.ravel(condition)[0]) else attrs.else_branch
    return tuple(attrs.run(branch, [], attrs.captures))


register(
    Operator(
        "If", Kind.OPAQUE, (Param("cond", BOOLS, "B"),), (Param("outputs", ANY, "", variadic=True),), _if_infer, _if,
        attributes={name: Attribute("graph", required=True) for name in ("then_branch", "else_branch")},
        since=(1, *SUBGRAPH_SINCE),
    )
)  # fmt: skip


# SequenceMap --------------------------------------------------------------------------------------------------------
def _map_infer(node: Node, attrs: Attrs) -> Sequence[Type]:
    found = leaving(node, attrs.body)
    return [SequenceType(typed(node, i, type)) for i, type in enumerate(found)]


def _map(attrs: Attrs, sequence: list[Any], *more: Any) -> tuple[Any, ...]:
    assert attrs.run is not None
    turns = []
    for i, element in enumerate(sequence):
        others = [m[i] if isinstance(m, list) else m for m in more]
        turns.append(attrs.run(attrs.body, [element, *others], attrs.captures))
    return tuple([t[i] for t in turns] for i in range(len(attrs.body.outputs)))


register(
    Operator(
        "SequenceMap", Kind.OPAQUE,
        (Param("input_sequence", ANY, "S"), Param("additional_inputs", ANY, "", variadic=True)),
        (Param("out_sequence", ANY, "S", variadic=True),), _map_infer, _map,
        attributes={"body": Attribute("graph", required=True)}, since=(17,),
    )
)  # fmt: skip
