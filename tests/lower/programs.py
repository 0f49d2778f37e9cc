"""Programs the tests of text and verifier share."""

from __future__ import annotations

import numpy as np
from jitopt_kernels.targets import TARGETS

from jitopt.ir.clone import clone, isolate
from jitopt.ir.dims import floor_div, select_eq, symbol
from jitopt.ir.graph import Graph, Metadata
from jitopt.ir.types import tensor
from jitopt.lower.checks import Check
from jitopt.lower.layout import assign_layouts
from jitopt.lower.lowering import lower
from jitopt.lower.program import (
    CONSTANT,
    HOST,
    INPUT,
    OUTPUT,
    POOL,
    TABLE,
    Address,
    Buffer,
    Float,
    HostStep,
    Port,
    Program,
    Region,
    Segment,
    Step,
)  # fmt: skip
from jitopt.lower.spec import Body, Instruction, KernelSpec, Operand, Scalar, Store, table
from jitopt.lower.tables import Table
from jitopt.passes.infer import infer


def lowered(graph: Graph, target: str = "avx2") -> Program:
    """The program of a copy of the graph, unoptimised."""
    graph = clone(graph)
    infer(graph)
    assign_layouts(graph, TARGETS[target].lanes)
    infer(graph)
    return lower(graph, TARGETS[target])


def branching() -> Graph:
    """An If with a capture and an absent operand in a host step."""
    graph = Graph("branching")
    flag, x = graph.input("flag", "bool", ()), graph.input("x", "float32", (symbol("n"), 4))
    doubled = graph.add("Add", [x, x], name="double")
    branches = {}
    for name, op in (("then_branch", "Neg"), ("else_branch", "Abs")):
        inner = Graph(name)
        inner.captures.append(inner.value("v", doubled.type))
        inner.output(inner.add(op, [inner.captures[0]], name=op))
        branches[name] = inner
    chosen = graph.add("If", [flag], captures=[doubled], name="if", **branches)
    graph.output(graph.add("Relu", [chosen], name="relu"), "y")
    return graph


def everything() -> Program:
    """A program made by hand with one of each form that text can take; it verifies, but computes nothing useful."""
    n, odd = symbol("n"), symbol("ids[0]")
    rows = tensor("float32", (n, 4))
    x = Buffer("x", INPUT, n * 16, type=rows)
    odds = Buffer("ids", INPUT, 8 * odd, type=tensor("int64", (odd,)))  # read by nobody; binds a symbol of an odd name
    twice = Buffer("x", POOL, n * 16, type=rows)  # the name a second time
    weights = Buffer("c0", CONSTANT, 128, np.arange(32, dtype=np.float32).reshape(4, 8))
    few = Buffer("c0", CONSTANT, 3, np.array([True, False, True]))
    ints = Buffer("shape", TABLE, 16, table=Table("elements", ("int64", odd + 1, -3)), type=tensor("int64", (2,)))
    odd_table = Buffer("window", TABLE, n * 8, table=Table("window", ("reflect", n, n, odd, 4)))
    y = Buffer("y.0", OUTPUT, n * 16, type=rows)
    late = Buffer("late", HOST, select_eq(n, 1, 16, n * 16), type=rows)
    unit = Operand("x0", "float32")
    body = Body(
        (unit, Operand("x1", "float32", "splat", along=False)),
        (Scalar("s0", "float32"), Scalar("s1", "int64")),
        (
            Instruction("v0", "add", ("x0", "x1"), "float32"),
            Instruction("v1", "cast", ("s1", '"float32"'), "float32"),
            Instruction("v2", "fma_of", ("v0", "s0", "v1"), "float32"),
        ),
        (Store(Operand("y0", "float32"), "v2"), Store(Operand("y1", "float32", "strided"), "v0")),
    )
    constants = {"flag": True, "rate": -0.5, "sizes": (1, (2, "two"), ()), "kind": "a b", "axes": 1, "off": False}
    words = ("n0", "x0_at", "x1_at", "x1_0", "s0_word", "s1_word", "y0_at", "y1_at", "y1_inner")
    pointwise = KernelSpec("pointwise", 8, table(constants), body, words)
    take = KernelSpec("take", 16, table({"axes": 1}), words=("x", "y", "fill", "t0", "n0"))
    mask = few  # read as bytes
    first = Step(
        pointwise,
        (n, Address(x), Address(weights, 4), -floor_div(n, 2), Float(-np.inf), -7, Address(twice),
         Address(twice, n * 16 - 16), 4),
        (Region(x), Region(weights), Region(mask)), (Region(twice, 0, n * 12), Region(twice, n * 12, n * 4)),
        ("add/a", "mul b"), ("Add", "com.microsoft.Mul"), 64 * n, 2, n * 48,
    )  # fmt: skip
    second = Step(
        take, (Address(twice, -4 + 4 * odd), Address(y), -1, Address(odd_table), n),
        (Region(twice, 0, 8, n, 16), Region(odd_table)), (Region(y),), ("pad",), ("Pad",), work=n,
    )  # fmt: skip
    graph = branching()
    infer(graph)
    host = HostStep(isolate(graph.node("if")).nodes[0], (None,), (x,), (late,), "a reason")
    metadata = Metadata(producer_name="hand", version=3, custom={"key": "a value"})
    parts: list[Segment | HostStep] = [Segment([first, second]), host]
    ports = [Port("y", rows, y), Port("late", rows, late), Port("shape", tensor("int64", (2,)), ints)]
    program = Program(
        "every thing", "avx2", [Port("in put", rows, x), Port("ids", odds.type, odds)], ports, parts, metadata
    )
    program.checks.append(Check("at least", n - 2, 0, "add/a", 'it needs "two"'))
    return program
