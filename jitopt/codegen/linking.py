"""A kernel linked from its core, which many kernels share, and its epilogue.

Numba's part of compiling, typing and writing LLVM's IR, takes most of the time, so it is done once a core. A core calls
the functions of `jitopt_kernels.simd.epilogue`; for each kernel its module is linked with the epilogue's under their
symbols, by the emitter's shim, and LLVM inlines the one into the other.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any

import llvmlite.binding as llvm
from jitopt_kernels.linkage import SYMBOLS

from jitopt.codegen.core import Core
from jitopt.codegen.emitter import add_shim, close, kernel_dispatcher, make_internal, native_module, target_machine


def compile_core(kernel: Any) -> Core:
    """Compile the kernel function of a core, whose epilogue is the declared one."""
    # Numba also links what it compiles for this process; nobody calls it, so any address will do for the symbols.
    somewhere = ctypes.cast(ctypes.pythonapi.Py_IsInitialized, ctypes.c_void_p).value
    for name in SYMBOLS.values():
        llvm.add_symbol(name, somewhere)
    module, native = native_module(kernel_dispatcher(kernel))
    make_internal(module, keep=native)
    return Core(module.as_bitcode(), native)


def link(core: Core, epilogue: Mapping[str, Any], entry: str, cpu: str, features: str) -> tuple[Any, Any]:
    """The LLVM module of a kernel, ready for code generation, and the machine it is meant for.

    `epilogue` has the compiled functions of SYMBOLS that the core calls; `entry` is the global name the kernel gets.
    """
    module = llvm.parse_bitcode(core.bitcode)
    declared = {f.name: [str(a.type) for a in f.arguments] for f in module.functions if f.is_declaration}
    for function, name in SYMBOLS.items():
        if name not in declared:  # a core whose outputs are whole vectors has no use for `finish_tail`
            continue
        body, native = native_module(epilogue[function])
        make_internal(body, keep=native)
        module.link_in(body)
        add_shim(module, native, name, declared[name], "alwaysinline nounwind")
    close(module, core.native, entry)
    machine = target_machine(module, cpu, features)
    tuning = llvm.create_pipeline_tuning_options(speed_level=1)
    tuning.loop_unrolling = tuning.loop_vectorization = tuning.slp_vectorization = False
    builder = llvm.create_pass_builder(machine, tuning)
    builder.getModulePassManager().run(module, builder)
    return module, machine
