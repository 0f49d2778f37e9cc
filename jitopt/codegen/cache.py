"""Compiled things on disk: one file an entry, a JSON header and raw sections, each under a checksum.

    "jitopt\0\1" | u32 header length | u32 header CRC | header JSON | padding | section | padding | section ...

Sections begin at multiples of 64 bytes, in the file and in memory. There is no pickle: nothing of an entry runs by
being read. An entry is written beside its place and renamed into it, and never changed afterwards, so readers and
writers in many processes need no lock. Only a folder that belongs to the user and is closed to others is read.
Whatever is wrong with an entry, it is rebuilt; whatever is wrong with the folder costs one warning, then small
entries (kernels) are kept in memory only. A folder that can be read but not written still serves what it holds.
"""

from __future__ import annotations

import json
import logging
import mmap
import os
import struct
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import platformdirs

logger = logging.getLogger("jitopt")

_MAGIC = b"jitopt\0\1"
_PREFIX = struct.Struct("<8sII")
_ALIGNMENT = 64
_MEMORY_ENTRY_BYTES = 1 << 20

_README = """Compiled kernels and models of jitopt. `jitopt cache clear` empties this folder; deleting it does no harm.

kernels/*.py    the source of every kernel, as Numba compiled it
kernels/*.bin   its object code for one CPU
cores/*.bin     what kernels of one family have in common, as LLVM bitcode
drivers/*.bin   the object code that runs a model's kernels one after another
verdicts/*.bin  whether a model's answers were found right, and what it does without
"""

Buffer = bytes | bytearray | memoryview

_opened: dict[Path, Cache] = {}


@dataclass(frozen=True)
class Entry:
    """A loaded entry. Sections are views of one private block of memory, writable and 64-byte aligned."""

    header: dict[str, Any]
    sections: dict[str, memoryview]


