"""Programs read back from their text, run as before, and malformed text is refused with its place."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest
from jitopt_kernels.targets import TARGETS

from jitopt.codegen.cache import Cache
from jitopt.codegen.compiler import KernelSource, compile_kernels
from jitopt.codegen.host import choose_target
from jitopt.codegen.loader import KernelLibrary
from jitopt.codegen.templates import render
from jitopt.errors import JitoptError, ModelError
from jitopt.ir.dtypes import dtype_of
from jitopt.ir.graph import Graph, Value
from jitopt.lower.program import Float, Program
from jitopt.lower.text import buffer_labels, print_program, program_blobs
from jitopt.lower.text_parser import parse_program
from jitopt.lower.verifier import verify_program
from jitopt.ops import operators
from jitopt.runtime.executor import Executor
from tests.golden.small import levels
from tests.lower.programs import branching, everything, lowered
from tests.runtime.test_host import around_a_host_step

PROGRAMS: dict[str, Callable[[], Program]] = {
    "small": lambda: levels("avx2").program,
    "small-avx512": lambda: levels("avx512").program,
    "around": lambda: lowered(around_a_host_step()),
    "branching": lambda: lowered(branching()),
    "everything": everything,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_read_back(name: str) -> None:
    program = PROGRAMS[name]()
    text, arrays = print_program(program), program_blobs(program)
    again = parse_program(text, arrays)
    assert print_program(again) == text
    assert program_blobs(again).keys() == arrays.keys()
    assert again.specs == program.specs
    assert [s.digest for s in again.specs] == [s.digest for s in program.specs]  # 1 is not True here
    assert [b.size for b in buffer_labels(again)] == [b.size for b in buffer_labels(program)]
    assert again.metadata == program.metadata
    assert again.checks == program.checks


def test_the_program_of_every_operator_reads_back() -> None:
    """Each operator's first sample, its first input fed and the others constant."""
    count = 0
    for operator in operators():
        if operator.reference is None:
            continue
        sample = next(iter(operator.samples()), None)
        arrays = () if sample is None else sample.inputs
        if sample is None or any(isinstance(a, list) or np.asarray(a).dtype == object for a in arrays if a is not None):
            continue
        graph = Graph("one")
        inputs: list[Value | None] = []
        for index, array in enumerate(arrays):
            if array is None or index:
                inputs.append(None if array is None else graph.constant(np.asarray(array)))
            else:
                inputs.append(graph.input("x", dtype_of(np.asarray(array).dtype), np.asarray(array).shape))
        made = graph.add(operator.name, inputs, outputs=sample.outputs, name="node", **sample.attrs)
        graph.outputs.extend(made if isinstance(made, tuple) else (made,))
        try:
            program = lowered(graph)
        except JitoptError:
            continue  # a sample of an older form, which upgrades turn into this one
        again = parse_program(print_program(program), program_blobs(program))
        assert print_program(again) == print_program(program) and again.specs == program.specs, operator.name
        verify_program(again)
        count += 1
    assert count > 100


@pytest.mark.parametrize("name", ["small", "around", "branching"])
def test_parsed_programs_run_as_the_printed_ones(name: str) -> None:
    target = choose_target()
    program = levels(target.name).program if name == "small" else lowered(
        {"around": around_a_host_step, "branching": branching}[name](), target.name
    )  # fmt: skip
    again = parse_program(print_program(program), program_blobs(program))
    sources = {spec: KernelSource.of(render(spec), TARGETS[target.name]) for spec in again.specs}
    compiled = compile_kernels(list(sources.values()), target, cache=Cache.default())
    rng = np.random.default_rng(1)
    feeds = {
        "small": [rng.standard_normal((2, 3, 8, 8), np.float32)],
        "around": [rng.standard_normal((2, 12, 6, 6), np.float32)],
        "branching": [np.array(False), rng.standard_normal((3, 4), np.float32)],
    }[name]
    with KernelLibrary(target) as library:
        addresses = {spec: library.add(s.key, compiled[s.key].object) for spec, s in sources.items()}
        expected = Executor(program, addresses, 1).run(feeds, program.outputs)
        found = Executor(again, addresses, 1).run(feeds, again.outputs)
    for a, b in zip(found, expected, strict=True):
        assert np.abs(b).max() > 0
        np.testing.assert_array_equal(a, b)


def test_buffers_of_one_name_are_told_apart() -> None:
    labels = list(buffer_labels(everything()).values())
    assert labels[:5] == ["x", "ids", "c0", "c0_1", "x_1"] and len(set(labels)) == len(labels)


