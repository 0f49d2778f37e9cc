"""Model files: a path, bytes or a ModelProto to a ModelProto, and where it came from."""

from __future__ import annotations

import logging
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from onnx import ModelProto

from jitopt.errors import ModelError
from jitopt.onnx_io.external import Folder
from jitopt.onnx_io.schema import NEWEST_IR, check_versions
from jitopt.onnx_io.text import domain_of, text

log = logging.getLogger("jitopt.onnx_io")
_MOST_BYTES = 2**31 - 1


@dataclass(frozen=True)
class Source:
    """A parsed model; `folder` is where its external data may lie, None where it did not come from a file."""

    proto: Any
    name: str
    folder: Folder | None
    opsets: dict[str, int]


def load(source: str | os.PathLike[str] | bytes | Any, name: str | None = None) -> Source:
    """Parse what `read_model` takes, and check what concerns the file as a whole.

    Raises ModelError for a file that cannot be read, is truncated or not ONNX, or needs other versions; TypeError
    for a source of another type.
    """
    folder = None
    if isinstance(source, ModelProto):
        proto, label = source, name or "model"
    elif isinstance(source, (bytes, bytearray, memoryview)):
        label = name or "model"
        proto = _parse(bytes(source), label)
    elif isinstance(source, (str, os.PathLike)):
        path = Path(source)
        label = name or str(path)
        proto = _parse(_read(path, label), label)
        folder = Folder.of(path)
    else:
        raise TypeError(f"a model is a path, bytes or a ModelProto, not {type(source).__name__}")
    try:
        return Source(proto, label, folder, _check(proto))
    except ModelError as error:
        raise error.at(model=label) from None


def _read(path: Path, label: str) -> bytes:
    try:
        status = path.stat()
        if stat.S_ISREG(status.st_mode) and status.st_size <= _MOST_BYTES:
            return path.read_bytes()
        reason = "it is larger than 2 GB, which no protobuf message is" if stat.S_ISREG(status.st_mode) else "no file"
    except (OSError, ValueError) as error:
        reason = str(error.strerror) if isinstance(error, OSError) else str(error)
    raise ModelError(f"the file cannot be read: {reason}", model=label)


def _parse(data: bytes, label: str) -> Any:
    proto = ModelProto()
    try:
        proto.ParseFromString(data)
    except DecodeError:
        reason = "the file is empty" if not data else "the bytes are not an ONNX model, or it is truncated"
        raise ModelError(reason, model=label, remedy="fetch or export the model again") from None
    return proto


def opsets_of(imports: Any) -> dict[str, int]:
    """Domain to version. Raises ModelError where a domain is imported at two versions, or at one not known here."""
    opsets: dict[str, int] = {}
    for entry in imports:
        domain = domain_of(entry.domain)
        if entry.version < 1:
            raise ModelError(f"the domain '{domain or 'ai.onnx'}' is imported at version {entry.version}")
        if opsets.setdefault(domain, entry.version) != entry.version:
            raise ModelError(f"the domain '{domain or 'ai.onnx'}' is imported at two versions")
    check_versions(opsets)
    return opsets


def _check(proto: Any) -> dict[str, int]:
    if not proto.HasField("graph"):
        raise ModelError("the file holds no graph, so it is not an ONNX model, or it is truncated")
    if proto.ir_version < 1:
        raise ModelError("the file has no IR version, so it is not an ONNX model, or it is damaged")
    opsets = opsets_of(proto.opset_import)
    if not opsets:
        raise ModelError("the model imports no operator set, so its operators' versions are unknown")
    if proto.ir_version > NEWEST_IR:
        log.warning(
            "%s: IR version %d is newer than %d, the newest known here; fields added since are ignored",
            text(proto.graph.name, "the graph's name"), proto.ir_version, NEWEST_IR,
        )  # fmt: skip
    return opsets
