"""The text form of a program: printed here, read back by `jitopt.lower.text_parser`.

    program "block" for "avx2" {
      buffer %x: input, 768*n bytes, float32[n, 3, 8, 8]
      buffer %c0: constant, float32[2, 1, 9, 3, 8] = blob "sha256:0d5f..."
      buffer %s: table, 16 bytes, int64[2] = elements("int64", n, 12)
      buffer %relu: pool, 4096*n bytes, float32[n, 12, 8, 8]
      input "x": float32[n, 3, 8, 8] = %x
      output "y": float32[n, 10] = %y
      check @conv "at least" (n - 2, 0) "the kernel reaches over 3 elements where axis 2 has n ..."
      kernel k0: conv, 8 lanes { ... }
      segment {
        step k0 nodes (@conv Conv, @relu Relu) {
          reads (%x, %c0)
          writes (%relu[512, 4096])
          args (x = %x, x_image = 768, ..., y0_at = %relu + 64, s0_word = float(0.5))
          scratch 64 bytes
          work 2592*n
        }
      }
      host (%relu, _) writes (%y) {
        reason "no kernel template serves this operator"
        graph "block" { ... }
      }
    }

Kernels are specs (`jitopt.lower.text_spec`); arguments are named by their words. Constants of more than 16 elements
stand apart from the text under the SHA-256 of their bytes, as a graph's do; that includes a host step's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from jitopt.ir.dtypes import BY_NAME
from jitopt.ir.graph import Metadata
from jitopt.ir.lexer import bare, marked, quote
from jitopt.ir.literals import float_text
from jitopt.ir.storage import element_type
from jitopt.ir.text import blobs, data_text, digest, graph_lines, is_inline, metadata_text
from jitopt.ir.text_dims import dim_text, type_text
from jitopt.ir.types import tensor
from jitopt.lower.program import Address, Arg, Buffer, Float, HostStep, Port, Program, Region, Segment, Step
from jitopt.lower.spec import KernelSpec
from jitopt.lower.text_regions import extent_text
from jitopt.lower.text_spec import indented, list_lines, spec_lines
from jitopt.lower.text_tables import plain_dim_text, table_text

Array = np.ndarray[Any, Any]
Labels = dict[Buffer, str]


def print_program(program: Program) -> str:
    """The program's text, ending in a newline; `program_blobs(program)` holds the arrays it refers to."""
    labels, kernels = buffer_labels(program), kernel_names(program)
    lines: list[str] = []
    if program.metadata != Metadata():
        lines.append(f"metadata {{{metadata_text(program.metadata)}}}")
    lines += [_buffer_text(buffer, label) for buffer, label in labels.items()]
    lines += [_port_text("input", port, labels) for port in program.inputs]
    lines += [_port_text("output", port, labels) for port in program.outputs]
    for c in program.checks:
        pair = f"({dim_text(c.a)}, {dim_text(c.b)})"
        lines.append(f"check {marked('@', c.node)} {quote(c.relation)} {pair} {quote(c.what)}")
    for spec, name in kernels.items():
        lines += spec_lines(name, spec)
    for part in program.parts:
        if isinstance(part, HostStep):
            lines += _host_lines(part, labels)
        else:
            lines.append("segment {")
            for step in part.steps:
                lines += indented(step_lines(step, labels, kernels[step.spec]))
            lines.append("}")
    head = f"program {quote(program.name)} for {quote(program.target)} {{"
    return "\n".join([head, *indented(lines), "}"]) + "\n"


def program_blobs(program: Program) -> dict[str, Array]:
    """The large arrays of the program's constants and host steps by digest, as `parse_program` wants them."""
    found: dict[str, Array] = {}
    for buffer in _buffers(program):
        if buffer.array is not None and not is_inline(buffer.array):
            found[digest(buffer.array)] = buffer.array
    for step in program.host_steps:
        found.update(blobs(step.node.graph))
    return found


