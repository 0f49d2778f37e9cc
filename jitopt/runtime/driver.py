"""The native driver, compiled once a process from the IR of `driver_ir` and called through ctypes without the GIL."""

from __future__ import annotations

import ctypes
import functools
import os
import threading
from collections.abc import Callable

import llvmlite
import llvmlite.binding as llvm

from jitopt.codegen.cache import Cache
from jitopt.codegen.keys import digest
from jitopt.codegen.loader import Linker
from jitopt.codegen.symbols import read_symbols
from jitopt.runtime import driver_ir
from jitopt.runtime.platform import measure_ticks, this_platform


class Driver:
    """The compiled driver's entry points; see `driver_ir`. Made once a process by `driver()`, never unloaded."""

    def __init__(self, code: bytes) -> None:
        self._linker = Linker()  # worker threads sleep in this code until the process ends: it is never closed
        addresses = self._linker.link(code, *driver_ir.SYMBOLS)
        word = ctypes.c_int64
        self.run: Callable[[int, int, int], int] = ctypes.CFUNCTYPE(word, word, word, word)(addresses["run"])
        self.worker: Callable[[int, int], None] = ctypes.CFUNCTYPE(None, word, word)(addresses["worker"])
        self.dismiss: Callable[[int, int], None] = ctypes.CFUNCTYPE(None, word, word)(addresses["dismiss"])
        self.clock: Callable[[], int] = ctypes.CFUNCTYPE(word)(addresses["clock"])


_KIND = "drivers"
_making = threading.Lock()
_driver: Driver | None = None


def driver(cache: Cache | None = None) -> Driver:
    """The driver of this process. The first call compiles it (40 ms), or takes it from the cache (3 ms)."""
    global _driver
    if _driver is None:
        with _making:
            _driver = _driver or Driver(_cached_object(cache) if cache is not None else driver_object())
    return _driver


def _new_lock() -> None:
    global _making
    _making = threading.Lock()


os.register_at_fork(after_in_child=_new_lock)  # another thread of the parent may have held it


def _cached_object(cache: Cache) -> bytes:
    parts = [driver_ir.IR, this_platform().ir, llvm.get_process_triple(), llvmlite.__version__]
    key = digest([part.encode() for part in parts])
    entry = cache.load(_KIND, key)
    if entry is not None and set(driver_ir.SYMBOLS) == read_symbols(bytes(entry.sections["object"])).defined:
        return bytes(entry.sections["object"])
    code = driver_object()
    cache.store(_KIND, key, {}, {"object": code})
    return code


def driver_object() -> bytes:
    """The driver's object code for this machine, without any CPU feature beyond the architecture's first."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    triple = llvm.get_process_triple()
    machine = llvm.Target.from_triple(triple).create_target_machine(opt=2, reloc="pic", codemodel="small")
    module = llvm.parse_assembly(f'target triple = "{triple}"\n{this_platform().ir}\n{driver_ir.IR}')
    module.verify()
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=2))
    builder.getModulePassManager().run(module, builder)
    code: bytes = machine.emit_object(module)
    return code


@functools.cache
def ticks_per_second() -> float:
    """Rate of the clock of the stamps, measured once over 20 ms."""
    return measure_ticks(driver().clock)
