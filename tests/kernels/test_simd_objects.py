"""Objects emitted for every x86 target: no libm call in any of them, and the instructions formulas should become."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import reduce
from typing import Any

import pytest
from jitopt_kernels import formulas, simd
from jitopt_kernels.simd import inlined, load, load_masked, store, store_masked, tail_mask
from jitopt_kernels.targets import TARGETS, Target
from numba import njit

from jitopt.codegen.emitter import emit, emit_assembly, kernel_dispatcher
from tests.kernels.registers import FLOATS, NAMES
from tests.kernels.sweep import REFERENCES

X86 = {name: target for name, target in TARGETS.items() if target.arch == "x86_64"}
UNARY = [getattr(simd, name) for name in REFERENCES]
ACTIVATIONS = [
    *(formulas.relu, formulas.hardswish, formulas.silu, formulas.mish, formulas.softplus, formulas.softsign),
    *(formulas.gelu_erf, formulas.gelu_tanh, formulas.gelu_sigmoid, formulas.sign, formulas.rsqrt, formulas.square),
]
ROUNDING = [simd.floor, simd.ceil, simd.trunc, simd.rint, simd.absolute, simd.sqrt]


def _chain(functions: Sequence[Any]) -> Any:
    """One function that applies all of them."""

    def follow(inner: Any, outer: Any) -> Any:
        return inlined(lambda x: outer(inner(x)))

    return reduce(follow, functions)


def _kernel(function: Any, source: str, masked: bool = False) -> Any:
    """A kernel of the ABI's shape that applies a register function to whole registers, or to a masked one."""

    def whole(args: int, tid: int, nthreads: int) -> None:
        store(tid, function(load(args, source, 8)))

    def tail(args: int, tid: int, nthreads: int) -> None:
        mask = tail_mask(nthreads, 8)
        store_masked(tid, function(load_masked(args, mask, source)), mask)

    return kernel_dispatcher(tail if masked else whole)


@inlined
def _integers(x: Any) -> Any:
    y = (x // 7 + x % 5) * (x << 3) - (x >> x)
    return simd.pow(y, x) + simd.remainder(y, x) ^ ~simd.quotient(x, y)


@inlined
def _pairs(x: Any) -> Any:
    y = simd.pow(x, x + 1) + simd.fmod(x, x + 3) - simd.mod(x, x - 2)
    return simd.fma(x, y, simd.copysign(simd.maximum(x, y), simd.minimum(y, x)))


def _through(target: str) -> Any:
    return inlined(lambda x: simd.convert(simd.convert(x, target), "float32"))


def _conversions() -> Any:
    """The sum of x through every dtype."""
    return reduce(_sum, [_through(target) for target in NAMES])


def _sum(f: Any, g: Any) -> Any:
    return inlined(lambda x: f(x) + g(x))


KERNELS: dict[str, Any] = {
    "maths": lambda: [_kernel(_chain(UNARY), "float32")],
    "activations": lambda: [_kernel(_chain(ACTIVATIONS), "float32")],
    "pairs": lambda: [_kernel(_pairs, "float32")],
    "rounding": lambda: [_kernel(_chain(ROUNDING), name, masked=True) for name in FLOATS],
    "integers": lambda: [_kernel(_integers, name) for name in ("int64", "uint32", "int8")],
    "conversions": lambda: [_kernel(_conversions(), name) for name in ("float32", "float64", "uint64")],
    "masked": lambda: [_kernel(formulas.identity, name, masked=True) for name in NAMES],
}


@pytest.mark.parametrize("name", KERNELS)
def test_no_object_calls_libm(name: str) -> None:
    for kernel in KERNELS[name]():
        for target in X86.values():
            emit(kernel, "k_0123456789abcdef", target.cpu, target.features)


def _instructions(function: Any, target: Target, dtype: str = "float32") -> str:
    lanes = target.lanes

    @njit(error_model="numpy")
    def kernel(args: int, tid: int, nthreads: int) -> None:
        for i in range(0, nthreads, 4 * lanes):
            store(tid + i, function(load(args + i, dtype, lanes)))

    return emit_assembly(kernel, "k_0123456789abcdef", target.cpu, target.features)


@pytest.mark.parametrize("target", X86.values(), ids=X86)
def test_relu_and_clip_are_one_instruction_a_bound(target: Target) -> None:
    text = _instructions(formulas.relu, target)
    assert len(re.findall(r"\bv?maxps\b", text)) >= 1 and not re.search(r"cmp\w*ps|blendv", text)
    text = _instructions(inlined(lambda x: formulas.clip(x, -1, 6)), target)
    assert re.search(r"\bv?maxps\b", text) and re.search(r"\bv?minps\b", text)
    assert not re.search(r"cmp\w*ps|blendv", text)


@pytest.mark.parametrize("target", X86.values(), ids=X86)
def test_a_target_uses_its_own_registers_only(target: Target) -> None:
    text = _instructions(simd.exp, target)
    assert ("zmm" in text) == (target.vector_bytes == 64)
    assert ("ymm" in text) == (target.vector_bytes == 32) or target.vector_bytes == 64
    assert bool(re.search(r"vfn?madd\d+ps", text)) == target.fused_multiply_add
