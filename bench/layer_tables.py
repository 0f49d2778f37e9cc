"""What `bench.layers` measured, as Markdown."""

from __future__ import annotations

from typing import Any

from bench.adapters import CONTESTANTS
from bench.contest import geometric_mean
from bench.markdown import table
from bench.peer_tables import counts, heading, named

STATES = ("warm", "cold")


def line(row: dict[str, Any]) -> str:
    """A row in one line, for who waits."""
    head = f"{row['layer']}, {named(row['threads'])}:"
    if row["remark"]:
        return f"{head} {row['remark']}"
    return f"{head} " + "; ".join(
        f"{state} {row['flops'] / row[state]['kernel'] / 1e9:.1f} GFLOP/s, ratio {_ratio(row, state)}"
        for state in STATES
        if state in row
    )


def report(found: dict[str, Any]) -> str:
    """Heading, for each number of threads a table of kernels and one of whole runs, then what was not measured."""
    parts = [heading(found), "GFLOP/s count what direct convolution computes: Winograd's can pass the peak."]
    for threads in counts(found):
        parts += [f"## {named(threads)}", kernels(found, threads), runs(found, threads)]
    left_out = [f"- {model}: {why}" for model, why in found["missing"].items()]
    for row in found["rows"]:
        where = f"{row['layer']} ({row['threads']})"
        left_out += [f"- {where}: {row['remark']}"] if row["remark"] else []
        left_out += [f"- {CONTESTANTS[name].title}, {where}: {why}" for name, why in row.get("absent", {}).items()]
    return "\n\n".join([*parts, "\n".join(left_out)]).rstrip()


def kernels(found: dict[str, Any], threads: int) -> str:
    """Microseconds, GFLOP/s and share of the measured peak of every kernel."""
    peaks = {peak["threads"]: peak["fma_gflops"] for peak in found["machine"]["peaks"]}
    cells = []
    for row in _measured(found, threads):
        figures: list[str] = []
        for state in STATES:
            figures += _speed(row[state]["kernel"], row["flops"], peaks.get(threads)) if state in row else [""] * 3
        cells.append((row["layer"], _models(row), f"{row['flops'] / 1e6:.1f}", *figures))
    columns = [f"{state} {what}" for state in STATES for what in ("us", "GFLOP/s", "of peak")]
    return table(("layer", "in", "MFLOP", *columns), cells)


def runs(found: dict[str, Any], threads: int) -> str:
    """Microseconds of whole runs of everybody, and the best of the others over ours; below 1 we are slower."""
    rows = _measured(found, threads)
    names = [name for name in CONTESTANTS if any(name in row["warm"]["runs"] for row in rows)]
    cells = []
    for row in rows:
        figures = []
        for state in STATES:
            taken = row.get(state, {}).get("runs", {})
            figures += [f"{taken[name] * 1e6:.1f}" if name in taken else "" for name in names]
            figures.append(_ratio(row, state) if state in row else "")
        cells.append((row["layer"], *figures))
    means = []
    for state in STATES:
        mean = geometric_mean(row[state]["ratio"] for row in rows if state in row and row[state]["ratio"] is not None)
        means += [*[""] * len(names), "" if mean is None else f"{mean:.2f}"]
    columns = [f"{state} {what}" for state in STATES
               for what in (*(f"{CONTESTANTS[name].title} us" for name in names), "best other / jitopt")]  # fmt: skip
    return table(("layer, whole run", *columns), [*cells, ("geometric mean", *means)])


def _measured(found: dict[str, Any], threads: int) -> list[dict[str, Any]]:
    return [row for row in found["rows"] if row["threads"] == threads and not row["remark"]]


def _models(row: dict[str, Any]) -> str:
    return ", ".join(f"{model} {count}x" if count > 1 else model for model, count in row["models"].items())


def _speed(seconds: float, flops: float, peak: float | None) -> list[str]:
    gflops = flops / seconds / 1e9
    return [f"{seconds * 1e6:.1f}", f"{gflops:.1f}", "" if peak is None else f"{gflops / peak:.0%}"]


def _ratio(row: dict[str, Any], state: str) -> str:
    ratio = row[state]["ratio"]
    return "-" if ratio is None else f"{ratio:.2f}"
