"""`jitopt bench`: median time of a run, turn about with ONNX Runtime where it is installed, and what fusion buys."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import jitopt
from jitopt.cli.common import (
    add_compile_options,
    add_json_option,
    compile_model,
    milliseconds,
    positive,
    print_json,
    stdout,
    table,
)
from jitopt.cli.feeds import Array, add_input_options, make_feeds
from jitopt.codegen.host import cpu_allowance
from jitopt.errors import JitoptError
from jitopt.fusion import FusionReport
from jitopt.peer import runtime_answers, runtime_installed, runtime_session
from jitopt.turns import interleaved

OURS, PEER = "jitopt", "ONNX Runtime"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="an .onnx file")
    parser.add_argument("--runs", type=positive, default=30, metavar="N", help="runs to take the median of")
    parser.add_argument("--fusion", action="store_true", help="report what every fusion group saves")
    parser.add_argument("--no-peer", action="store_true", help="do not run ONNX Runtime")
    add_input_options(parser)
    add_compile_options(parser)
    add_json_option(parser)


def run(options: argparse.Namespace) -> int:
    session = compile_model(options.model, options)
    feeds = make_feeds(session.get_inputs(), options, below=session.index_bounds())
    threads = options.threads or cpu_allowance().count
    peer, remark = (None, "") if options.no_peer else load_peer(options.model, threads, feeds)
    found = compare_times(session, peer, feeds, options.runs)
    report = session.fusion_report(feeds, options.runs) if options.fusion else None
    if options.json:
        print_json({
            "model": options.model, "threads": threads, "runs": options.runs, "seconds": found,
            "fusion": None if report is None else report.as_dict(), "remark": remark,
        })  # fmt: skip
        return 0
    out = stdout()
    rows = [(name, milliseconds(s), f"{s / found[OURS]:.2f}") for name, s in found.items()]
    out.print(table("", ("", "ms a run", "relative"), rows))
    out.print(f"median of {options.runs} runs turn about, {threads} threads{f'; {remark}' if remark else ''}")
    if report is not None:
        out.print()
        print_fusion(report, out)
    return 0


def load_peer(model: str, threads: int, feeds: dict[str, Array]) -> tuple[Any, str]:
    """ONNX Runtime's session for the model, which runs on the feeds, or None and a remark on why not."""
    if not runtime_installed():
        return None, "ONNX Runtime is not installed (pip install onnxruntime)"
    try:
        peer = runtime_session(model, threads)
        runtime_answers(peer, feeds)
        return peer, ""
    except JitoptError as error:
        return None, str(error).splitlines()[0]


def compare_times(session: jitopt.Session, peer: Any, feeds: dict[str, Array], runs: int) -> dict[str, float]:
    """Median seconds of a run of each."""
    calls: dict[str, Callable[[], object]] = {OURS: lambda: session.run(None, feeds)}
    if peer is not None:
        calls[PEER] = lambda: peer.run(None, feeds)
    return interleaved(calls, runs=runs)


def print_fusion(report: FusionReport, out: Any) -> None:
    """The fusion report as a table, the groups that save most first."""
    rows = [
        (
            group.label.replace("+", " + "), group.template, len(group.members), f"{group.unfused_seconds * 1e6:.1f}",
            f"{group.fused_seconds * 1e6:.1f}", f"{group.saved_seconds * 1e6:.1f}",
            f"{group.bytes_not_moved / 1e6:.3f}",
        )
        for group in sorted(report.groups, key=lambda g: -g.saved_seconds)
    ]  # fmt: skip
    columns = ("group", "kernel", "members", "one by one us", "fused us", "saved us", "MB not moved")
    out.print(table("", columns, rows, left=2))
    out.print()
    kinds = [(f"without {kind.name}", milliseconds(kind.without_seconds), milliseconds(kind.saved_seconds))
             for kind in report.kinds]  # fmt: skip
    steps = [
        ("one operator at a time", milliseconds(report.unfused_seconds), milliseconds(report.saved_seconds)),
        *kinds, ("everything", milliseconds(report.fused_seconds), ""),
    ]  # fmt: skip
    out.print(table("", ("", "ms a run", "that is more by"), steps))
    out.print(
        f"pool {report.unfused_pool_bytes:,} bytes unfused, {report.fused_pool_bytes:,} fused; "
        f"{report.bytes_not_moved / 1e6:.3f} MB a run not moved"
    )
    runs = report.break_even_runs
    pays = "it does not pay on this machine" if runs is None else f"it pays after {runs:,} runs"
    out.print(
        f"compiling cost {report.compile_seconds:.2f} s and saves {report.saved_seconds * 1e3:.3f} ms a run: {pays}"
    )
