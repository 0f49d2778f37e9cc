"""`jitopt profile`: median time of every step of a run."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from jitopt.cli.common import (
    add_compile_options,
    add_json_option,
    compile_model,
    positive,
    print_json,
    stdout,
    table,
)
from jitopt.cli.feeds import add_input_options, make_feeds


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="an .onnx file")
    parser.add_argument("--runs", type=positive, default=20, metavar="N", help="runs to take the median of")
    parser.add_argument("--top", type=positive, metavar="N", help="show the N slowest steps only")
    add_input_options(parser)
    add_compile_options(parser)
    add_json_option(parser)


def run(options: argparse.Namespace) -> int:
    session = compile_model(options.model, options)
    profile = session.profile(make_feeds(session.get_inputs(), options, below=session.index_bounds()), options.runs)
    if options.json:
        print_json({"model": options.model, **asdict(profile)})
        return 0
    total = sum(step.seconds for step in profile.steps) or 1.0
    steps = sorted(profile.steps, key=lambda step: -step.seconds)[: options.top]
    rows = [
        (step.template, step.label, step.nodes[0] if step.nodes else "", f"{step.seconds * 1e6:.1f}",
         f"{step.seconds / total:.1%}")
        for step in steps
    ]  # fmt: skip
    out = stdout()
    out.print(table("", ("kernel", "operators", "first node", "us", "share"), rows, left=3))
    out.print(
        f"{profile.run_seconds * 1e3:.3f} ms a run (median of {profile.runs}), of which "
        f"{total * 1e3:.3f} ms in {len(profile.steps)} steps; the rest is waiting and the call"
    )
    return 0