class Cache:
    """A folder of entries, addressed by kind ("kernels", "programs") and key (a hexadecimal digest)."""

    def __init__(self, folder: Path) -> None:
        """Use `folder`, created when missing; where it cannot be used one warning is logged."""
        self.folder = folder
        self._memory: dict[tuple[str, str], bytes] = {}
        self._readable = self._writable = self._prepare()

    @classmethod
    def default(cls) -> Cache:
        """The cache in JITOPT_CACHE_DIR or the user's cache folder; one object a folder and process."""
        base = os.environ.get("JITOPT_CACHE_DIR") or platformdirs.user_cache_dir("jitopt", appauthor=False)
        folder = Path(base).absolute() / "v1"
        if folder not in _opened:
            _opened[folder] = cls(folder)
        return _opened[folder]

    @property
    def writable(self) -> bool:
        """Whether new entries reach the disk; false after the warning."""
        return self._writable

    def load(self, kind: str, key: str) -> Entry | None:
        """The entry stored under (kind, key); None when there is none or it is damaged or not the user's."""
        path = self.entry_path(kind, key)
        try:
            if (kind, key) in self._memory:
                return _decode(memoryview(bytearray(self._memory[kind, key])), kind, key)
            if not self._readable:
                return None
            with os.fdopen(os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0)), "rb", buffering=0) as source:
                status = os.fstat(source.fileno())
                if status.st_uid != os.geteuid() or status.st_mode & 0o022:
                    raise ValueError("it belongs to another user or others may write to it")
                if status.st_size < _PREFIX.size:
                    raise ValueError("it is cut short")
                block = mmap.mmap(-1, status.st_size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
                if source.readinto(block) != status.st_size:
                    raise ValueError("it is cut short")
            return _decode(memoryview(block), kind, key)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            logger.info("cache entry %s is rebuilt: %s", path, error)
            return None

    def store(self, kind: str, key: str, header: Mapping[str, Any], sections: Mapping[str, Buffer]) -> bool:
        """Keep an entry; whether it reached the disk. The header must be JSON. An existing entry is replaced."""
        parts = _encode(kind, key, header, sections)
        kept = self._write(self.entry_path(kind, key), parts)
        if not kept and sum(map(len, parts)) <= _MEMORY_ENTRY_BYTES:
            self._memory[kind, key] = b"".join(parts)
        return kept

    def store_text(self, kind: str, key: str, text: str) -> Path | None:
        """Keep a kernel's source beside its entry for people and debuggers to read; its path, or None."""
        path = self.entry_path(kind, key).with_suffix(".py")
        if self._readable and path.exists():
            return path
        return path if self._write(path, [text.encode()]) else None

    def entry_path(self, kind: str, key: str) -> Path:
        """Where the entry is or would be."""
        if not (kind.isidentifier() and key.isalnum()):
            raise ValueError(f"cannot name a cache entry {kind!r} {key!r}")
        return self.folder / kind / f"{key}.bin"

    def size_bytes(self) -> int:
        """Bytes of all files in the folder."""
        return sum(path.stat().st_size for path in self._files())

    def clear(self) -> int:
        """Remove every entry; returns how many files went. Processes that loaded one keep what they have."""
        self._memory.clear()
        files = list(self._files())
        for path in files:
            path.unlink(missing_ok=True)
        return len(files)

    def _files(self) -> Iterator[Path]:
        return (path for path in self.folder.glob("*/*") if path.is_file()) if self._readable else iter(())

    def _prepare(self) -> bool:
        try:
            self.folder.parent.mkdir(parents=True, exist_ok=True)
            self.folder.mkdir(mode=0o700, exist_ok=True)
            status = self.folder.lstat()
            if status.st_uid != os.geteuid() or status.st_mode & 0o077:
                raise PermissionError(f"{self.folder} must belong to this user and be closed to others (mode 0700)")
            readme = self.folder / "README"
            if not readme.exists() and os.access(self.folder, os.W_OK):
                readme.write_text(_README)
        except OSError as error:
            _warn(error)
            return False
        return True

    def _write(self, path: Path, parts: list[Buffer]) -> bool:
        if not self._writable:
            return False
        temporary = None
        try:
            path.parent.mkdir(mode=0o700, exist_ok=True)
            handle, temporary = tempfile.mkstemp(prefix=".", suffix=".tmp", dir=path.parent)
            with os.fdopen(handle, "wb") as out:
                out.writelines(parts)
            Path(temporary).replace(path)
        except OSError as error:
            if temporary is not None:
                Path(temporary).unlink(missing_ok=True)
            self._writable = False
            _warn(error)
            return False
        return True


def _warn(error: OSError) -> None:
    logger.warning("compiled kernels are not kept on disk: %s (JITOPT_CACHE_DIR moves the cache)", error)


def _encode(kind: str, key: str, header: Mapping[str, Any], sections: Mapping[str, Buffer]) -> list[Buffer]:
    """The parts of an entry's file, in order."""
    views = {name: memoryview(data).cast("B") for name, data in sections.items()}
    table = [[name, len(view), zlib.crc32(view)] for name, view in views.items()]
    head = json.dumps({"kind": kind, "key": key, "header": dict(header), "sections": table}).encode()
    parts: list[Buffer] = [_PREFIX.pack(_MAGIC, len(head), zlib.crc32(head)), head]
    at = _PREFIX.size + len(head)
    for view in views.values():
        parts += [bytes(-at % _ALIGNMENT), view]
        at += -at % _ALIGNMENT + len(view)
    return parts


def _decode(block: memoryview, kind: str, key: str) -> Entry:
    """Take an entry's file apart; raises ValueError when any part is not what was written under (kind, key)."""
    magic, length, checksum = _PREFIX.unpack_from(block)
    head = block[_PREFIX.size : _PREFIX.size + length]
    if magic != _MAGIC or len(head) != length or zlib.crc32(head) != checksum:
        raise ValueError("its header is damaged")
    content = json.loads(bytes(head))
    if content["kind"] != kind or content["key"] != key:
        raise ValueError("it is another entry")
    sections: dict[str, memoryview] = {}
    at = _PREFIX.size + length
    for name, size, expected in content["sections"]:
        at += -at % _ALIGNMENT
        sections[name] = block[at : at + size]
        if len(sections[name]) != size or zlib.crc32(sections[name]) != expected:
            raise ValueError(f"section {name} is damaged")
        at += size
    return Entry(content["header"], sections)
