"""The machine's measured peaks: plausible, and their kernels are as clean as every other."""

from __future__ import annotations

import pytest
from jitopt_kernels.targets import TARGETS

from jitopt.codegen.compiler import KernelSource, kernel_assembly
from jitopt.codegen.host import choose_target
from jitopt.runtime.measure import fma_text, measure_peak


@pytest.mark.parametrize("nthreads", [1, 2])
def test_peaks_are_plausible(nthreads):
    peak = measure_peak(choose_target(), nthreads, copy_mib=8)
    assert peak.nthreads == nthreads
    assert 1 < peak.gflops < 1000 * nthreads
    assert 0.1 < peak.copy_gbs < 2000


@pytest.mark.parametrize(("name", "instruction"), [("avx2", "vfmadd"), ("avx512", "zmm"), ("x86-64-v2", "mulps")])
def test_the_arithmetic_stays_in_registers(name, instruction):
    target = TARGETS[name]
    text = kernel_assembly(KernelSource.of(fma_text(target.lanes), target), target)
    assert text.count(instruction) >= 12
