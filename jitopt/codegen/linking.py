"""A kernel linked from its core, which many kernels share, and its epilogue.

Numba's part of compiling, typing and writing LLVM's IR, takes most of the time, so it is done once a core. A core calls
the functions of `jitopt_kernels.simd.epilogue`; for each kernel its module is linked with the epilogue's under their
symbols, and LLVM inlines the one into the other:

    define void @jitopt_finish(<8 x float> %0, i64 %1, ..., i64 %4) alwaysinline {
      %status = call i32 @"<numba's name>"(ptr %result, ptr %exception, <8 x float> %0, i64 %1, ..., i64 %4)
      br (%status != 0), call void @kernel_may_raise()    ; as in the emitter's shim
    }
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any

import llvmlite.binding as llvm
from jitopt_kernels.linkage import SYMBOLS

from jitopt.codegen.core import Core
from jitopt.codegen.emitter import RAISES, close, kernel_dispatcher, make_internal, native_module, target_machine

_SHIM = """
target triple = "{triple}"
target datalayout = "{layout}"
declare i32 @"{native}"(ptr, ptr, {types})
declare void @{raises}() nounwind
define void @{name}({typed}) alwaysinline nounwind {{
  %result = alloca ptr
  %exception = alloca ptr
  %status = call i32 @"{native}"(ptr %result, ptr %exception, {typed})
  %failed = icmp ne i32 %status, 0
  br i1 %failed, label %raised, label %done
raised:
  call void @{raises}()
  br label %done
done:
  ret void
}}
"""


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
        types = declared[name]
        typed = ", ".join(f"{kind} %{i}" for i, kind in enumerate(types))
        shim = _SHIM.format(
            triple=module.triple, layout=module.data_layout, native=native, name=name, types=", ".join(types),
            typed=typed, raises=RAISES,
        )  # fmt: skip
        module.link_in(llvm.parse_assembly(shim))
    close(module, core.native, entry)
    machine = target_machine(module, cpu, features)
    tuning = llvm.create_pipeline_tuning_options(speed_level=1)
    tuning.loop_unrolling = tuning.loop_vectorization = tuning.slp_vectorization = False
    builder = llvm.create_pass_builder(machine, tuning)
    builder.getModulePassManager().run(module, builder)
    return module, machine
