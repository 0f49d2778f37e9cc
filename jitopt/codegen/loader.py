"""Object code becomes callable: LLVM's LLJIT with the JITLink linker, without Numba.

Every kernel gets a library of its own. Two workers give different kernels equal internal names, and in one library
the second would silently run the first's code. Closing a library frees its memory.
"""

from __future__ import annotations

import threading
from typing import Any

import llvmlite.binding as llvm
from jitopt_kernels.targets import Target

from jitopt.codegen.host import host_cpu, runs_here
from jitopt.codegen.worker import entry_symbol
from jitopt.errors import CompileError


class Linker:
    """One LLJIT instance and the libraries linked into it, each from one object."""

    def __init__(self) -> None:
        """Takes about a millisecond. Closing the instance is what frees everything: libraries alone leave a rest."""
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        machine = llvm.Target.from_default_triple().create_target_machine()
        self._jit: Any = llvm.create_lljit_compiler(machine, use_jit_link=True)
        self._libraries: list[Any] = []
        self._lock = threading.Lock()

    def link(self, code: bytes, *symbols: str) -> dict[str, int]:
        """Load one object as a library of its own; addresses of `symbols`, valid until `close`.

        Raises CompileError when it does not link: damaged, or a symbol is missing.
        """
        builder = llvm.JITLibraryBuilder().add_object_img(code).add_current_process()
        for symbol in symbols:
            builder.export_symbol(symbol)
        with self._lock:
            try:
                library = builder.link(self._jit, f"library_{len(self._libraries)}")
            except RuntimeError as error:
                raise CompileError(f"the object code of {symbols[0]} does not link: {error}") from error
            self._libraries.append(library)
        return {symbol: int(library[symbol]) for symbol in symbols}

    def close(self) -> None:
        """Free all code; no address may be called afterwards. May be called again."""
        with self._lock:
            while self._libraries:
                self._libraries.pop().close()
            self._jit.close()


class KernelLibrary:
    """Kernels loaded into this process, by key. Used as a context manager it closes at the end."""

    def __init__(self, target: Target) -> None:
        """Raises CompileError when this CPU cannot execute code for `target`."""
        if not runs_here(target):
            raise CompileError(
                f"code for target {target.name!r} cannot run on this CPU ({host_cpu()})", remedy="compile it here"
            )
        self.target = target
        self._linker = Linker()
        self._addresses: dict[str, int] = {}

    def add(self, key: str, code: bytes) -> int:
        """Load the object of a kernel, unless it is loaded, and return its address.

        Raises CompileError when the object does not link: damaged, or a symbol is missing.
        """
        if key not in self._addresses:
            symbol = entry_symbol(key)
            self._addresses[key] = self._linker.link(code, symbol)[symbol]
        return self._addresses[key]

    def address(self, key: str) -> int:
        """Address of the kernel; KeyError when it was not added. Valid until `close`."""
        return self._addresses[key]

    def __contains__(self, key: object) -> bool:
        return key in self._addresses

    def __len__(self) -> int:
        return len(self._addresses)

    def close(self) -> None:
        """Free all code; no address may be called afterwards. May be called again."""
        self._addresses.clear()
        self._linker.close()

    def __enter__(self) -> KernelLibrary:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
