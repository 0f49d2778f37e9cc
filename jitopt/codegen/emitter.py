"""A Numba function becomes a relocatable object with one global symbol, `void entry(i64 args, i64 tid, i64 nthreads)`.

The object must run in a process that never imports Numba, so nothing of Numba's runtime may be left in it. An `njit`
function without wrappers calls nothing by itself; a shim gives it a C signature, every other symbol becomes internal,
and the emitter refuses what is left over: a kernel that may raise, allocate or call libm names the symbol that
betrays it instead of crashing later. (`cfunc` is not used: its objects call Python and Numba's memory manager.)

    define void @"k_..."(i64 %0, i64 %1, i64 %2) {    ; args, tid, nthreads
      %status = call i32 @"<numba's name>"(ptr %result, ptr %exception, i64 %0, i64 %1, i64 %2)
      ; a kernel that never raises returns the constant 0 and this branch disappears
      br (%status != 0), call void @kernel_may_raise()
    }
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import llvmlite.binding as llvm

from jitopt.codegen.symbols import read_symbols
from jitopt.errors import CompileError

ALLOWED_UNDEFINED = frozenset({"memcpy", "memmove", "memset"})
"""What an object may expect from the process that loads it: LLVM emits calls to these by itself."""

_RAISES = "kernel_may_raise"
_MARK = "jitopt_kernel"

_SHIM = """
target triple = "{triple}"
target datalayout = "{layout}"
declare i32 @"{native}"(ptr, ptr, {types})
declare void @{raises}() nounwind
define void @"{name}"({typed}) {attributes} {{
  %result = alloca ptr
  %exception = alloca ptr
  store ptr null, ptr %result
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


def kernel_dispatcher(function: Callable[..., Any]) -> Any:
    """`function` compiled by Numba for three int64, without wrappers, bounds checks, debug info or fast-math."""
    from numba import config, njit, types

    if config.DISABLE_JIT:
        raise CompileError("Numba's compiler is switched off in this process", remedy="unset NUMBA_DISABLE_JIT")
    signature = types.void(types.int64, types.int64, types.int64)
    dispatcher = njit(
        signature,
        error_model="numpy",
        no_cpython_wrapper=True,
        no_cfunc_wrapper=True,
        boundscheck=False,
        debug=False,
        fastmath=False,
    )(getattr(function, "py_func", function))
    setattr(dispatcher, _MARK, True)
    return dispatcher


def emit(function: Callable[..., Any], entry: str, cpu: str, features: str) -> bytes:
    """Object code of `function(args, tid, nthreads)` under the name `entry`.

    `function` is a plain function, an `njit` dispatcher, or what `kernel_dispatcher` made of either. `cpu` and
    `features` are LLVM's CPU name and feature list ("+avx2,+fma"); they alone decide which instructions appear.
    Raises CompileError when the object would define another global symbol or need one beyond
    `ALLOWED_UNDEFINED`; Numba's own errors pass through.
    """
    module, machine = lower(function, entry, cpu, features)
    return object_code(module, machine, entry)


def emit_assembly(function: Callable[..., Any], entry: str, cpu: str, features: str) -> str:
    """The assembly text of what `emit` gives for the same arguments; nothing is refused, it is for reading."""
    module, machine = lower(function, entry, cpu, features)
    text: str = machine.emit_assembly(module)
    return text


def object_code(module: Any, machine: Any, entry: str) -> bytes:
    """The object of a module that `lower` or `jitopt.codegen.linking.link` made; raises as `emit` does."""
    code: bytes = machine.emit_object(module)
    check_object(code, entry)
    return code


def check_object(code: bytes, entry: str) -> None:
    """Raise CompileError unless `code` defines `entry` alone and expects nothing beyond `ALLOWED_UNDEFINED`."""
    symbols = read_symbols(code)
    undefined = symbols.undefined - ALLOWED_UNDEFINED
    if undefined:
        may_raise = _RAISES in undefined
        raise CompileError(
            f"the object expects {', '.join(sorted(undefined))}, which compiled kernels must do without",
            node=entry,
            remedy="a kernel must not raise: report a code through the status block and stay in bounds"
            if may_raise
            else "kernels allocate nothing and use the maths of jitopt_kernels",
        )
    if symbols.defined != {entry}:
        others = ", ".join(sorted(symbols.defined - {entry})) or "nothing"
        raise CompileError(f"the object defines {others} besides its entry", node=entry)


def lower(function: Callable[..., Any], entry: str, cpu: str, features: str) -> tuple[Any, Any]:
    """The LLVM module of a kernel, ready for code generation, and the machine it is meant for."""
    module, native = native_module(function if getattr(function, _MARK, False) else kernel_dispatcher(function))
    close(module, native, entry)
    machine = target_machine(module, cpu, features)
    passes = llvm.create_new_module_pass_manager()
    passes.add_ipsccp_pass()  # a status that is always 0 becomes a constant in its callers
    passes.add_simplify_cfg_pass()
    passes.add_global_dead_code_eliminate_pass()
    passes.run(module, llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=0)))
    return module, machine


def native_module(dispatcher: Any) -> tuple[Any, str]:
    """The LLVM module of a compiled dispatcher of one signature, and Numba's name for the function in it."""
    compiled = dispatcher.overloads[dispatcher.signatures[0]]
    return llvm.parse_assembly(compiled.library.get_llvm_str()), compiled.fndesc.llvm_func_name


def close(module: Any, native: str, entry: str) -> None:
    """Add the shim, `entry`, which calls the function `native`, and make every other symbol of the module internal."""
    add_shim(module, native, entry, ["i64"] * 3)
    for number, symbol in enumerate(make_internal(module, entry)):
        symbol.name = f"{_identifier(symbol.name)}.{number}"  # Numba's counters would make equal kernels differ


def add_shim(module: Any, native: str, name: str, types: Sequence[str], attributes: str = "nounwind") -> None:
    """Define `name` in the module: a function of C's convention that calls Numba's function `native`."""
    typed = ", ".join(f"{kind} %{number}" for number, kind in enumerate(types))
    shim = _SHIM.format(
        triple=module.triple, layout=module.data_layout, native=native, name=name, types=", ".join(types), typed=typed,
        attributes=attributes, raises=_RAISES,
    )  # fmt: skip
    module.link_in(llvm.parse_assembly(shim))


def make_internal(module: Any, keep: str) -> list[Any]:
    """Make every symbol the module defines but `keep` internal, so that none meets one of its name elsewhere."""
    inner = [s for s in (*module.functions, *module.global_variables) if not s.is_declaration and s.name != keep]
    for symbol in inner:
        symbol.linkage = "internal"
    return inner


def target_machine(module: Any, cpu: str, features: str) -> Any:
    """The machine a module is compiled for: position-independent code, LLVM's best code generation."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_triple(module.triple)
    return target.create_target_machine(cpu=cpu, features=features, opt=3, reloc="pic", codemodel="small")


def _identifier(mangled: str) -> str:
    """The function's own name in one of Numba's mangled names, "_ZN6module6kernelB2v1...": here "kernel"."""
    at, name = mangled.find("_ZN") + 3, "local"
    while at > 2 and (digits := re.match(r"\d+", mangled[at:])):
        start = at + digits.end()
        at = start + int(digits[0])
        name = mangled[start:at]
    return re.sub(r"\W", "_", name)
