"""Child of test_session_random: random graphs, optimised and not, between protected pages, by Python kernels.

`python -m tests.random_runs FIRST LAST` with NUMBA_DISABLE_JIT=1; see tests/children.py.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from jitopt_kernels.targets import TARGETS

from jitopt.errors import JitoptError
from jitopt.ir.clone import clone
from jitopt.ir.graph import Graph
from jitopt.lower.groups import GROUPINGS
from jitopt.lower.program import Program
from jitopt.runtime.guard import GuardedArrays, GuardedMemory
from jitopt.verify import compare
from tests.interpreted import executor_of, install, lowered
from tests.mixed_graphs import mixed_graph
from tests.networks import reference
from tests.passes.random_graphs import random_choices

NODES = 14
TARGET_NAMES = ("avx2", "avx512", "x86-64-v2")
Feeds = dict[str, Any]


def other_extents(graph: Graph, feeds: Feeds, seed: int) -> list[Feeds]:
    """The feeds, and where extents are symbolic three more with others: more and fewer images, none."""
    found = [feeds]
    image = graph.inputs[0]
    if not isinstance(image.shape[0], int):
        rng = np.random.default_rng(seed)
        _, channels, height, width = feeds["image"].shape
        for images, higher, wider in ((3, 1, 2), (1, 3, 0), (0, 1, 1)):
            shape = (images, channels, height + higher, width + wider)
            other = {
                "image": rng.uniform(-2, 2, shape).astype(np.float32),
                "rows": rng.uniform(-2, 2, (images, 6)).astype(np.float32),
                "ints": rng.integers(-3, 4, (images, 5)),
            }
            found.append({**feeds, **other})
    return found


def guarded_runs(program: Program, feeds: list[Feeds], nthreads: int) -> list[Any]:
    """Results, or the error, of one session for each of the feeds."""
    memory, arrays = GuardedMemory(), GuardedArrays()
    executor = executor_of(program, nthreads, memory=memory)
    found: list[Any] = []
    for each in feeds:
        try:
            found.append(executor.run([arrays.copy(np.asarray(each[p.name])) for p in program.inputs], program.outputs))
        except JitoptError as error:
            found.append(error)
    memory.check()
    arrays.check()
    return found


def check(seed: int) -> str:
    """What is wrong with the graph of this seed, nothing if all is right."""
    graph, first = mixed_graph(random_choices(seed), NODES)
    feeds = other_extents(graph, first, seed)
    expected: list[Any] = []
    for each in feeds:
        try:
            expected.append(reference(graph, each))
        except JitoptError as error:
            expected.append(error)
    target = TARGETS[TARGET_NAMES[seed % 3]]
    runs = {}
    for label, precision, groupings in (
        ("default", "default", GROUPINGS), ("exact", "exact", GROUPINGS), ("unfused", "exact", ()),
        ("unoptimised", None, ()),
    ):  # fmt: skip
        program = lowered(clone(graph), precision, groupings, target)
        runs[label] = guarded_runs(program, feeds, 1 + seed % 3)
        for extents, (found, right) in enumerate(zip(runs[label], expected, strict=True)):
            if isinstance(right, JitoptError):
                continue  # some operators' references refuse empty tensors
            if isinstance(found, JitoptError):
                return f"{label}, extents {extents}: {found}"
            for array, (name, wanted) in zip(found, right.items(), strict=True):
                verdict = compare(array, wanted)
                if not verdict:
                    return f"{label}, extents {extents}: {name}: {verdict.reason}"
    for fused, unfused in zip(runs["exact"], runs["unfused"], strict=True):
        if not isinstance(fused, JitoptError) and [a.tobytes() for a in fused] != [a.tobytes() for a in unfused]:
            return "fused and unfused differ in exact mode"
    return ""


def main(first: int, last: int) -> None:
    install()
    for seed in range(first, last):
        print("case", seed, flush=True)
        try:
            wrong = check(seed)
        except Exception as error:
            wrong = f"{type(error).__name__}: {error}".replace("\n", " ")
        if wrong:
            print("failed", seed, wrong, flush=True)
    print("done", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
