"""The compile worker: `python -m jitopt.codegen.worker` answers compile jobs on its standard streams.

A message is a 4-byte little-endian length, a JSON header of that length, then the raw sections whose sizes the
header lists under "sizes". No pickle: a job is text, an answer is object code and numbers.

    hello  <- {"ready": seconds}                            once, when Numba is imported
    job    -> {"key", "path", "assembly", "native"} + [module text, bitcode of the core]
    answer <- {"seconds", "native"} + [object code, assembly text, bitcode of the core]
              or {"error", "remedy", "trace"}; "error" is one line

A module text with a core is compiled in two parts (`jitopt.codegen.linking`). The core, if it was compiled before, is
in the job, else the worker compiles it and the answer holds it; "native" is the name of its kernel function.

CPU name and features arrive as NUMBA_CPU_NAME and NUMBA_CPU_FEATURES, set together before Numba is imported. The
protocol owns private copies of the streams: file descriptor 1 is turned to standard error, so nothing a kernel
module, Numba or LLVM prints can corrupt an answer.
"""

from __future__ import annotations

import json
import linecache
import os
import select
import signal
import struct
import sys
import time
import traceback
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any

from jitopt_kernels.linkage import SYMBOLS

from jitopt.codegen.core import CORE, NO_CORE, Core
from jitopt.errors import CompileError, JitoptError

_LENGTH = struct.Struct("<I")

_WARM_UP = """
from jitopt_kernels.abi import share, word
from jitopt_kernels.simd import load, load_masked, maximum, rank1, store, store_masked, tail_mask, tile_get, tile_zeros


def kernel(args, tid, nthreads):
    x, y, count = word(args, 4), word(args, 5), word(args, 6)
    lo, hi = share(count, 4, tid, nthreads)
    tile = tile_zeros(2, 1, 4)
    for i in range(lo, hi, 4):
        if hi - i < 4:
            mask = tail_mask(hi - i, 4)
            store_masked(y + 4 * i, maximum(load_masked(x + 4 * i, mask, "float32") * 2 + 1, 0), mask)
        else:
            tile = rank1(tile, x, 4, y, 16)
    store(y, tile_get(tile, 0, 0) + load(x, "float32", 4))
"""


def write_message(stream: IO[bytes], header: dict[str, Any], sections: Sequence[bytes] = ()) -> None:
    """Write one message and flush; raises OSError when the other side is gone."""
    head = json.dumps({**header, "sizes": [len(section) for section in sections]}).encode()
    stream.write(b"".join((_LENGTH.pack(len(head)), head, *sections)))
    stream.flush()


def read_message(stream: IO[bytes]) -> tuple[dict[str, Any], list[bytes]] | None:
    """The next message as (header, sections); None when the stream has ended, also in the middle of a message."""
    try:
        (length,) = _LENGTH.unpack(_exactly(stream, _LENGTH.size))
        header: dict[str, Any] = json.loads(_exactly(stream, length))
        return header, [_exactly(stream, size) for size in header["sizes"]]
    except EOFError:
        return None


def _exactly(stream: IO[bytes], size: int) -> bytes:
    data = stream.read(size)
    if len(data) != size:
        raise EOFError
    return data


def entry_symbol(key: str) -> str:
    """The global symbol of the kernel with this key."""
    return f"k_{key}"


@dataclass(frozen=True)
class Output:
    """What compiling a module text gave: object code, assembly text if it was asked for, and the core if it has one."""

    code: bytes
    assembly: str = ""
    core: Core | None = None


def compile_text(
    text: str, key: str, cpu: str, features: str, *, path: str | None = None, assembly: bool = False,
    core: Core | None = None,
) -> Output:  # fmt: skip
    """Compile the function `kernel` of a module text, whose core may be given; one that does not fit is made again.

    The text is executed as a module whose file is `path`, or a name that only `linecache` knows, so tracebacks and
    debuggers show its lines. Raises what the text, Numba or the emitter raise.
    """
    from jitopt.codegen.emitter import lower, object_code
    from jitopt.codegen.linking import compile_core, link

    filename, entry = path or f"<jitopt {entry_symbol(key)}>", entry_symbol(key)
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    head, mark, tail = text.partition(CORE)
    names = _execute(head, filename, entry)

    def output(module: Any, machine: Any, core: Core | None = None) -> Output:
        return Output(object_code(module, machine, entry), machine.emit_assembly(module) if assembly else "", core)

    if not mark:
        return output(*lower(_kernel(names), entry, cpu, features))
    if core is not None:
        try:
            return output(*link(core, names, entry, cpu, features), core)
        except (CompileError, RuntimeError):  # RuntimeError: LLVM cannot read it
            pass  # not what it says it is: made again
    from jitopt_kernels.simd import epilogue

    linked = {name: getattr(epilogue, name) for name in SYMBOLS}
    lines = "\n" * (head.count("\n") + 1)
    core = compile_core(_kernel(_execute(lines + tail, filename, entry, linked)))
    return output(*link(core, names, entry, cpu, features), core)


def _execute(text: str, filename: str, name: str, given: Mapping[str, Any] | None = None) -> dict[str, Any]:
    module = types.ModuleType(name)
    module.__file__ = filename
    module.__dict__.update(given or {})
    exec(compile(text, filename, "exec"), module.__dict__)
    return module.__dict__


def _kernel(names: Mapping[str, Any]) -> Any:
    if "kernel" not in names:
        raise NameError("the module text defines no function `kernel`")
    return names["kernel"]


def one_line(error: BaseException) -> str:
    """An exception as one line of text, without the page of advice Numba adds to its own."""
    if isinstance(error, JitoptError):
        return error.message
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {' '.join(lines[:4])}"[:600] if lines else type(error).__name__


def serve(jobs: IO[bytes], answers: IO[bytes], cpu: str, features: str) -> None:
    """Answer jobs until the stream ends. An exception of a job is its answer; the worker lives on."""
    start = time.perf_counter()
    import numba  # noqa: F401  (the import is what takes long; the first job should not wait for it)

    write_message(answers, {"ready": time.perf_counter() - start})
    if not select.select([jobs], [], [], 0)[0]:
        # Started ahead: what Numba sets up for its first kernel takes half a second and need not wait for that.
        compile_text(_WARM_UP, "warm_up", cpu, features)
    while (message := read_message(jobs)) is not None:
        header, (text, bitcode) = message
        start = time.perf_counter()
        try:
            given = Core(bitcode, header["native"]) if bitcode else None
            out = compile_text(
                text.decode(),
                header["key"],
                cpu,
                features,
                path=header["path"],
                assembly=header["assembly"],
                core=given,
            )
        except Exception as error:
            remedy = getattr(error, "remedy", None) or ""
            write_message(answers, {"error": one_line(error), "remedy": remedy, "trace": traceback.format_exc()})
        else:
            made = out.core if out.core is not None and out.core is not given else NO_CORE
            head = {"seconds": time.perf_counter() - start, "native": made.native}
            write_message(answers, head, [out.code, out.assembly.encode(), made.bitcode])


def main() -> None:
    """Take the standard streams away from everything else and serve them."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent ends its workers
    with os.fdopen(os.dup(0), "rb") as jobs, os.fdopen(os.dup(1), "wb") as answers:
        with open(os.devnull, "rb") as nothing:  # noqa: PTH123
            os.dup2(nothing.fileno(), 0)
        os.dup2(2, 1)
        try:
            serve(jobs, answers, os.environ["NUMBA_CPU_NAME"], os.environ["NUMBA_CPU_FEATURES"])
        except BrokenPipeError:
            sys.exit(0)


if __name__ == "__main__":
    main()
