"""What `bench.peers` measured, as Markdown: times and ratios, what loading and memory cost, and who did not run why."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from bench.adapters import CONTESTANTS, OURS
from bench.contest import geometric_mean
from bench.markdown import table
from bench.quiet import QUIET

STEPS = "operators: kernels + reorders"
"""Of the model as it is, and of a run of ours."""

Found = dict[str, Any]
Row = dict[str, Any]


def line(row: Row) -> str:
    """A row in one line, for who waits."""
    head = f"{row['model']}, {named(row['threads'])}:"
    if row["remark"]:
        return f"{head} {row['remark']}"
    times = [f"{name} {found['p50'] * 1e3:.2f}" for name, found in row["results"].items() if "p50" in found]
    return f"{head} {', '.join(times)} ms; ratio {_ratio(row)}"


def report(found: Found) -> str:
    """Everything: heading, a table of times and one of costs for each number of threads, remarks."""
    parts = [heading(found)]
    for threads in counts(found):
        parts += [f"## {named(threads)}", times(found, threads), costs(found, threads)]
    return "\n\n".join([*parts, remarks(found)]).rstrip()


def counts(found: Found) -> list[int]:
    """The numbers of threads measured."""
    return sorted({row["threads"] for row in found["rows"]})


def named(count: int) -> str:
    """The number with its noun."""
    return f"{count} thread{'s' * (count > 1)}"


def heading(found: Found) -> str:
    """Machine, versions and whether it was quiet."""
    machine = found["machine"]
    peaks = "; ".join(f"{p['fma_gflops']:.0f} GFLOP/s, {p['copy_gbs']:.1f} GB/s on {named(p['threads'])}"
                      for p in machine["peaks"])  # fmt: skip
    versions = {CONTESTANTS[n].package: each["version"] for n, each in found["contestants"].items() if each["version"]}
    return (
        f"Measured {found['date']} on {machine['cpu']}, {machine['threads_reason']}, target {machine['target']}; "
        f"measured peaks: {peaks}. {caution(found)} Python {machine['python']}, "
        f"{', '.join(f'{package} {version}' for package, version in versions.items())}."
    )


def caution(found: Found) -> str:
    """Whether other processes disturbed the times."""
    most = max((row.get("others", 0.0) for row in found["rows"]), default=0.0)
    if most <= QUIET:
        return "No other process used the CPUs meanwhile."
    return (
        f"**Other processes used up to {most:.1f} CPUs meanwhile: times are longer than on a machine of their own, and "
        "ratios are not to be relied on.**"
    )


def times(found: Found, threads: int) -> str:
    """Median milliseconds of every contestant that ran anywhere, and the best of the others over ours."""
    rows = _measured(found, threads)
    columns = _ran(rows)
    cells = [
        (row["model"], row["input"], _steps(row), *(_ms(row, name, "p50") for name in columns), _ratio(row, bold=True))
        for row in rows
    ]  # fmt: skip
    mean = geometric_mean(row["ratio"] for row in rows if row["ratio"] is not None)
    if mean is not None:
        cells.append(("geometric mean", "", "", *("" for _ in columns), f"**{mean:.2f}**"))
    titles = [f"{CONTESTANTS[name].title} ms" for name in columns]
    return table(("model", "input", STEPS, *titles, "best other / jitopt"), cells)


def costs(found: Found, threads: int) -> str:
    """Of every contestant: 99th percentile, seconds to load, memory it keeps, largest error; ours compiled cold."""
    cells = []
    for row in _measured(found, threads):
        for name, result in row["results"].items():
            if "p50" not in result:
                continue
            cold = row.get("cold_seconds") if name == OURS else None
            cells.append((
                row["model"], CONTESTANTS[name].title, _ms(row, name, "p50"), _ms(row, name, "p99"), result["runs"],
                f"{result['load_seconds']:.2f}", "" if cold is None else f"{cold:.1f}",
                f"{result['memory_bytes'] / 2**20:.0f}", f"{result['max_error']:.1e}",
            ))  # fmt: skip
    columns = ("model", "contestant", "p50 ms", "p99 ms", "runs", "load s", "compile s, cache empty", "memory MiB",
               "largest error")  # fmt: skip
    return table(columns, cells)


def remarks(found: Found) -> str:
    """Who did not run, where and why; one line for the same reason everywhere."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for row in found["rows"]:
        where = f"{row['model']} ({row['threads']})"
        if row["remark"]:
            reasons.setdefault((row["model"], row["remark"]), []).append(str(row["threads"]))
            continue
        for name, result in row["results"].items():
            if result["remark"]:
                reasons.setdefault((CONTESTANTS[name].title, result["remark"]), []).append(where)
    rows = sum(not row["remark"] for row in found["rows"])
    lines = []
    for (who, why), places in reasons.items():
        everywhere = len(places) == rows and why.startswith("not installed")
        lines.append(f"- {who}: {why}" if everywhere else f"- {who}, {', '.join(places)}: {why}")
    return "\n".join(lines)


def _measured(found: Found, threads: int) -> list[Row]:
    return [row for row in found["rows"] if row["threads"] == threads and not row["remark"]]


def _ran(rows: Iterable[Row]) -> list[str]:
    """Contestants with a time in any of the rows, in their usual order."""
    seen = {name for row in rows for name, result in row["results"].items() if "p50" in result}
    return [name for name in CONTESTANTS if name in seen]


def _steps(row: Row) -> str:
    about = row["results"][OURS].get("about")
    return f"{about['operators']}: {about['kernels']} + {about['reorders']}" if about else "-"


def _ms(row: Row, name: str, key: str) -> str:
    result = row["results"].get(name, {})
    if key in result:
        return f"{result[key] * 1e3:.2f}"
    return "differs" if result.get("remark", "").startswith("differs") else "-"


def _ratio(row: Row, *, bold: bool = False) -> str:
    """Two decimals, bold for a loss where asked for, a dash where there is none."""
    if row["ratio"] is None:
        return "-"
    return f"**{row['ratio']:.2f}**" if bold and row["ratio"] < 1 else f"{row['ratio']:.2f}"
