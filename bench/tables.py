"""The README's tables, from the results of `bench.report`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bench import peer_tables
from bench.markdown import table
from bench.quiet import QUIET

Results = dict[str, Any]


def machine(results: Results) -> str:
    found, versions = results["demo"]["machine"], results["versions"]
    peaks = " and ".join(
        f"{p['fma_gflops']:.0f} GFLOP/s and {p['copy_gbs']:.1f} GB/s on {p['threads']} thread{'s' * (p['threads'] > 1)}"
        for p in found["peaks"]
    )
    others = max(results["others"].values())
    return (
        f"Measured {results['date']} on {found['cpu']}, {found['threads_reason']}, target {found['target']}; "
        f"multiply-adds and copying measured in the same run: {peaks}. "
        f"{_caution(others)}"
        f"{', '.join(f'{name} {version}' for name, version in versions.items())}."
    )


def _caution(others: float) -> str:
    if others <= QUIET:
        return "No other process used the CPUs meanwhile. "
    return (
        f"**Other processes used up to {others:.1f} CPUs meanwhile: whole models take longer than on a machine of "
        "their own, and their ratios are not to be relied on.** Kernels are the best of many runs. "
    )


def models(results: Results) -> str:
    found = results["models"]
    parts = []
    for threads in peer_tables.counts(found):
        parts += [f"{peer_tables.named(threads)}:", peer_tables.times(found, threads)]
    return "\n\n".join([*parts, peer_tables.remarks(found)]).rstrip()


def waterfall(results: Results) -> str:
    part = results["demo"]["resnet50"]
    rows = [(row["name"], row["kernels_run"], row["reorders_run"], f"{row['ms']:.1f}") for row in part["waterfall"]]
    if part["onnxruntime_ms"] is not None:
        rows.append(("ONNX Runtime", "", "", f"{part['onnxruntime_ms']:.1f}"))
    return table(("ResNet-50", "kernels", "reorders", "ms a run"), rows)


def contractions(results: Results) -> str:
    rows = [
        (k["group"], k["case"], f"{k['gflops']:.1f}", f"{k['peak_share']:.0%}", _aim(k["asked"]))
        for k in results["kernels"]
        if k["group"] not in ("GELU", "pointwise chains")
    ]
    return table(("one thread", "kernel", "GFLOP/s", "of measured peak", "aim"), rows)


def _aim(share: float | None) -> str:
    return "" if share is None else f"{share:.0%}"


def gelu(results: Results) -> str:
    rows = [
        (
            k["form"], f"{k['seconds'] * 1e9 / k['elements']:.2f}", f"{k['scipy_seconds'] * 1e9 / k['elements']:.2f}",
            f"{k['times_faster']:.1f}", f"{k['max_error']:.1e}", f"{k['scipy_max_error']:.1e}",
        )
        for k in results["kernels"]
        if k["group"] == "GELU"
    ]  # fmt: skip
    columns = ("GELU", "ns an element", "SciPy ns", "times faster", "largest error", "SciPy's")
    return table(columns, rows)


def chains(results: Results) -> str:
    rows = [
        (
            f"{k['length']} operators, {k['elements']:,} elements", f"{k['unfused_seconds'] * 1e6:.1f}",
            f"{k['seconds'] * 1e6:.1f}", f"{k['times_faster']:.1f}",
            "" if k["copy_share"] is None else f"{k['copy_share']:.0%}",
        )
        for k in results["kernels"]
        if k["group"] == "pointwise chains"
    ]  # fmt: skip
    return table(("chain", "one by one us", "fused us", "times faster", "of the speed of copying as much"), rows)


def fusion(results: Results) -> str:
    return f"```\n{results['fusion_text']}\n```"


def explain(results: Results) -> str:
    return f"```\n{results['explain_text']}\n```"


TABLES: dict[str, Callable[[Results], str]] = {
    "machine": machine, "models": models, "waterfall": waterfall, "contractions": contractions, "gelu": gelu,
    "chains": chains, "fusion": fusion, "explain": explain,
}  # fmt: skip


def rewrite(text: str, results: Results) -> str:
    """The README's text with what stands between `<!-- bench:NAME -->` and `<!-- end -->` made anew.

    Raises ValueError for a marker whose table is unknown or that does not end.
    """
    parts = text.split("<!-- bench:")
    out = [parts[0]]
    for part in parts[1:]:
        name, found, rest = part.partition(" -->")
        _, end, after = rest.partition("<!-- end -->")
        if not found or not end or name not in TABLES:
            raise ValueError(f"marker bench:{name.splitlines()[0]} has no table or no end")
        out.append(f"<!-- bench:{name} -->\n{TABLES[name](results)}\n<!-- end -->{after}")
    return "".join(out)
