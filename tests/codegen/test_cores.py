"""Cores: compiled once, kept, linked with each kernel's epilogue, and never taken for another's."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from jitopt.codegen import compiler, keys
from jitopt.codegen.compiler import KernelSource, compile_kernels
from jitopt.codegen.core import CORE, KIND, Core, Cores, core_key
from jitopt.codegen.emitter import ALLOWED_UNDEFINED
from jitopt.codegen.loader import KernelLibrary
from jitopt.codegen.symbols import read_symbols
from jitopt.codegen.worker import compile_text
from jitopt.errors import CompileError

EPILOGUE = """
from jitopt_kernels.abi import word
from jitopt_kernels.simd import store, store_masked
from jitopt_kernels.simd.epilogue import epilogue


@epilogue(4)
def finish(acc, image, offset, column, args):
    store(word(args, 6) + offset, {formula})


@epilogue(4)
def finish_tail(acc, image, offset, column, args, mask):
    store_masked(word(args, 6) + offset, {formula}, mask)


"""
CORE_TEXT = """
from jitopt_kernels.abi import share, word
from jitopt_kernels.simd import load, load_masked, tail_mask


def kernel(args, tid, nthreads):
    x, count = word(args, 4), word(args, 5)
    low, high = share(count, 4, tid, nthreads)
    for i in range(low, high, 4):
        if count - i >= 4:
            finish(load(x + 4 * i, "float32", 4), 0, 4 * i, 0, args)
        else:
            mask = tail_mask(count - i, 4)
            finish_tail(load_masked(x + 4 * i, mask, "float32"), 0, 4 * i, 0, args, mask)
