"""`jitopt verify`: are the answers right? Every output against ONNX Runtime or, without it, the NumPy interpreter."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from jitopt.cli.common import add_compile_options, add_json_option, compile_model, positive, print_json, stdout, table
from jitopt.cli.feeds import add_input_options, make_feeds
from jitopt.peer import reference_answers
from jitopt.verify import Comparison, compare

FLAT = 1e-2  # an output whose elements all lie within this of each other proves little


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="an .onnx file")
    parser.add_argument("--sets", type=positive, default=3, metavar="N", help="sets of made-up inputs (default 3)")
    add_input_options(parser)
    add_compile_options(parser)
    add_json_option(parser)


def run(options: argparse.Namespace) -> int:
    session = compile_model(options.model, options)
    names = [port.name for port in session.get_outputs()]
    results: list[tuple[int, str, Comparison, Any]] = []
    who = ""
    before: dict[str, Any] = {}
    for number in range(options.sets):
        feeds = make_feeds(session.get_inputs(), options, options.seed + number, session.index_bounds())
        if number and all(np.array_equal(feeds[name], before[name]) for name in feeds):
            break  # nothing is made up, or only what does not depend on the seed
        before = feeds
        actual = session.run(None, feeds)
        who, expected = reference_answers(options.model, feeds)
        results += [
            (number + 1, name, compare(a, e), e) for name, a, e in zip(names, actual, expected, strict=True)
        ]  # fmt: skip
    right = all(comparison for _, _, comparison, _ in results)
    if options.json:
        print_json({
            "model": options.model, "reference": who, "ok": right,
            "outputs": [
                {
                    "set": number, "name": name, "ok": c.ok, "max_error": c.max_error, "tolerance": c.tolerance,
                    "scaled_error": c.scaled_error, "reason": c.reason,
                }
                for number, name, c, _ in results
            ],
        })  # fmt: skip
        return 0 if right else 1
    out = stdout()
    rows = [
        (number, name, "right" if c else f"WRONG: {c.reason}", f"{c.max_error:.3g}", f"{c.tolerance:.3g}",
         f"{c.scaled_error:.3g}")
        for number, name, c, _ in results
    ]  # fmt: skip
    columns = ("set", "output", f"against {who}", "largest error", "tolerance", "of the output's scale")
    out.print(table("", columns, rows, left=3))
    flat = sorted({name for _, name, _, expected in results if _is_flat(expected)})
    if flat:
        out.print(f"{', '.join(flat)} hardly vary on these inputs, which proves little: give real ones with --input")
    return 0 if right else 1


def _is_flat(expected: Any) -> bool:
    if not isinstance(expected, np.ndarray) or expected.dtype.kind != "f" or expected.size < 2:
        return False
    return float(np.ptp(expected[np.isfinite(expected)])) < FLAT if np.isfinite(expected).any() else True
