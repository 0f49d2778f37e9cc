"""The symbol table of an ELF object: what it defines for others and what it expects from them.

Only what the emitter's check needs is read (System V ABI, "Object Files": ELF header, section headers, symbol table);
64-bit little-endian ELF, which is what every target of the table emits.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")

_SHT_SYMTAB = 2
_STB_LOCAL = 0
_SHN_UNDEF = 0


@dataclass(frozen=True)
class Symbols:
    """Names of an object's symbols that concern others: `defined` are global or weak, `undefined` must be supplied."""

    defined: frozenset[str]
    undefined: frozenset[str]


def read_symbols(code: bytes) -> Symbols:
    """The global symbols of an ELF64 object; raises ValueError when `code` is no such object or is cut short."""
    try:
        return _read(code)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise ValueError(f"damaged ELF object of {len(code)} bytes") from error


def _read(code: bytes) -> Symbols:
    identity, *rest = _HEADER.unpack_from(code)
    if identity[:6] != b"\x7fELF\x02\x01":
        raise ValueError("not a 64-bit little-endian ELF object")
    section_table, section_size, section_count = rest[5], rest[10], rest[11]
    sections = [_SECTION.unpack_from(code, section_table + i * section_size) for i in range(section_count)]
    defined: set[str] = set()
    undefined: set[str] = set()
    for _, kind, _, _, offset, size, link, _, _, entry_size in sections:
        if kind != _SHT_SYMTAB:
            continue
        if entry_size != _SYMBOL.size or offset + size > len(code):
            raise ValueError("damaged ELF symbol table")
        names = sections[link][4]
        for at in range(offset, offset + size, entry_size):
            name, info, _, section, _, _ = _SYMBOL.unpack_from(code, at)
            if not name:
                continue
            text = code[names + name : code.index(b"\0", names + name)].decode()
            if section == _SHN_UNDEF:
                undefined.add(text)
            elif info >> 4 != _STB_LOCAL:
                defined.add(text)
    return Symbols(frozenset(defined), frozenset(undefined))
