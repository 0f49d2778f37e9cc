"""Tables in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table; all columns but the first are aligned right."""
    lines = [" | ".join(columns), " | ".join(["---", *["---:"] * (len(columns) - 1)])]
    return "\n".join(f"| {line} |" for line in [*lines, *(" | ".join(map(str, row)) for row in rows)])
