"""Cache keys: digests of everything a compiled thing depends on, so that no stale one is ever found."""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.util
from collections.abc import Iterable, Iterator, Sequence
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

import llvmlite
from jitopt_kernels.targets import Target

LIBRARY = "jitopt_kernels"


def kernel_key(text: str, target: Target) -> str:
    """The digest under which a kernel is compiled once and kept: 32 hexadecimal digits.

    Covers the module text, the sources of the parts of `jitopt_kernels` it imports, of the emitter, the versions of
    Numba and llvmlite (read without importing them), and the CPU name and features compiled for.
    """
    library = _library_digest(frozenset(_imports(text.encode(), "")))
    return digest(
        [text.encode(), library.encode(), toolchain_digest().encode(), target.cpu.encode(), target.features.encode()]
    )


def digest(parts: Sequence[bytes]) -> str:
    """32 hexadecimal digits (BLAKE2b) that differ whenever the list of parts does."""
    state = hashlib.blake2b(digest_size=16)
    for part in parts:
        state.update(len(part).to_bytes(8, "little"))
        state.update(part)
    return state.hexdigest()


@functools.cache
def toolchain_digest() -> str:
    """Digest of everything beside text, library and target that an object depends on."""
    codegen = resources.files("jitopt.codegen")
    parts = [codegen.joinpath(name).read_bytes() for name in ("core.py", "emitter.py", "linking.py", "worker.py")]
    return digest([*parts, _numba_version(), llvmlite.__version__.encode()])


@functools.cache
def package_digest() -> str:
    """Digest of every source file of jitopt and its kernel library: of what may change what a model becomes."""
    return digest([part for name in ("jitopt", LIBRARY) for part in _sources(resources.files(name), name)])


def _sources(folder: Traversable, name: str) -> Iterator[bytes]:
    """Names and contents of the sources in a folder and those within it, in a fixed order."""
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        inner = f"{name}/{entry.name}"
        if entry.is_dir():
            yield from _sources(entry, inner)
        elif entry.name.endswith(".py"):
            yield from (inner.encode(), entry.read_bytes())


def _numba_version() -> bytes:
    """What names the installed Numba, without importing it or, as a rule, `importlib.metadata` (10 ms)."""
    spec = importlib.util.find_spec("numba")
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        version = Path(folder) / "_version.py"
        if version.is_file():
            return version.read_bytes()
    from importlib import metadata

    return metadata.version("numba").encode()


@functools.cache
def _library_digest(imported: frozenset[str]) -> str:
    return digest([_source(name) for name in library_modules(imported)])


def library_modules(imported: Iterable[str]) -> list[str]:
    """The named modules of the kernel library and those they import, directly or through others, sorted."""
    found: set[str] = set()
    waiting = set(imported)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting |= _library_imports(name)
    return sorted(found)


@functools.cache
def _library_imports(name: str) -> frozenset[str]:
    return frozenset(_imports(_source(name), name))


def _imports(source: bytes, importer: str) -> set[str]:
    """Modules of the library that a source names in import statements, with the packages they lie in."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                path = _path(importer)
                is_package = path is not None and path.name == "__init__.py"
                inside = importer.split(".") if is_package else importer.split(".")[:-1]
                base = ".".join([*inside[: len(inside) - node.level + 1], *([base] if base else [])])
            names = [base, *(f"{base}.{alias.name}" for alias in node.names)]
        else:
            continue
        for name in names:
            parts = name.split(".")
            found |= {p for i in range(len(parts)) if (p := ".".join(parts[: i + 1])).split(".")[0] == LIBRARY}
    return {name for name in found if _path(name) is not None}


def _path(name: str) -> Traversable | None:
    """The file of a library module or package; None for a name that is neither."""
    *folders, last = name.split(".")[1:] or [""]
    folder = resources.files(LIBRARY).joinpath(*folders)
    for candidate in (folder.joinpath(last, "__init__.py"), folder.joinpath(f"{last}.py")):
        if candidate.is_file():
            return candidate
    return None


@functools.cache
def _source(name: str) -> bytes:
    path = _path(name)
    assert path is not None
    return path.read_bytes()
