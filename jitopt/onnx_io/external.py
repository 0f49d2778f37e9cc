"""Tensor data in files beside the model, read only from the model's own folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from jitopt.errors import MemoryLimitError, ModelError
from jitopt.onnx_io.text import text

Array = np.ndarray[Any, Any]


class Budget:
    """Bytes that the constants of one model may take; `limit` None means as many as there are."""

    def __init__(self, limit: int | None) -> None:
        self.limit, self.used = limit, 0

    def take(self, size: int, what: str) -> None:
        """Count `size` bytes about to be allocated. Raises MemoryLimitError, before it happens."""
        self.used += size
        if self.limit is not None and self.used > self.limit:
            raise MemoryLimitError(
                f"{what} takes {size} bytes; the constants would need {self.used}, more than the {self.limit} allowed",
                remedy="raise max_memory",
            )


@dataclass(frozen=True)
class Folder:
    """Where a model's data files may lie: beside it, or where they are linked to if the model itself is a link.

    A download cache keeps links to a store; then model and data lead to the same folder of that store.
    """

    path: Path
    roots: tuple[Path, ...]

    @staticmethod
    def of(model: Path) -> Folder:
        """The folder of a model file that exists."""
        return Folder(model.parent, (model.parent.resolve(), model.resolve().parent))


def read_external(proto: Any, expected: int, folder: Folder | None, what: str) -> Array:
    """The raw bytes of a TensorProto whose data lie in another file, as a uint8 array of `expected` bytes.

    Raises ModelError, naming the file, where it is missing, outside the model's folder, or too short.
    """
    keys = {text(e.key, what): text(e.value, what) for e in proto.external_data}
    location = keys.get("location", "")
    if not location:
        raise ModelError(f"{what} has external data without a location")
    if folder is None:
        raise ModelError(
            f"{what} lies in the file '{location}', but a model given as bytes has no folder",
            remedy="pass the model's path",
        )
    path = _inside(location, folder, what)
    offset, length = _number(keys, "offset", 0, what), _number(keys, "length", expected, what)
    if length != expected:
        raise ModelError(f"{what} has {length} bytes in '{location}' where its shape needs {expected}")
    try:
        size = path.stat().st_size
        if offset + expected > size:
            raise ModelError(
                f"{what} needs bytes {offset} to {offset + expected} of '{location}', which has {size}",
                remedy="the file is incomplete; fetch it again",
            )
        with path.open("rb") as file:
            file.seek(offset)
            data = np.fromfile(file, np.uint8, expected)
    except OSError as error:
        raise ModelError(f"{what}: cannot read '{path}': {error.strerror}") from None
    if data.size != expected:
        raise ModelError(f"{what}: '{location}' ended after {data.size} of {expected} bytes")
    return data


def _inside(location: str, folder: Folder, what: str) -> Path:
    """The file's path. Symbolic links may not lead out of the folder either."""
    pure = PurePosixPath(location)
    outside = ModelError(f"{what} lies in '{location}', which is outside the model's folder '{folder.path}'")
    if pure.is_absolute() or ".." in pure.parts or "\\" in location or "\0" in location:
        raise outside
    path = folder.path / pure
    try:
        real, missing = path.resolve(), not path.is_file()
    except (OSError, RuntimeError) as error:
        raise ModelError(f"{what}: cannot read '{path}': {error}") from None
    if not any(real.is_relative_to(root) for root in folder.roots):
        raise outside
    if missing:
        raise ModelError(f"{what} lies in '{location}', which does not exist in '{folder.path}'")
    return path


def _number(keys: dict[str, str], key: str, default: int, what: str) -> int:
    written = keys.get(key, "")
    if not written:
        return default
    if not (written.isascii() and written.isdigit() and len(written) < 20):
        raise ModelError(f"{what} has the external data {key} {written!r}, which is no size")
    return int(written)
