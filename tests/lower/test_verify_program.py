"""What lowering makes verifies; a program with one thing wrong is refused, naming step, node and buffer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from jitopt.errors import CompileError
from jitopt.ir.dims import symbol
from jitopt.lower.program import HOST, OUTPUT, POOL, Address, Buffer, Float, Program, Region, Segment, Step
from jitopt.lower.spec import Body, Instruction, KernelSpec, Store
from jitopt.lower.tables import Table
from jitopt.lower.text import print_program, program_blobs
from jitopt.lower.text_parser import parse_program
from jitopt.lower.verifier import verify_program
from tests.golden.small import levels
from tests.lower.programs import branching, everything, lowered
from tests.runtime.test_host import around_a_host_step


@pytest.mark.parametrize("program", [
    lambda: levels("avx2").program, lambda: levels("avx512").program, everything,
    lambda: lowered(around_a_host_step()), lambda: lowered(branching()),
])  # fmt: skip
def test_sound_programs_verify(program: Callable[[], Program]) -> None:
    found = program()
    verify_program(found)
    verify_program(parse_program(print_program(found), program_blobs(found)))


def put(step: Step, word: str, arg: object) -> None:
    """Replace one argument."""
    at = step.spec.words.index(word)
    step.args = (*step.args[:at], arg, *step.args[at + 1 :])


def rebody(step: Step, **changes: tuple[object, ...]) -> None:
    """Replace parts of the kernel's body."""
    step.spec = replace(step.spec, body=replace(step.spec.body, **changes))


def buffers(step: Step, name: str) -> Buffer:
    return next(r.buffer for r in (*step.writes, *step.reads) if r.buffer.name == name)


Mutation = Callable[[Program, Step, Step], object]
"""What to change, given the program and its two steps: "pointwise" x, c0 -> pool x and "take" pool x -> y."""

