"""The text form of the bytes of a buffer that a step touches, in programs and plans.

%x                      the whole buffer
%x[128, 64]             64 bytes from byte 128 on
%x[128, 64, n, 4096]    as many in each of n images, which lie 4096 bytes apart
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from jitopt.ir.dims import Dim
from jitopt.ir.lexer import Cursor
from jitopt.ir.text_dims import dim_text

T = TypeVar("T")


def extent_text(offset: Dim, size: Dim | None, images: Dim, stride: Dim) -> str:
    """What stands behind the buffer's name; `size` None is the whole buffer."""
    if size is None:
        return ""
    dims = (offset, size) if (images, stride) == (1, 0) else (offset, size, images, stride)
    return f"[{', '.join(map(dim_text, dims))}]"


def parse_extent(cursor: Cursor, item: Callable[[Cursor], T]) -> list[T]:
    """What `extent_text` prints: no, two or four dims. Raises ModelError for any other number."""
    found: list[T] = []
    if not cursor.accept("["):
        return found
    at = cursor.peek.at
    while not cursor.accept("]"):
        if found:
            cursor.expect(",")
        found.append(item(cursor))
    if len(found) not in (2, 4):
        raise cursor.error(f"expected two or four dims of a region, found {len(found)}", at)
    return found
