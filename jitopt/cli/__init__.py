"""The command line: `jitopt`, or `python -m jitopt`. The only part of the package that prints."""

from jitopt.cli.main import main

__all__ = ["main"]
