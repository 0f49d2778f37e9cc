"""`jitopt bench-kernel`: one kernel's speed, as a share of what this machine was measured to do just before."""

from __future__ import annotations

import argparse
from typing import Any

from jitopt.cli import cases
from jitopt.cli.common import (
    add_compile_options,
    add_json_option,
    compile_model,
    extents,
    positive,
    print_json,
    stdout,
)
from jitopt.cli.main import UsageError
from jitopt.codegen.cache import Cache
from jitopt.codegen.host import choose_target
from jitopt.errors import JitoptError
from jitopt.runtime.measure import MachinePeak, measure_peak

RANK = {"conv": (4, "batch,channels,height,width"), "gemm": (3, "m,k,n")}


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("kind", choices=tuple(cases.KINDS))
    parser.add_argument(
        "--shape", type=extents, required=True,
        help="conv: batch,channels,height,width; gemm: m,k,n; pointwise and reduce: the tensor's",
    )  # fmt: skip
    parser.add_argument("--filters", type=positive, help="conv: output channels (default: the input's)")
    parser.add_argument("--kernel", type=positive, default=3, help="conv: side of the filter (default 3)")
    parser.add_argument("--stride", type=positive, default=1, help="conv")
    parser.add_argument("--groups", type=positive, default=1, help="conv")
    parser.add_argument(
        "--op", action="append", default=[], metavar="OPERATOR",
        help="pointwise: the chain (default Gelu); reduce: Softmax, LayerNormalization, ReduceSum, ...; conv and gemm: "
        "the epilogue after the bias, Residual being the addition of one more tensor (repeatable)",
    )  # fmt: skip
    parser.add_argument("--runs", type=positive, default=50, metavar="N", help="runs to take the best of")
    add_compile_options(parser)
    add_json_option(parser)
    parser.set_defaults(threads=1)


def run(options: argparse.Namespace) -> int:
    case = _case(options)
    session = compile_model(case.graph, options)
    cache = None if options.no_cache else Cache.default()
    peak = measure_peak(choose_target(options.target), options.threads, cache)
    speed = cases.measure(session, case, options.runs)
    found = result(case, speed, peak)
    if options.json:
        print_json(found)
        return 0
    kernels = ", ".join(f"{k.template} {k.path or k.key}" for k in session.kernels)
    out = stdout()
    out.print(f"{case.name}: {speed.seconds * 1e6:.1f} us, best of {speed.runs}, {options.threads} thread(s)")
    for unit, value, share, most, what in (
        ("GFLOP/s", "gflops", "peak_share", peak.gflops, "FMA peak"),
        ("GB/s", "gbs", "copy_share", peak.copy_gbs, "copy bandwidth"),
    ):
        out.print(f"  {found[value]:8.1f} {unit:7}  {found[share]:6.1%} of the measured {what}, {most:.1f} {unit}")
    if any(kernel.template == "winograd" for kernel in session.kernels):
        out.print("  by Winograd: GFLOP/s of direct convolution; --disable winograd measures that")
    out.print(f"  {kernels}", soft_wrap=True)
    return 0


def result(case: cases.Case, speed: cases.Speed, peak: MachinePeak) -> dict[str, Any]:
    """A measured case as plain data."""
    return {
        "case": case.name, "seconds": speed.seconds, "runs": speed.runs, "threads": peak.nthreads,
        "kernels": speed.kernels, "gflops": speed.gflops(case), "peak_gflops": peak.gflops,
        "peak_share": speed.gflops(case) / peak.gflops, "gbs": speed.gbs(case), "copy_gbs": peak.copy_gbs,
        "copy_share": speed.gbs(case) / peak.copy_gbs,
    }  # fmt: skip


def _case(options: argparse.Namespace) -> cases.Case:
    shape, operators = options.shape, tuple(options.op)
    rank, names = RANK.get(options.kind, (len(shape), ""))
    if len(shape) != rank or not shape or 0 in shape:
        raise UsageError(f"--shape of {options.kind} is {names or 'the extents of a tensor'}, all at least 1")
    try:
        match options.kind:
            case "conv":
                return cases.conv(
                    shape, options.filters or shape[1], options.kernel, stride=options.stride, groups=options.groups,
                    then=operators,
                )  # fmt: skip
            case "gemm":
                return cases.gemm(shape, then=operators)
            case "pointwise":
                return cases.pointwise(shape, operators or ("Gelu",))
            case _:
                if len(operators) > 1:
                    raise UsageError("reduce takes one --op")
                return cases.reduce(shape, *operators)
    except JitoptError as error:
        raise UsageError(str(error)) from error
