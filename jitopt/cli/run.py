"""`jitopt run`: a model on arrays from files; prints what came out and, on request, writes it."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any

import numpy as np

from jitopt.cli.common import add_compile_options, add_json_option, compile_model, print_json, stderr, stdout, table
from jitopt.cli.feeds import add_input_options, make_feeds


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="an .onnx file")
    parser.add_argument("--output-dir", type=Path, metavar="DIR", help="write every output there as NAME.npy")
    add_input_options(parser)
    add_compile_options(parser)
    add_json_option(parser)


def run(options: argparse.Namespace) -> int:
    session = compile_model(options.model, options)
    feeds = make_feeds(session.get_inputs(), options, below=session.index_bounds())
    made = [name for name in feeds if name not in dict(options.inputs)]
    if made:
        stderr().print(f"made-up values for {', '.join(made)}", style="dim")
    names = [port.name for port in session.get_outputs()]
    results = dict(zip(names, session.run(None, feeds), strict=True))
    files = _write(options.output_dir, results) if options.output_dir is not None else {}
    described = [{"name": name, **describe(value), "file": files.get(name)} for name, value in results.items()]
    if options.json:
        print_json({"model": options.model, "made_up_inputs": made, "outputs": described})
        return 0
    columns = ("output", "type", "shape", "least", "mean", "greatest", *(("file",) if files else ()))
    rows = [
        (
            d["name"], d["dtype"], "x".join(map(str, d["shape"])) or "scalar",
            *(_number(d[key]) for key in ("min", "mean", "max")), *((d["file"] or "",) if files else ()),
        )
        for d in described
    ]  # fmt: skip
    stdout().print(table("", columns, rows, left=3))
    return 0


def describe(value: Any) -> dict[str, Any]:
    """Type, shape and range of an output; the range is over its finite elements, None without any."""
    if not isinstance(value, np.ndarray):
        return {"dtype": type(value).__name__, "shape": (), "min": None, "mean": None, "max": None}
    numbers = value.astype(np.float64).ravel() if value.dtype.kind in "fiub" else np.zeros(0)
    numbers = numbers[np.isfinite(numbers)]
    least, mean, most = (float(f(numbers)) if numbers.size else None for f in (np.min, np.mean, np.max))
    return {"dtype": str(value.dtype), "shape": value.shape, "min": least, "mean": mean, "max": most}


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"


def _write(folder: Path, results: dict[str, Any]) -> dict[str, str]:
    """Save every array; names become file names by putting _ for what a file name cannot hold."""
    folder.mkdir(parents=True, exist_ok=True)
    files: dict[str, str] = {}
    for name, value in results.items():
        if isinstance(value, np.ndarray):
            stem = re.sub(r"[^A-Za-z0-9._-]", "_", name) or "output"
            while str(folder / f"{stem}.npy") in files.values():
                stem += "_"
            files[name] = str(folder / f"{stem}.npy")
            np.save(files[name], value, allow_pickle=False)
    return files
