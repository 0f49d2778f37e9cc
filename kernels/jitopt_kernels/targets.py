"""The instruction sets kernels are compiled for, as plain data; imports neither Numba nor llvmlite.

A target fixes the CPU name and the feature list together (a name alone would leave the host's other features on),
the vector width, and the tile sizes the kernels use. Objects therefore depend on the target and not on the machine
that emitted them: every AVX2 machine runs the same code and gets the same bits.

Tile sizes follow from the registers: a tile of m x n accumulators also needs n vectors of B and one or two
broadcasts of A. With 16 registers 12 accumulators are the most that stay in registers; with 32, 28.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

FLOAT32_BYTES = 4


@dataclass(frozen=True)
class Target:
    """One instruction set.

    `cpu` and `features` go to LLVM together. `heights` are tile rows, tallest first, ending in 1 (at most five a
    kernel: each costs about 0.1 s of compile time); `panel` is the tile's width in vectors.
    `depthwise_columns` is the width of a depthwise tile: taps of a 3x3 filter, columns and a pixel fit the registers.
    """

    name: str
    arch: str
    cpu: str
    features: str
    vector_bytes: int
    registers: int
    gemm_heights: tuple[int, ...]
    gemm_panel: int
    conv_heights: tuple[int, ...]
    conv_panel: int
    depthwise_columns: int
    fused_multiply_add: bool = True

    @property
    def lanes(self) -> int:
        """float32 lanes of one vector: also the c of the blocked layout NCHWc."""
        return self.vector_bytes // FLOAT32_BYTES

    @property
    def required(self) -> frozenset[str]:
        """Names of the CPU features a host must have to run this target's code."""
        return frozenset(part[1:] for part in self.features.split(",") if part.startswith("+"))

    def runs_on(self, host_features: Mapping[str, bool] | Iterable[str]) -> bool:
        """Whether a host with these features runs the target's code."""
        return self.required <= feature_names(host_features)


_V2 = "+64bit,+cmov,+cx8,+cx16,+fxsr,+sahf,+sse,+sse2,+sse3,+ssse3,+sse4.1,+sse4.2,+crc32,+popcnt"
_V3 = f"{_V2},+avx,+avx2,+bmi,+bmi2,+f16c,+fma,+lzcnt,+movbe,+xsave"
_V4 = f"{_V3},+avx512f,+avx512bw,+avx512cd,+avx512dq,+avx512vl"

TARGETS: dict[str, Target] = {
    target.name: target
    for target in (
        Target(
            name="avx512",
            arch="x86_64",
            cpu="x86-64-v4",
            features=f"{_V4},-prefer-256-bit",
            vector_bytes=64,
            registers=32,
            gemm_heights=(8, 4, 2, 1),
            gemm_panel=3,
            conv_heights=(14, 7, 4, 2, 1),
            conv_panel=2,
            depthwise_columns=12,
        ),
        Target(
            name="avx2",
            arch="x86_64",
            cpu="x86-64-v3",
            features=f"{_V3},-avx512f",
            vector_bytes=32,
            registers=16,
            gemm_heights=(4, 3, 1),
            gemm_panel=3,
            conv_heights=(6, 4, 3, 1),
            conv_panel=2,
            depthwise_columns=7,
        ),
        Target(
            name="x86-64-v2",
            arch="x86_64",
            cpu="x86-64-v2",
            features=f"{_V2},-avx,-fma,-avx512f",
            vector_bytes=16,
            registers=16,
            gemm_heights=(2, 1),
            gemm_panel=4,
            conv_heights=(4, 3, 2, 1),
            conv_panel=2,
            depthwise_columns=4,
            fused_multiply_add=False,
        ),
        Target(
            name="neon",
            arch="aarch64",
            cpu="generic",
            features="+neon,+fp-armv8",
            vector_bytes=16,
            registers=32,
            gemm_heights=(6, 4, 2, 1),
            gemm_panel=4,
            conv_heights=(12, 7, 4, 2, 1),
            conv_panel=2,
            depthwise_columns=12,
        ),
    )
}


def feature_names(host_features: Mapping[str, bool] | Iterable[str]) -> frozenset[str]:
    """The enabled names of a feature map (llvmlite's `get_host_cpu_features()`) or of a plain list of names."""
    if isinstance(host_features, Mapping):
        return frozenset(name for name, enabled in host_features.items() if enabled)
    return frozenset(host_features)


def select_target(name: str | None, host_cpu: str, host_features: Mapping[str, bool] | Iterable[str]) -> Target:
    """The target called `name`, or the best one whose features the host has when `name` is None.

    `TARGETS` lists them best first. Raises ValueError when the name is unknown or the host cannot run the target's
    code; the message names what is missing.
    """
    features = feature_names(host_features)
    if name is None:
        for target in TARGETS.values():
            if target.runs_on(features):
                return target
        raise ValueError(f"CPU {host_cpu!r} runs none of the targets {', '.join(TARGETS)}")
    if name not in TARGETS:
        raise ValueError(f"unknown target {name!r}; the targets are {', '.join(TARGETS)}")
    missing = TARGETS[name].required - features
    if missing:
        raise ValueError(f"CPU {host_cpu!r} cannot run target {name!r}: it lacks {', '.join(sorted(missing))}")
    return TARGETS[name]
