"""What this machine can do at most: multiply-adds and copied bytes a second, measured by kernels of our own.

Reports give a kernel's speed as a share of these. The two kernels go through the same worker, emitter, loader and
driver as every other.
"""

from __future__ import annotations

import struct
import time
from dataclasses import dataclass

import numpy as np
from jitopt_kernels.targets import Target

from jitopt.codegen.cache import Cache
from jitopt.codegen.compiler import KernelSource, compile_kernels
from jitopt.codegen.loader import KernelLibrary
from jitopt.runtime.launch import Launch

_CHAINS = 12  # independent chains: enough to hide the latency of two FMA units, and they fit in 16 registers
_SECONDS = 0.2

_FMA = """
from jitopt_kernels.abi import float_word, word
from jitopt_kernels.simd import fma, splat, store


def kernel(args, tid, nthreads):
    out, count = word(args, 4), word(args, 5)
    x = splat(float_word(word(args, 6)), "float32", {lanes})
    {chains} = {zeros}
    for i in range(count):
        {body}
    store(out + 64 * tid, {total})
"""

_COPY = """
from jitopt_kernels.abi import share, word
from jitopt_kernels.simd import load, store


def kernel(args, tid, nthreads):
    x, y, size = word(args, 4), word(args, 5), word(args, 6)
    lo, hi = share(size, {step}, tid, nthreads)
    for at in range(lo, hi, {step}):
        {body}
"""


@dataclass(frozen=True)
class MachinePeak:
    """Measured with `nthreads` threads: float32 GFLOP/s (an FMA counts 2), copied GB/s (bytes read plus written)."""

    nthreads: int
    gflops: float
    copy_gbs: float


def measure_peak(target: Target, nthreads: int = 1, cache: Cache | None = None, copy_mib: int = 64) -> MachinePeak:
    """Best speeds seen in about half a second, of arithmetic on registers and of copying `copy_mib` MiB.

    Raises CompileError where the kernels do not compile.
    """
    fma, copy = (KernelSource.of(text, target) for text in (fma_text(target.lanes), copy_text(target.lanes)))
    kernels = compile_kernels([fma, copy], target, cache=cache)
    with KernelLibrary(target) as library:
        addresses = [library.add(source.key, kernels[source.key].object) for source in (fma, copy)]
        return MachinePeak(
            nthreads, _gflops(addresses[0], target.lanes, nthreads), _copy_gbs(addresses[1], nthreads, copy_mib << 20)
        )


def fma_text(lanes: int) -> str:
    """Module text of the arithmetic kernel; words 4 to 6: address of 64 bytes a thread, a count, a float's bits."""
    chains = [f"a{i}" for i in range(_CHAINS)]
    return _FMA.format(
        lanes=lanes,
        chains=", ".join(chains),
        zeros=", ".join(f"x * {i}" for i in range(_CHAINS)),
        body="\n        ".join(f"{a} = fma({a}, x, x)" for a in chains),
        total=" + ".join(chains),
    )


def copy_text(lanes: int) -> str:
    """Module text of the copy kernel: words 4 to 6 are source, destination, and bytes, a multiple of 4 vectors."""
    width = 4 * lanes
    loads = [f'v{i} = load(x + at + {i * width}, "float32", {lanes})' for i in range(4)]
    stores = [f"store(y + at + {i * width}, v{i})" for i in range(4)]
    return _COPY.format(step=4 * width, body="\n        ".join(loads + stores))


def _gflops(address: int, lanes: int, nthreads: int) -> float:
    out = np.zeros((nthreads, 16), np.float32)
    count = 200_000
    half = struct.unpack("<i", struct.pack("<f", 0.5))[0]
    seconds = best_seconds(address, [out.ctypes.data, count, half], nthreads)
    return 2.0 * _CHAINS * lanes * count * nthreads / seconds / 1e9


def _copy_gbs(address: int, nthreads: int, size: int) -> float:
    source, destination = np.ones(size, np.uint8), np.zeros(size, np.uint8)
    seconds = best_seconds(address, [source.ctypes.data, destination.ctypes.data, size], nthreads)
    return 2.0 * size / seconds / 1e9


def best_seconds(kernel: int, operands: list[int], nthreads: int) -> float:
    """The shortest of the runs that fit into a fifth of a second, at least three."""
    args = np.array([0, 0, 0, 0, *operands], np.int64)
    launch = Launch(np.array([[kernel, args.ctypes.data, 0, 0]], np.int64), nthreads)
    launch()
    took: list[float] = []
    end = time.perf_counter() + _SECONDS
    while len(took) < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        launch()
        took.append(time.perf_counter() - start)
    return min(took)
