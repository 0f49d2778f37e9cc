"""Loading objects: without Numba, one library a kernel, freed on close, refused when foreign or damaged."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import llvmlite.binding as llvm
import numpy as np
import pytest
from jitopt_kernels.targets import TARGETS

from jitopt.codegen.compiler import KernelSource, compile_kernels
from jitopt.codegen.emitter import check_object
from jitopt.codegen.host import runs_here
from jitopt.codegen.loader import KernelLibrary
from jitopt.codegen.symbols import read_symbols
from jitopt.errors import CompileError

from . import modules

LOAD_WITHOUT_NUMBA = """
import ctypes, sys
import numpy as np
from jitopt.codegen.host import choose_target
from jitopt.codegen.loader import KernelLibrary

key, path = sys.argv[1:]
with KernelLibrary(choose_target()) as library, open(path, "rb") as source:
    address = library.add(key, source.read())
    x, y = np.arange(21, dtype="f4"), np.zeros(21, "f4")
    args = np.array([0, 0, 0, 0, x.ctypes.data, y.ctypes.data, 21])
    ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 3)(address)(args.ctypes.data, 0, 1)
    assert (y == x + 1).all(), y
assert "numba" not in sys.modules and "onnx" not in sys.modules
print("ran without numba")
"""


def call(address, args, tid=0, nthreads=1):
    ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 3)(address)(args.ctypes.data, tid, nthreads)


def test_runs_in_a_process_that_never_imported_numba(target, tmp_path):
    source = KernelSource.of(modules.ADD_ONE, target)
    path = tmp_path / "kernel.o"
    path.write_bytes(compile_kernels([source], target)[source.key].object)
    script = [sys.executable, "-c", LOAD_WITHOUT_NUMBA, source.key, str(path)]
    done = subprocess.run(script, capture_output=True, text=True, check=False)
    assert done.stdout == "ran without numba\n", done.stderr


def test_equal_internal_names_of_two_workers_stay_apart(target):
    """Both kernels call an internal function of one name; each must reach its own."""
    sources = [KernelSource.of(modules.store_value(value), target) for value in (11, 22)]
    kernels = {}
    for source in sources:  # each in a fresh process, so that Numba's counters give equal names
        from jitopt.codegen.pool import pool

        kernels |= compile_kernels([source], target, workers=1)
        pool.close()
    out = np.zeros(1, "i8")
    args = np.array([0, 0, 0, 0, out.ctypes.data])
    with KernelLibrary(target) as library:
        for source in sources:
            library.add(source.key, kernels[source.key].object)
        for source, value in zip(sources, (11, 22), strict=True):
            call(library.address(source.key), args)
            assert out[0] == value


@pytest.mark.parametrize("nthreads", [1, 2, 3, 8])
@pytest.mark.parametrize("count", [1, 8, 100, 1000])
def test_shares_of_any_number_give_the_same_bits(nthreads, count, target, cache):
    source = KernelSource.of(modules.ADD_ONE, target)
    x = np.random.default_rng(count).standard_normal(count).astype("f4")
    y = np.full(count, np.nan, "f4")
    args = np.array([0, 0, 0, 0, x.ctypes.data, y.ctypes.data, count])
    with KernelLibrary(target) as library:
        library.add(source.key, compile_kernels([source], target, workers=0)[source.key].object)
        for tid in range(nthreads):
            call(library.address(source.key), args, tid, nthreads)
    np.testing.assert_array_equal(y, x + np.float32(1))


MEMSET = """
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
define void @k_ab(i64 %args, i64 %size, i64 %nthreads) {
  %p = inttoptr i64 %args to ptr
  call void @llvm.memset.p0.i64(ptr %p, i8 7, i64 %size, i1 false)
  ret void
}
"""


def test_calls_that_llvm_makes_by_itself_are_linked(target):
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(reloc="pic", codemodel="small")
    code = machine.emit_object(llvm.parse_assembly(MEMSET))
    assert read_symbols(code).undefined == {"memset"}
    check_object(code, "k_ab")
    y = np.ones(1000, "u1")
    with KernelLibrary(target) as library:
        call(library.add("ab", code), y, 999)
    assert y.tolist() == [7] * 999 + [1]


def test_code_for_another_cpu_is_refused():
    foreign = next(target for target in TARGETS.values() if not runs_here(target))
    with pytest.raises(CompileError, match=foreign.name):
        KernelLibrary(foreign)


def test_a_damaged_object_does_not_link(target):
    with KernelLibrary(target) as library, pytest.raises(CompileError, match="does not link"):
        library.add("ab", b"\x7fELF" + bytes(500))


def test_close_forgets_every_address_and_may_be_repeated(target):
    source = KernelSource.of(modules.ADD_ONE, target)
    library = KernelLibrary(target)
    library.add(source.key, compile_kernels([source], target, workers=0)[source.key].object)
    assert source.key in library and len(library) == 1
    library.close()
    library.close()
    with pytest.raises(KeyError):
        library.address(source.key)