def buffer_labels(program: Program) -> Labels:
    """A name for every buffer in order of first use: its own, with a number added where another took it before."""
    buffers = list(dict.fromkeys(_buffers(program)))
    reserved = {b.name for b in buffers}
    labels: Labels = {}
    taken: set[str] = set()
    for buffer in buffers:
        label, number = buffer.name, 0
        while label in taken:
            number += 1
            candidate = f"{buffer.name}_{number}"
            label = label if candidate in reserved else candidate
        taken.add(label)
        labels[buffer] = label
    return labels


def kernel_names(program: Program) -> dict[KernelSpec, str]:
    """k0, k1, ... in order of first use."""
    return {spec: f"k{index}" for index, spec in enumerate(program.specs)}


def _buffers(program: Program) -> Iterator[Buffer]:
    yield from (port.buffer for port in program.inputs)
    for part in program.parts:
        yield from part.buffers()
        if isinstance(part, Segment):
            yield from (a.buffer for step in part.steps for a in step.args if isinstance(a, Address))
    yield from (port.buffer for port in program.outputs)


def _buffer_text(buffer: Buffer, label: str) -> str:
    text = f"buffer {marked('%', label)}: {buffer.kind}"
    if buffer.array is not None:
        dtype = element_type(buffer.array)
        return f"{text}, {type_text(tensor(dtype, buffer.array.shape))} = {data_text(buffer.array, dtype)}"
    text += f", {dim_text(buffer.size)} bytes"
    if buffer.type is not None:
        text += f", {type_text(buffer.type)}"
    return text if buffer.table is None else f"{text} = {table_text(buffer.table)}"


def _port_text(kind: str, port: Port, labels: Labels) -> str:
    return f"{kind} {quote(port.name)}: {type_text(port.type)} = {marked('%', labels[port.buffer])}"


def step_lines(step: Step, labels: Labels, kernel: str) -> list[str]:
    """One step, under the names of its buffers and its kernel. Raises ValueError where arguments and words differ."""
    nodes = (f"{marked('@', node)} {bare(op)}" for node, op in zip(step.nodes, step.ops, strict=True))
    args = (
        f"{bare(word)} = {arg_text(arg, labels)}" for word, arg in zip(step.spec.words, step.args, strict=True)
    )  # fmt: skip
    lines = [*list_lines("reads", _regions(step.reads, labels)), *list_lines("writes", _regions(step.writes, labels))]
    lines += list_lines("args", args)
    if step.scratch != 0:
        lines.append(f"scratch {dim_text(step.scratch)} bytes")
    if step.phases != 1:
        lines.append(f"phases {step.phases}")
    if step.work != 0:
        lines.append(f"work {dim_text(step.work)}")
    return [*list_lines(f"step {bare(kernel)} nodes", nodes, " {"), *indented(lines), "}"]


def arg_text(arg: Arg, labels: Labels) -> str:
    """An argument: an address, a float32 or a dimension."""
    if isinstance(arg, Address):
        label = marked("%", labels[arg.buffer])
        return label if arg.offset == 0 else f"{label} + {dim_text(arg.offset)}"
    if isinstance(arg, Float):
        return f"float({float_text(np.float32(arg.value), BY_NAME['float32'])})"
    return plain_dim_text(arg)


def _marks(buffers: Iterable[Buffer | None], labels: Labels) -> list[str]:
    return ["_" if b is None else marked("%", labels[b]) for b in buffers]


def _regions(regions: Iterable[Region], labels: Labels) -> Iterator[str]:
    for r in regions:
        yield marked("%", labels[r.buffer]) + extent_text(r.offset, r.size, r.images, r.stride)


def _host_lines(step: HostStep, labels: Labels) -> list[str]:
    head = f"host ({', '.join(_marks(step.inputs, labels))})"
    if step.captures:
        head += f" captures ({', '.join(_marks(step.captures, labels))})"
    head += f" writes ({', '.join(_marks(step.outputs, labels))}) {{"
    reason = [f"  reason {quote(step.reason)}"] if step.reason else []
    return [head, *reason, *indented(graph_lines(step.node.graph)), "}"]
