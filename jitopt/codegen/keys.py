"""Cache keys: digests of everything a compiled thing depends on, so that no stale one is ever found."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence
from importlib import metadata, resources
from importlib.resources.abc import Traversable

from jitopt_kernels.targets import Target


def kernel_key(text: str, target: Target) -> str:
    """The digest under which a kernel is compiled once and kept: 32 hexadecimal digits.

    Covers the module text, the sources of `jitopt_kernels` and of the emitter, the versions of Numba and llvmlite
    (read without importing them), and the CPU name and features compiled for.
    """
    return digest([text.encode(), toolchain_digest().encode(), target.cpu.encode(), target.features.encode()])


def digest(parts: Sequence[bytes]) -> str:
    """32 hexadecimal digits (BLAKE2b) that differ whenever the list of parts does."""
    state = hashlib.blake2b(digest_size=16)
    for part in parts:
        state.update(len(part).to_bytes(8, "little"))
        state.update(part)
    return state.hexdigest()


@functools.cache
def package_digest(package: str) -> str:
    """Digest of the names and contents of a package's Python files, subpackages included."""
    return digest(_sources(resources.files(package), ""))


@functools.cache
def toolchain_digest() -> str:
    """Digest of everything beside text and target that an object depends on."""
    codegen = resources.files("jitopt.codegen")
    parts = [codegen.joinpath(name).read_bytes() for name in ("emitter.py", "worker.py")]
    parts += [f"{name} {metadata.version(name)}".encode() for name in ("numba", "llvmlite")]
    return digest([*parts, package_digest("jitopt_kernels").encode()])


def _sources(folder: Traversable, prefix: str) -> list[bytes]:
    parts: list[bytes] = []
    for item in sorted(folder.iterdir(), key=lambda item: item.name):
        if item.is_dir():
            parts += _sources(item, f"{prefix}{item.name}/")
        elif item.name.endswith(".py"):
            parts += [f"{prefix}{item.name}".encode(), item.read_bytes()]
    return parts
