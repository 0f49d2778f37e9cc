"""The README's picture: the waterfall of ResNet-50 as bars, drawn from the results of `bench.report`."""

from __future__ import annotations

from html import escape
from typing import Any

WIDTH, ROW, LEFT, RIGHT, TOP = 720, 34, 190, 90, 48
OURS, FIRST, THEIRS, INK, FAINT, PAPER = "#2a78d6", "#9aa7b4", "#c98a1b", "#24292f", "#57606a", "#ffffff"


def waterfall(results: dict[str, Any]) -> str:
    """An SVG with one bar a step; the lengths are milliseconds a run."""
    part = results["demo"]["resnet50"]
    rows = [(row["name"], row["ms"], OURS if i else FIRST) for i, row in enumerate(part["waterfall"])]
    if part["onnxruntime_ms"] is not None:
        rows.append(("ONNX Runtime", part["onnxruntime_ms"], THEIRS))
    most = max(ms for _, ms, _ in rows)
    height = TOP + ROW * len(rows) + 14
    machine = results["demo"]["machine"]
    title = f"ResNet-50, one 224x224 picture, {machine['threads']} threads, {machine['target']}: milliseconds a run"
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" '
        f'font-size="14" role="img" aria-label="{escape(title)}">',
        f'<rect width="{WIDTH}" height="{height}" rx="8" fill="{PAPER}"/>',
        f'<text x="16" y="28" fill="{INK}" font-weight="bold">{escape(title)}</text>',
    ]
    for index, (name, ms, colour) in enumerate(rows):
        y, length = TOP + index * ROW, (WIDTH - LEFT - RIGHT) * ms / most
        lines += [
            f'<text x="{LEFT - 10}" y="{y + 17}" text-anchor="end" fill="{INK}">{escape(name)}</text>',
            f'<rect x="{LEFT}" y="{y}" width="{length:.1f}" height="{ROW - 10}" rx="3" fill="{colour}"/>',
            f'<text x="{LEFT + length + 8:.1f}" y="{y + 17}" fill="{FAINT}">{ms:.1f}</text>',
        ]
    return "\n".join([*lines, "</svg>", ""])
