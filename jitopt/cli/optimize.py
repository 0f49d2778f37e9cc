"""`jitopt optimize`: the optimised graph, written as an ONNX model that other runtimes read."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

import jitopt
from jitopt.cli.common import add_json_option, print_json, stdout, table
from jitopt.cli.main import UsageError
from jitopt.passes.optimize import GELUS, PRECISIONS, OptimizeReport


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="IN", help="an .onnx file")
    parser.add_argument("target", metavar="OUT", help="the file to write")
    parser.add_argument("--precision", choices=PRECISIONS, default="default")
    parser.add_argument("--gelu", choices=GELUS, default="exact", help="the form GELU may take")
    parser.add_argument("--disable", action="append", default=[], metavar="PASS", help="leave a pass out (repeatable)")
    parser.add_argument("--trace", action="store_true", help="also say why passes that nearly applied did not")
    add_json_option(parser)


def run(options: argparse.Namespace) -> int:
    from jitopt.onnx_io import write_model

    graph = jitopt.load_graph(options.source)
    try:
        report = jitopt.optimize(
            graph, precision=options.precision, gelu=options.gelu, disable=tuple(options.disable), trace=options.trace
        )
    except ValueError as error:
        raise UsageError(str(error)) from error
    write_model(graph, options.target)
    if options.json:
        print_json({
            "model": options.source, "written": options.target,
            "operators": {"before": report.ops_before, "after": report.ops_after},
            "passes": {name: len(report.changes(name)) for name in report.seconds() if report.changes(name)},
            "refusals": [{"node": r.node, "reason": r.reason} for r in report.refusals()],
        })  # fmt: skip
        return 0
    out = stdout()
    out.print(operator_table(report.ops_before, report.ops_after))
    out.print(pass_table(report))
    for refusal in report.refusals():
        out.print(f"not at {refusal.node}: {refusal.reason}")
    out.print(f"{report.nodes_before} operators became {report.nodes_after}, written to {options.target}")
    return 0


def operator_table(before: Mapping[str, int], after: Mapping[str, int]) -> object:
    """Operators by type before and after, those that changed most first."""
    names = sorted({*before, *after}, key=lambda n: (after.get(n, 0) - before.get(n, 0), n))
    return table("", ("operator", "before", "after"), [(n, before.get(n, 0), after.get(n, 0)) for n in names])


def pass_table(report: OptimizeReport) -> object:
    """Passes that changed something, with how often and their time."""
    seconds = report.seconds()
    rows = [(n, len(report.changes(n)), f"{s * 1e3:.1f}") for n, s in seconds.items() if report.changes(n)]
    return table("", ("pass", "changes", "ms"), rows)
