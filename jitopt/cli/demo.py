"""`jitopt demo`: what jitopt does, shown on this machine; every number it prints was computed in this run."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import jitopt
from jitopt.cli.common import add_json_option, compiling, print_json, stdout
from jitopt.cli.pictures import bar, draw_digits
from jitopt.demo.digits import digits
from jitopt.demo.gelu import gelu
from jitopt.demo.machine import machine
from jitopt.demo.waterfall import waterfall

Say = Callable[..., None]
PARTS = ("machine", "digits", "resnet50", "gelu")
NEXT = (
    "jitopt verify MODEL.onnx           are its answers those of ONNX Runtime?",
    "jitopt bench MODEL.onnx --fusion   how fast is it, and what does every fused group save?",
    "jitopt inspect MODEL.onnx          what did the passes make of it?",
)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--only", choices=PARTS[1:], action="append", help="this part only (repeatable)")
    add_json_option(parser)


def run(options: argparse.Namespace) -> int:
    begin = time.perf_counter()
    console = stdout()
    data: dict[str, Any] = {"jitopt": jitopt.__version__}
    say: Say = (lambda *_: None) if options.json else lambda *text: console.print(*text, soft_wrap=True)
    for part in PARTS:
        if part == "machine" or not options.only or part in options.only:
            with compiling() as progress:
                data[part] = _compute(part, progress)
            _PRINTERS[part](data[part], say)
    data["ok"] = all_right(data)
    data["seconds"] = time.perf_counter() - begin
    data["next"] = [line.split("  ")[0] for line in NEXT]
    verdict = "All answers are right." if data["ok"] else "AN ANSWER IS WRONG: this is a bug, please report it."
    say(f"\n{verdict} {data['seconds']:.1f} s. Next:")
    for line in NEXT:
        say(f"  {line}")
    if options.json:
        print_json(data)
    return 0 if data["ok"] else 1


def all_right(data: dict[str, Any]) -> bool:
    """Whether every part that ran answered right."""
    parts = [data[name]["ok"] for name in ("digits", "resnet50") if name in data]
    return all([*parts, *(form["ok"] for form in data.get("gelu", ()))])


def _compute(part: str, progress: Any) -> Any:
    match part:
        case "machine":
            return machine()
        case "digits":
            return digits(progress)
        case "resnet50":
            return waterfall(progress)
        case _:
            return gelu()


def _say_machine(data: dict[str, Any], say: Say) -> None:
    say(f"jitopt {jitopt.__version__} on {data['cpu']}: target {data['target']}, {data['lanes']} float32 lanes")
    say(f"  {data['threads']} threads ({data['threads_reason']})")
    for peak in data["peaks"]:
        say(
            f"  measured with {peak['threads']} thread{'s' * (peak['threads'] > 1)}: {peak['fma_gflops']:.1f} GFLOP/s "
            f"of multiply-adds, {peak['copy_gbs']:.1f} GB/s copied"
        )


def _say_digits(data: dict[str, Any], say: Say) -> None:
    operators, memory = data["operators"], data["memory"]
    say(f"\nHandwritten digits: a network of {operators['count_before']} operators, {data['images']} images new to it")
    say(f"  reads {data['right']} of {data['images']} right ({data['accuracy']:.1%})")
    say(f"  {_agreement(data)}\n")
    for line in draw_digits(data["shown"]):
        say(line)
    say(f"\n  {operators['count_before']} operators: {_counts(operators['before'])}")
    say(f"  {operators['count_after']} after optimisation: {_counts(operators['after'])}")
    say(f"  {data['kernels']['compiled']} kernels compiled; three of them:")
    for group in data["groups"]:
        say(f"    {' + '.join(group['operators'])}: {', '.join(group['members'])}")
        say(f"      {group['source'] or 'source not kept: no cache folder'}")
    say(
        f"  pool {memory['pool_bytes']:,} bytes; without sharing {memory['unshared_bytes']:,}; "
        f"no pool can do with fewer than {memory['lower_bound_bytes']:,}"
    )


def _say_resnet(data: dict[str, Any], say: Say) -> None:
    say(
        f"\nResNet-50, random weights, one picture of 224x224: {data['operators']} operators, among them "
        f"{data['convolutions']} convolutions and {data['batch_normalizations']} BatchNormalizations"
    )
    seconds, new = data["compile_seconds"], data["kernels_new"]
    say(f"  compiled in {seconds:.1f} s: {data['kernels']} kernels, {new} of them not compiled before")
    rows = [(row["name"], row["ms"], _remark(row)) for row in data["waterfall"]]
    if data["onnxruntime_ms"] is None:
        rows.append(("ONNX Runtime", None, data["onnxruntime_remark"]))
    else:
        rows.append(("ONNX Runtime", data["onnxruntime_ms"], "same graph, picture and threads"))
    most = max(ms for _, ms, _ in rows if ms is not None)
    for name, ms, remark in rows:
        figure = f"{bar(ms / most)} {ms:8.1f} ms" if ms is not None else f"{bar(0)} {'':8}   "
        say(f"  {name:24}{figure}  {remark}")
    worst = max(data["waterfall"], key=lambda row: (not row["ok"], row["max_error"]))
    say(f"  {_agreement(worst)}")
    runs = data["break_even_runs"]
    pays = "which does not pay here" if runs is None else f"which has paid after {runs:,} runs"
    say(f"  compiling took {seconds:.1f} s and saves {data['saved_ms']:.1f} ms a run, {pays}")


def _remark(row: dict[str, Any]) -> str:
    if row["same_as_previous"]:
        return "the same kernels: nothing was left to do"
    counts = [(row["kernels_run"], "kernels"), (row["reorders_run"], "reorders"), (row["host_steps"], "steps in NumPy")]
    return ", ".join(f"{count} {what}" for count, what in counts if count)


def _say_gelu(data: list[dict[str, Any]], say: Say) -> None:
    say(f"\nGELU over {data[0]['elements']:,} elements, one thread, against float64")
    for form in data:
        say(
            f"  {form['form']:8} {form['relative_time']:5.2f} of the exact form's time ({form['us']:.1f} us), "
            f"largest error {form['max_error']:.1e}{'' if form['ok'] else ', WRONG'}"
        )


def _agreement(data: dict[str, Any]) -> str:
    if not data["ok"]:
        return f"WRONG against NumPy: {data['reason']}"
    return f"agrees with NumPy: largest error {data['max_error']:.1e}, tolerance {data['tolerance']:.1e}"


def _counts(types: dict[str, int]) -> str:
    most_first = sorted(types.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{count} {name}" for name, count in most_first)


_PRINTERS: dict[str, Callable[[Any, Say], None]] = {
    "machine": _say_machine, "digits": _say_digits, "resnet50": _say_resnet, "gelu": _say_gelu,
}  # fmt: skip
