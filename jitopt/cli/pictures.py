"""Pictures made of characters: bars and handwritten digits, in plain ASCII where the terminal has nothing else."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

BAR = 24  # characters of the longest bar
CELL = 2  # characters a pixel, as a character is about twice as high as wide
GREATEST = 16  # the brightest pixel


def unicode_output() -> bool:
    """Whether standard output can show block characters."""
    return (sys.stdout.encoding or "").lower().replace("-", "") in ("utf8", "utf16", "utf32")


def bar(share: float) -> str:
    """A bar for a share from 0 to 1, BAR characters wide, to an eighth of a character where possible."""
    if not unicode_output():
        return ("#" * round(share * BAR)).ljust(BAR)
    eighths = max(round(share * BAR * 8), 1 if share > 0 else 0)
    return ("█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()).ljust(BAR)


def draw_digits(shown: Sequence[dict[str, Any]]) -> list[str]:
    """Images side by side, then what each was read as with its probability, and what it is where that is wrong."""
    shades = " ░▒▓█" if unicode_output() else " .+*#"
    width = CELL * len(shown[0]["pixels"][0])
    lines = []
    for row in range(len(shown[0]["pixels"])):
        cells = (pixel for digit in shown for pixel in digit["pixels"][row])
        lines.append("".join(shades[round(p / GREATEST * (len(shades) - 1))] * CELL for p in cells).rstrip())
    names = (f"{d['read']} ({d['probability']:.1%})".center(width) for d in shown)
    truths = ("" if d["read"] == d["label"] else f"it is a {d['label']}" for d in shown)
    lines.append("".join(names).rstrip())
    lines.append("".join(truth.center(width) for truth in truths).rstrip())
    return [line for line in lines if line] if not lines[-1] else lines
