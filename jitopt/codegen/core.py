"""Cores: the part of a module's text that all kernels of one template and equal constants share; loads no compiler."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from jitopt_kernels.targets import Target

from jitopt.codegen.cache import Cache
from jitopt.codegen.keys import LIBRARY, kernel_key

CORE = "# The core: the same for every kernel of this template and these constants, compiled once and linked.\n"
"""The line of a module's text from which on it does not depend on the epilogue."""

KIND = "cores"


@dataclass(frozen=True)
class Core:
    """A compiled core: LLVM bitcode, and the name of its kernel function in there."""

    bitcode: bytes
    native: str


NO_CORE = Core(b"", "")


def core_key(text: str, target: Target) -> str:
    """The key of the core of a module text, "" where it has none.

    It covers the library module by which a core calls its epilogue, which the text does not name.
    """
    core = text.partition(CORE)[2]
    return kernel_key(f"import {LIBRARY}.simd.epilogue\n{core}", target) if core else ""


class Cores:
    """The cores of one compile for one target: found in the cache or made on the way, which they are then kept in.

    The cache is asked once for each of the `keys`, before any worker waits for an answer.
    """

    def __init__(self, target: Target, cache: Cache | None, keys: Iterable[str]) -> None:
        self._target, self._cache = target, cache
        found = {key: self._load(key) for key in keys if key}
        self._known = {key: core for key, core in found.items() if core is not None}

    def find(self, key: str) -> Core | None:
        """The core with this key, if there is one for this target."""
        return self._known.get(key)

    def keep(self, key: str, core: Core | None) -> None:
        """Remember a core that was compiled, if one was, in place of any that was found."""
        if core is None:
            return
        if self._cache is not None:
            header = {"cpu": self._target.cpu, "features": self._target.features, "native": core.native}
            self._cache.store(KIND, key, header, {"bitcode": core.bitcode})
        self._known[key] = core

    def _load(self, key: str) -> Core | None:
        entry = None if self._cache is None else self._cache.load(KIND, key)
        if entry is None or not self._fits(entry.header) or "bitcode" not in entry.sections:
            return None
        return Core(bytes(entry.sections["bitcode"]), str(entry.header["native"]))

    def _fits(self, header: dict[str, str]) -> bool:
        expected = (self._target.cpu, self._target.features)
        return (header.get("cpu"), header.get("features")) == expected and "native" in header