"""


def text(formula: str) -> str:
    """y[i] = formula of acc = x[i] for i < count; words 4 to 6 are x, count, y."""
    return EPILOGUE.format(formula=formula) + CORE + CORE_TEXT


def run(key: str, code: bytes, target: Any) -> Any:
    with KernelLibrary(target) as library:
        kernel = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 3)(library.add(key, code))
        x, y = np.arange(11, dtype=np.float32), np.full(13, 7, np.float32)
        args = np.array([0, 0, 0, 0, x.ctypes.data, x.size, y.ctypes.data])
        for tid in range(2):
            kernel(args.ctypes.data, tid, 2)
    assert (y[11:] == 7).all()
    return y[:11]


def test_kernels_of_one_core(target, cache):
    formulas = {"acc * 2": lambda x: x * 2, "acc + word(args, 5)": lambda x: x + 11, "acc": lambda x: x}
    sources = {formula: KernelSource.of(text(formula), target) for formula in formulas}
    (core,) = {source.core for source in sources.values()}
    kernels = compile_kernels(list(sources.values()), target, cache=cache)
    assert [path.stem for path in (cache.folder / KIND).iterdir()] == [core]
    for formula, source in sources.items():
        code = kernels[source.key].object
        assert read_symbols(code).undefined <= ALLOWED_UNDEFINED
        assert np.array_equal(run(source.key, code, target), formulas[formula](np.arange(11, dtype=np.float32)))


def test_the_core_is_not_compiled_again(target, cache, monkeypatch):
    first, second = (KernelSource.of(text(formula), target) for formula in ("acc * 2", "acc - 1"))
    compile_kernels([first], target, cache=cache, workers=0)
    given: list[Core | None] = []

    def spy(*args: Any, core: Core | None = None, **options: Any) -> Any:
        given.append(core)
        return compile_text(*args, core=core, **options)

    monkeypatch.setattr(compiler, "compile_text", spy)
    compile_kernels([second], target, cache=cache, workers=0)
    assert len(given) == 1
    assert given[0] == Cores(target, cache, [first.core]).find(first.core)


def test_a_given_core_makes_the_same_code(target):
    source = KernelSource.of(text("acc * 3"), target)
    other = compile_text(text("acc * 4"), "other", target.cpu, target.features)
    alone = compile_text(source.text, source.key, target.cpu, target.features)
    linked = compile_text(source.text, source.key, target.cpu, target.features, core=other.core)
    assert alone.code == linked.code
    assert np.array_equal(run(source.key, linked.code, target), np.arange(11, dtype=np.float32) * 3)


def test_a_core_depends_on_its_text_and_on_how_it_calls_an_epilogue(target, monkeypatch):
    key = core_key(text("acc * 2"), target)
    assert key == core_key(text("acc + 1"), target)
    assert key != core_key(text("acc * 2") + "# changed", target)
    assert core_key("x = 1", target) == ""
    source = keys._source
    keys._library_digest.cache_clear()
    monkeypatch.setattr(keys, "_source", lambda name: source(name) + b"#" * (name == "jitopt_kernels.simd.epilogue"))
    try:
        assert core_key(text("acc * 2"), target) != key
    finally:
        keys._library_digest.cache_clear()


def test_a_damaged_core_is_made_again(target, cache):
    first, second = (KernelSource.of(text(formula), target) for formula in ("acc * 2", "acc - 1"))
    compile_kernels([first], target, cache=cache)
    path = cache.entry_path(KIND, first.core)
    path.write_bytes(path.read_bytes()[:-40])
    kernels = compile_kernels([second], target, cache=cache)
    assert np.array_equal(run(second.key, kernels[second.key].object, target), np.arange(11, dtype=np.float32) - 1)
    assert Cores(target, cache, [first.core]).find(first.core) is not None


def test_a_core_of_another_target_is_not_taken(target, cache):
    Cores(target, cache, []).keep("a" * 32, Core(b"code", "name"))
    entry = cache.load(KIND, "a" * 32)
    cache.store(KIND, "a" * 32, {**entry.header, "features": "+other"}, {"bitcode": b"code"})
    assert Cores(target, cache, ["a" * 32]).find("a" * 32) is None


@pytest.mark.parametrize("workers", [0, 1])
def test_an_epilogue_may_not_raise(target, workers):
    bad = EPILOGUE.format(formula="acc").replace(
        "    store(word", "    if offset > 1:\n        raise ValueError\n    store(word"
    )
    source = KernelSource.of(bad + CORE + CORE_TEXT, target)
    with pytest.raises(CompileError, match="kernel_may_raise"):
        compile_kernels([source], target, workers=workers)


def test_functions_of_one_name_in_core_and_epilogue_stay_apart(target):
    """Both define `helper`, as two processes' counters may name two functions of one library module."""
    helper = "from numba import njit\n\n\n@njit(inline='never')\ndef helper(x):\n    return x {}\n\n"
    head = helper.format("* 5") + EPILOGUE.format(formula="helper(acc)")
    whole = 'load(x + 4 * i, "float32", 4)'
    core = helper.format("+ 1") + CORE_TEXT.replace(whole, f"helper({whole})")
    source = KernelSource.of(head + CORE + core, target)
    code = compile_kernels([source], target)[source.key].object
    expected = np.arange(11, dtype=np.float32)
    expected[:8] += 1
    assert np.array_equal(run(source.key, code, target), expected * 5)


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("core", [Core(b"BC no bitcode", "kernel"), Core(b"", "kernel")], ids=["garbage", "empty"])
def test_a_core_that_is_something_else_is_made_again(core, workers, target, cache):
    source = KernelSource.of(text("acc * 2"), target)
    Cores(target, cache, []).keep(source.core, core)
    code = compile_kernels([source], target, cache=cache, workers=workers)[source.key].object
    assert np.array_equal(run(source.key, code, target), np.arange(11, dtype=np.float32) * 2)
    assert Cores(target, cache, [source.core]).find(source.core) not in (core, None)


def test_a_core_without_its_kernel_is_made_again(target, cache):
    first, second = (KernelSource.of(text(formula), target) for formula in ("acc * 2", "acc - 1"))
    compile_kernels([first], target, cache=cache)
    found = Cores(target, cache, [first.core]).find(first.core)
    Cores(target, cache, []).keep(first.core, Core(found.bitcode, "another"))
    code = compile_kernels([second], target, cache=cache)[second.key].object
    assert np.array_equal(run(second.key, code, target), np.arange(11, dtype=np.float32) - 1)
    assert Cores(target, cache, [first.core]).find(first.core).native != "another"