@pytest.mark.parametrize("value", [0.1, -0.0, 1e-45, 3e38, np.inf, np.nan])
def test_floats_keep_their_bits(value: float) -> None:
    program = everything()
    (step,) = (s for s in program.steps if s.phases > 1)
    at = step.spec.words.index("s0_word")
    step.args = (*step.args[:at], Float(value), *step.args[at + 1 :])
    again = parse_program(print_program(program), program_blobs(program))
    assert again.steps[0].args[at].bits == Float(value).bits


HEAD = 'program "p" for "avx2" {\n  buffer %x: input, 16 bytes, float32[4]\n  '
KERNEL = HEAD + "kernel k0: to_blocked, 8 lanes {\n    words (x, y)\n  }\n  segment { step k0 nodes (@a Reorder) "


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1, column 1: expected 'program', found the end of the text"),
        ('program "p" {', "line 1, column 13: expected 'for', found '{'"),
        ('program "p" for "avx2" {} }', "line 1, column 27: unexpected '}' after the program"),
        (
            HEAD + "%y",
            "line 3, column 3: expected buffer, input, output, check, kernel, segment, host or '}', found '%y'",
        ),
        (HEAD + "buffer %x: pool, 4 bytes", "line 3, column 10: buffer 'x' is defined twice"),
        (HEAD + "buffer %y: heap, 4 bytes", "line 3, column 14: unknown kind of buffer 'heap', it is one of pool"),
        (HEAD + "buffer %y: pool, 4 bits", "line 3, column 22: expected 'bytes', found 'bits'"),
        (HEAD + "buffer %y: pool, 4 bytes, seq(float32[1])", "line 3, column 29: buffer 'y' holds a tensor"),
        (HEAD + "buffer %y: constant, float32[2] = [1.0]", "line 3, column 37: 1 elements for shape [2]"),
        (HEAD + 'buffer %y: constant, float32[99] = blob "sha256:0"', "constant 'y' is the array sha256:0, which"),
        (HEAD + "buffer %y: table, 8 bytes", "line 3, column 28: expected '=', found the end"),
        (HEAD + "buffer %y: table, 8 bytes = sieve(7)", "line 3, column 31: unknown kind of table 'sieve'"),
        (HEAD + 'input "x": float32[4] = %z', "line 3, column 27: buffer 'z' is not defined before its use"),
        (HEAD + "segment { step k1", "line 3, column 18: kernel 'k1' is not defined before its use"),
        (HEAD + "kernel k0: gemm, 8 lanes {} kernel k0: gemm, 8 lanes {}", "kernel 'k0' is defined twice"),
        (HEAD + "kernel k0: gemm, 8 lanes { load x0: float31 unit }", "column 39: unknown element type 'float31'"),
        (HEAD + "kernel k0: gemm, 8 lanes { constants (a = ) }", "column 45: expected a constant, found ')'"),
        (HEAD + "kernel k0: gemm, 8 lanes { v0: float32 add(x) }", "column 42: expected '=', found 'add'"),
        (KERNEL + "{ reads (%x) reads (%x) }", "line 6, column 53: 'reads' is given twice"),
        (KERNEL + "{ speed 3 }", "line 6, column 42: a step has no 'speed'"),
        (KERNEL + "{ args (y = 1) }", "line 6, column 48: expected 'x' of the kernel's words, found 'y'"),
        (
            KERNEL + "{ args (x = 1, y = 2, z = 3) }",
            "column 62: expected no further word of the kernel's words, found 'z'",
        ),
        (KERNEL + "{ args (x = 1) }", "line 6, column 47: 1 arguments for 2 words"),
        (KERNEL + "{ args (x = float(%x), y = 2) }", "line 6, column 58: expected a number, found '%x'"),
        (KERNEL + "{ }", "line 6, column 18: the step has no args, kernel 'k0' takes 2"),
        (
            HEAD + 'host (%x) writes () { graph "g" {} }',
            "the graph of a host step holds one node, with as many operands",
        ),
        (HEAD + "buffer %y: pool, " + "(" * 5000, "nested too deeply"),
    ],
)
def test_malformed_text(text: str, message: str) -> None:
    with pytest.raises(ModelError) as caught:
        parse_program(text)
    assert message in str(caught.value) and str(caught.value).startswith("line ")


def test_damaged_text_is_read_or_refused() -> None:
    program = everything()
    text, arrays = print_program(program), program_blobs(program)
    for seed in range(400):
        rng = random.Random(seed)
        damaged = text
        for _ in range(rng.choice((1, 1, 3))):
            at = rng.randrange(len(damaged))
            piece = rng.choice(
                ['"', "%x", "(", "]", "0", "9" * 30, "=", "-", "{", "}", "\\", "é", "float", "b", "?", ""]
            )
            damaged = damaged[:at] + piece + damaged[at + rng.randrange(3) :]
        try:
            parse_program(damaged, arrays)
        except ModelError as error:
            assert str(error).startswith("line "), seed