MUTATIONS: dict[str, Mutation] = {
    "step 0 (pointwise, Add+com.microsoft.Mul): 8 arguments for 9 words":
        lambda p, a, b: setattr(a, "args", a.args[1:]),
    "argument 'x0_at' must be an address, it is 4": lambda p, a, b: put(a, "x0_at", 4),
    "argument 's0_word' of a float32 scalar is 7": lambda p, a, b: put(a, "s0_word", 7),
    "argument 's1_word' of a int64 scalar is Float(value=1.0)": lambda p, a, b: put(a, "s1_word", Float(1.0)),
    "scalar 's1_word' is given the address of 'c0'":
        lambda p, a, b: put(a, "s1_word", Address(buffers(a, "c0"))),
    "argument 'n0' is np.int64(3), neither a dimension nor an address": lambda p, a, b: put(a, "n0", np.int64(3)),
    "argument 'x0_at' addresses 'other', which it does not say it reads":
        lambda p, a, b: put(a, "x0_at", Address(Buffer("other", POOL, 4))),
    "stores to 'c0' by 'y0_at', but does not say it writes it":
        lambda p, a, b: put(a, "y0_at", Address(buffers(a, "c0"))),
    "argument 'x1_at' addresses byte 129 of 'c0', which has 128 bytes":
        lambda p, a, b: put(a, "x1_at", Address(buffers(a, "c0"), 129)),
    "argument 'x1_at' addresses byte -4 of 'c0'": lambda p, a, b: put(a, "x1_at", Address(buffers(a, "c0"), -4)),
    "step 0 (take, Pad): reads 'x' (pool), which nothing has written before":
        lambda p, a, b: p.parts[0].steps.pop(0),
    "reads 'x' (pool), which nothing has written before": lambda p, a, b: p.parts[0].steps.reverse(),
    "writes buffer 'c0', which is a constant":
        lambda p, a, b: setattr(a, "writes", (*a.writes, Region(buffers(a, "c0")))),
    "writes buffer 'window', which is a table":
        lambda p, a, b: setattr(b, "writes", (*b.writes, Region(buffers(b, "window")))),
    "writes buffer 'x', which is an input":
        lambda p, a, b: setattr(a, "writes", (*a.writes, Region(p.inputs[0].buffer))),
    "uses bytes 4 to 16*n + 8 of 'x', which has 16*n bytes":
        lambda p, a, b: setattr(a, "writes", (Region(buffers(a, "x"), 4, 20, symbol("n"), 16),)),
    "uses bytes -4 to 4 of 'y.0', which has 16*n bytes":
        lambda p, a, b: setattr(b, "writes", (Region(buffers(b, "y.0"), -4, 8),)),
    "the extent 'q' in q is not known yet":
        lambda p, a, b: setattr(b, "writes", (Region(buffers(b, "y.0"), symbol("q"), 8),)),
    "output 'y' is 'y.0' (output), which nothing has written before": lambda p, a, b: p.parts[0].steps.pop(1),
    "output 'y' lies in the pool": lambda p, a, b: setattr(p.outputs[0].buffer, "kind", POOL),
    "buffer 'y.0' is an output's, but no output carries it": lambda p, a, b: p.outputs.pop(0),
    "two outputs have the name 'late'": lambda p, a, b: setattr(p.outputs[0], "name", "late"),
    "input 'in put' lies in x pool 16*n bytes": lambda p, a, b: setattr(p.inputs[0].buffer, "kind", POOL),
    "the size of buffer 'x' is negative: -16*n - 1":
        lambda p, a, b: setattr(buffers(a, "x"), "size", -1 - 16 * symbol("n")),
    "the scratch is negative: -8": lambda p, a, b: setattr(a, "scratch", -8),
    "0 phases": lambda p, a, b: setattr(a, "phases", 0),
    "1 nodes of 2 operators": lambda p, a, b: setattr(a, "nodes", a.nodes[1:]),
    "the extent 'q' in 48*q is not known yet": lambda p, a, b: setattr(a, "work", symbol("q") * 48),
    "constant 'c0' holds 128 bytes, its size is 64": lambda p, a, b: setattr(buffers(a, "c0"), "size", 64),
    "buffer 'c0' is constant, but does not hold": lambda p, a, b: setattr(buffers(a, "c0"), "array", None),
    "table 'window' is of the unknown kind 'sieve'":
        lambda p, a, b: setattr(buffers(b, "window"), "table", Table("sieve", ())),
    "an argument of table 'window' is not known":
        lambda p, a, b: setattr(buffers(b, "window"), "table", Table("elements", ("int64", None))),
    "pool buffer 'x' is used by another segment, too":
        lambda p, a, b: p.parts.append(Segment([p.parts[0].steps.pop(1)])),
    "node 'if': host step: uses buffer 'x', which lies in the pool":
        lambda p, a, b: setattr(p.host_steps[0], "captures", (buffers(a, "x"),)),
    "buffers for the node's inputs, captures and outputs": lambda p, a, b: setattr(p.host_steps[0], "inputs", ()),
    "host step: reads 'late' (host), which nothing has written before":
        lambda p, a, b: setattr(p.host_steps[0], "captures", p.host_steps[0].outputs),
    "the node stands in a graph of 8 nodes":
        lambda p, a, b: setattr(p.host_steps[0], "node", levels("avx2").graph.node("relu")),
    # specs
    "'v9 = neg(v8)' reads 'v8', which is not defined before it":
        lambda p, a, b: rebody(a, instructions=(*a.spec.body.instructions, Instruction("v9", "neg", ("v8",), "bool"))),
    "'v0 = add(x0, x1)' reads 'x1'": lambda p, a, b: rebody(a, loads=a.spec.body.loads[:1]),
    "reads 'y0', which is not defined before it":
        lambda p, a, b: rebody(a, instructions=(*a.spec.body.instructions, Instruction("v9", "neg", ("y0",), "bool"))),
    "'v0' is defined twice":
        lambda p, a, b: rebody(a, instructions=(*a.spec.body.instructions, a.spec.body.instructions[0])),
    "folds, which only the template rows can do":
        lambda p, a, b: rebody(a, instructions=(Instruction("v0", "reduce_sum", ("x0",), "float32"),)),
    "'v9' has the unknown element type 'float31'":
        lambda p, a, b: rebody(a, instructions=(Instruction("v9", "neg", ("x0",), "float31"),)),
    "'y0' stores 'v7', which is not defined":
        lambda p, a, b: rebody(a, stores=(Store(a.spec.body.stores[0].target, "v7"),)),
    "operand 'y0' has no word 'y0_at'": lambda p, a, b: setattr(a, "spec", replace(a.spec, words=a.spec.words[:6])),
    "argument words repeat": lambda p, a, b: setattr(a, "spec", replace(a.spec, words=("n0",) * 9)),
    "24 lanes are no power of two": lambda p, a, b: setattr(a, "spec", replace(a.spec, lanes=24)),
}  # fmt: skip


@pytest.mark.parametrize("message", MUTATIONS)
def test_unsound_programs_are_refused(message: str) -> None:
    program = everything()
    first, second = program.steps
    MUTATIONS[message](program, first, second)
    with pytest.raises(CompileError) as caught:
        verify_program(program)
    assert message in str(caught.value) and caught.value.model == program.name


def test_errors_name_the_node() -> None:
    program = everything()
    put(program.steps[0], "s0_word", 7)
    with pytest.raises(CompileError) as caught:
        verify_program(program)
    assert caught.value.node == "add/a"


def test_unknown_templates_are_given_an_accumulator_and_their_results_are_known_by_name() -> None:
    x, y, z = Buffer("x", "input", 64), Buffer("y", OUTPUT, 64), Buffer("z", HOST, 64)
    spec = KernelSpec("new", 8, words=("x", "y"), body=Body())
    step = Step(spec, (Address(x), Address(z)), (Region(x), Region(z)), (Region(y),), ("a",), ("A",))
    empty = everything()
    program = Program("p", "avx2", empty.inputs, [], [Segment([step])], empty.metadata)
    program.inputs[0].buffer = x
    with pytest.raises(CompileError, match="stores to 'z' by 'y', but does not say it writes it"):
        verify_program(program)
