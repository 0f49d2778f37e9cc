"""Where the programs of the bench put what they measured: printed as Markdown, and into files."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any


def add_outputs(parser: argparse.ArgumentParser) -> None:
    """`--json` and `--markdown`."""
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything that was measured")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables, which are printed too")


def write_outputs(options: argparse.Namespace, found: Any, text: str) -> None:
    """Print the tables, and write what the options ask for."""
    print(text)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    if options.markdown:
        options.markdown.write_text(text + "\n", "utf-8")
