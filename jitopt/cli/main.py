"""Parses the command line and runs one command; turns a user's mistakes into one line on standard error.

A command is a module of this package with `configure(parser)` and `run(arguments) -> exit status`. Only the module of
the command at hand is imported, so that `jitopt --help` stays quick.

Exit status: 0 all went well, 1 the model, its answers or a file are at fault, 2 the command line is, 130 Ctrl-C.
"""

from __future__ import annotations

import argparse
import importlib
import logging
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

import jitopt
from jitopt.errors import JitoptError

# Command -> (module, one line of help).
COMMANDS = {
    "demo": ("demo", "show on this machine what jitopt does, in a minute"),
    "run": ("run", "run a model on arrays from .npy files"),
    "inspect": ("inspect", "print a model as a graph, as fusion groups, as a program or as a plan"),
    "optimize": ("optimize", "write the optimised graph as an ONNX model"),
    "bench": ("bench", "time a model, against ONNX Runtime where installed; --fusion: what fusion buys"),
    "profile": ("profile", "where the time of a run goes, kernel by kernel"),
    "bench-kernel": ("bench_kernel", "speed of one kernel as a share of what this machine can do"),
    "verify": ("verify", "check a model's answers against ONNX Runtime or NumPy"),
    "info": ("info", "versions, CPU, target, threads, cache folder"),
    "cache": ("cache", "show or empty the folder of compiled kernels"),
}


class UsageError(Exception):
    """The command line asks for something that cannot be; exit status 2."""


class _Parser(argparse.ArgumentParser):
    """Reports a mistake in one line, without the usage text in front."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {_one_line(message)} (see {self.prog} --help)\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line `arguments` (default: the process's own); returns the exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    level = logging.getLevelNamesMapping().get(os.environ.get("JITOPT_LOG", "").upper(), logging.WARNING)
    logging.basicConfig(level=level, format="%(name)s: %(message)s")
    try:
        options = _parse(words)
        module = importlib.import_module(f"jitopt.cli.{COMMANDS[options.command][0]}")
        status: int = module.run(options)
        sys.stdout.flush()
        return status
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 1
    except UsageError as error:
        return _fail(error, 2)
    except (JitoptError, OSError) as error:
        if isinstance(error, BrokenPipeError):  # the reader of our output has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 1
        return _fail(error, 1)
    except KeyboardInterrupt:
        return 130


def _parse(words: list[str]) -> argparse.Namespace:
    parser = _Parser(prog="jitopt", description=(jitopt.__doc__ or "").partition("\n")[0])
    parser.add_argument("--version", action="version", version=f"jitopt {jitopt.__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=_Parser)
    for name, (module, line) in COMMANDS.items():
        command = commands.add_parser(name, help=line, description=f"{line[0].upper()}{line[1:]}.")
        if name in words:
            importlib.import_module(f"jitopt.cli.{module}").configure(command)
    return parser.parse_args(words)


def _fail(error: Exception, status: int) -> int:
    print(f"jitopt: {_one_line(str(error))}", file=sys.stderr)
    return status


def _one_line(text: str) -> str:
    return " ".join(text.split())
