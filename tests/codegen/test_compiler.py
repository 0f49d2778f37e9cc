"""Compiling in worker processes: equal keys once, errors by name, death survived, streams kept clean."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import pytest
from jitopt_kernels.targets import TARGETS

from jitopt.codegen import compiler, keys, pool
from jitopt.codegen.compiler import KernelSource, compile_kernels, kernel_assembly
from jitopt.codegen.symbols import read_symbols
from jitopt.errors import CompileError

from . import modules


def test_equal_keys_compile_once_and_progress_counts(target):
    one, two = (KernelSource.of(modules.store_value(value), target) for value in (1, 2))
    steps = []
    kernels = compile_kernels([one, two, one], target, progress=lambda *step: steps.append(step))
    assert list(kernels) == [one.key, two.key]
    assert [step[:2] for step in steps] == [(1, 2), (2, 2)]
    assert {step[2] for step in steps} == {one.key, two.key}
    assert all(not kernel.from_cache and kernel.path_of_source is None for kernel in kernels.values())
    assert read_symbols(kernels[one.key].object).defined == {f"k_{one.key}"}


def test_the_cache_answers_the_second_time(target, cache):
    source = KernelSource.of(modules.ADD_ONE, target)
    first = compile_kernels([source], target, cache=cache)[source.key]
    steps = []
    second = compile_kernels([source], target, cache=cache, progress=lambda *step: steps.append(step))[source.key]
    assert (first.from_cache, second.from_cache) == (False, True)
    assert (second.object, second.seconds) == (first.object, first.seconds)
    assert second.path_of_source.read_text() == modules.ADD_ONE
    assert not steps


def test_a_damaged_or_foreign_cache_entry_is_compiled_again(target, cache):
    source = KernelSource.of(modules.ADD_ONE, target)
    good = compile_kernels([source], target, cache=cache)[source.key].object
    path = cache.entry_path("kernels", source.key)
    whole = path.read_bytes()
    for damaged in (whole[:100], whole[:-1] + bytes([whole[-1] ^ 1]), b""):
        path.write_bytes(damaged)
        again = compile_kernels([source], target, cache=cache)[source.key]
        assert not again.from_cache and again.object == good
    header = {"cpu": "another", "features": "", "seconds": 0.0}
    cache.store("kernels", source.key, header, {"object": good})
    assert not compile_kernels([source], target, cache=cache)[source.key].from_cache


def test_errors_name_kernel_source_and_cause(target, cache):
    source = KernelSource.of(modules.DOES_NOT_TYPE, target)
    with pytest.raises(CompileError, match=rf"{source.key}.*\.py.*does not compile: TypingError") as error:
        compile_kernels([source], target, cache=cache)
    assert "\n" not in str(error.value)
    refused = KernelSource.of(modules.CALLS_LIBM, target)
    with pytest.raises(CompileError, match="expects sin") as error:
        compile_kernels([refused], target)
    assert "maths of jitopt_kernels" in error.value.remedy


def test_what_was_finished_before_an_error_is_kept(target, cache):
    good = KernelSource.of(modules.ADD_ONE, target, cost=2.0)
    bad = KernelSource.of(modules.RAISES, target, cost=1.0)
    with pytest.raises(CompileError, match=bad.key):
        compile_kernels([bad, good], target, cache=cache, workers=1)
    assert compile_kernels([good], target, cache=cache)[good.key].from_cache


def test_prints_cannot_corrupt_an_answer(target):
    source = KernelSource.of(modules.NOISY, target)
    assert compile_kernels([source], target)[source.key].object


def test_a_worker_that_dies_costs_one_more_try(target, tmp_path):
    source = KernelSource.of(modules.kills_its_compiler_once(str(tmp_path / "flag")), target)
    assert compile_kernels([source], target)[source.key].object


def test_a_worker_that_dies_twice_is_an_error(target):
    source = KernelSource.of(modules.KILLS_ITS_COMPILER, target)
    with pytest.raises(CompileError, match=rf"{source.key}.*signal 9.*twice"):
        compile_kernels([source], target)
    good = KernelSource.of(modules.ADD_ONE, target)
    assert compile_kernels([good], target)


def test_without_processes_it_compiles_here_with_the_same_result(target, monkeypatch, caplog):
    source = KernelSource.of(modules.ADD_ONE, target)
    elsewhere = compile_kernels([source], target)[source.key]
    pool.pool.close()
    monkeypatch.setattr(sys, "executable", "/usr/bin/embedding-program")
    caplog.set_level("INFO", "jitopt")
    here = compile_kernels([source], target)[source.key]
    assert "in this process" in caplog.text
    assert read_symbols(here.object) == read_symbols(elsewhere.object)
    with pytest.raises(CompileError, match="TypingError"):
        compile_kernels([KernelSource.of(modules.DOES_NOT_TYPE, target)], target)


def test_ctrl_c_ends_the_workers(target):
    """An interrupt while kernels compile comes through, and no worker goes on compiling."""
    slow = KernelSource.of("import time\ntime.sleep(60)\n" + modules.ADD_ONE, target)
    timer = threading.Timer(1.5, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        compile_kernels([slow], target)
    assert time.monotonic() - start < 30
    assert not any(thread.name == "jitopt-compile" for thread in threading.enumerate())


def test_the_callers_numba_settings_do_not_reach_a_worker(target, monkeypatch):
    pool.pool.close()
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    monkeypatch.setenv("NUMBA_CPU_NAME", "nocona")
    source = KernelSource.of(modules.ADD_ONE, target)
    assert compile_kernels([source], target)[source.key].object
    pool.pool.close()


def test_workers_started_ahead_are_used_and_closed(target):
    pool.pool.close()
    compiler.prestart(target, 1)
    (worker,) = pool.pool._idle
    source = KernelSource.of(modules.ADD_ONE, target)
    assert compile_kernels([source], target, workers=1)
    assert pool.pool._idle == [worker]
    pool.pool.close()
    assert not worker.alive


def test_assembly_of_a_kernel_for_another_target(target):
    for name, register in (("avx2", "ymm"), ("avx512", "zmm")):
        text = modules.ADD_ONE.replace("8)", "16)") if name == "avx512" else modules.ADD_ONE
        assert register in kernel_assembly(KernelSource.of(text, TARGETS[name]), TARGETS[name])


def test_keys_depend_on_text_target_and_toolchain(target, monkeypatch):
    key = keys.kernel_key("text", target)
    assert key == keys.kernel_key("text", target) and len(key) == 32
    other = next(t for t in TARGETS.values() if t != target)
    changed = {keys.kernel_key("text2", target), keys.kernel_key("text", other)}
    monkeypatch.setattr(keys, "toolchain_digest", lambda: "another")
    assert len({key, keys.kernel_key("text", target)} | changed) == 4


def test_keys_and_cached_kernels_need_no_numba(target, cache):
    source = KernelSource.of(modules.ADD_ONE, target)
    compile_kernels([source], target, cache=cache)
    script = f"""
import sys
from pathlib import Path
from jitopt.codegen.cache import Cache
from jitopt.codegen.compiler import KernelSource, compile_kernels
from jitopt.codegen.host import choose_target
target = choose_target()
source = KernelSource.of({modules.ADD_ONE!r}, target)
(kernel,) = compile_kernels([source], target, cache=Cache(Path({str(cache.folder)!r}))).values()
assert kernel.from_cache and "numba" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
