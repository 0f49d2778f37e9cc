"""What several commands share: options of `jitopt.compile`, progress while kernels compile, tables and JSON."""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

import jitopt
from jitopt.cli.main import UsageError
from jitopt.passes.optimize import GELUS, PRECISIONS

WIDE = 160  # columns where the output is no terminal and nothing needs to be wrapped
Callback = Callable[[int, int, str, float], None]


def stdout() -> Console:
    """The console of results: plain text where it is no terminal."""
    return Console(width=None if sys.stdout.isatty() else WIDE, highlight=False, markup=False, emoji=False)


def stderr() -> Console:
    """The console of progress and remarks."""
    return Console(stderr=True, highlight=False, markup=False, emoji=False)


def add_json_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")


def add_compile_options(parser: argparse.ArgumentParser) -> None:
    """Options of `jitopt.compile` that a command passes on."""
    group = parser.add_argument_group("compiling")
    group.add_argument("--threads", type=positive, metavar="N", help="threads of a run (default: what is allowed)")
    group.add_argument("--precision", choices=PRECISIONS, default="default")
    group.add_argument("--gelu", choices=GELUS, default="exact", help="the form GELU may take")
    group.add_argument("--no-optimize", action="store_true", help="no pass: every operator its own kernel")
    group.add_argument("--disable", action="append", default=[], metavar="PASS", help="leave a pass out (repeatable)")
    group.add_argument("--target", metavar="NAME", help="avx512, avx2 or x86-64-v2 (default: the best here)")
    group.add_argument("--max-memory", type=positive, metavar="BYTES", help="limit for constants and pools")
    group.add_argument("--no-cache", action="store_true", help="neither read nor keep compiled kernels")


def compile_model(source: Any, options: argparse.Namespace, **more: Any) -> jitopt.Session:
    """`jitopt.compile` under the options of the command line, with a progress bar on a terminal."""
    with compiling() as progress:
        try:
            return jitopt.compile(
                source, num_threads=options.threads, precision=options.precision, gelu=options.gelu,
                optimize=not options.no_optimize, disable=tuple(options.disable), target=options.target,
                max_memory=options.max_memory, cache=not options.no_cache, progress=progress, **more,
            )  # fmt: skip
        except ValueError as error:  # an option's value: the model's own faults are JitoptErrors
            raise UsageError(str(error)) from error


@contextlib.contextmanager
def compiling(what: str = "compiling kernels") -> Iterator[Callback | None]:
    """A progress callback for `jitopt.compile` that draws a bar on the terminal; None where there is none."""
    if not sys.stderr.isatty():
        yield None
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=stderr(), transient=True) as bar:
        task = bar.add_task(what, total=None)

        def callback(done: int, total: int, _key: str, _seconds: float) -> None:
            bar.update(task, completed=done, total=total)

        yield callback


def positive(text: str) -> int:
    """An argparse type: an integer of at least 1."""
    number = int(text) if text.strip().lstrip("+-").isdigit() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no positive whole number")
    return number


def extents(text: str) -> tuple[int, ...]:
    """An argparse type: extents such as "1,3,224,224" or "1x3x224x224"."""
    if not re.fullmatch(r"(\d+([,x]\d+)*)?", text.replace(" ", "")):
        raise argparse.ArgumentTypeError(f"{text!r} is no shape such as 1,3,224,224")
    return tuple(map(int, re.findall(r"\d+", text)))


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]], *, left: int = 1) -> Table:
    """A table whose first `left` columns are text and whose others are numbers, aligned right."""
    made = Table(title=title or None, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for index, name in enumerate(columns):
        made.add_column(name, justify="left" if index < left else "right", no_wrap=index >= left, overflow="fold")
    for row in rows:
        made.add_row(*(str(cell) for cell in row))
    return made


def print_json(data: Any) -> None:
    """One JSON document on standard output; what JSON lacks (infinities, NaN) is null."""
    json.dump(_finite(data), sys.stdout, indent=2, default=str, allow_nan=False)
    sys.stdout.write("\n")


def _finite(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: _finite(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [_finite(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data


def milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.3f}"
