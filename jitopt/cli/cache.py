"""`jitopt cache info|clear`: the folder of compiled kernels."""

from __future__ import annotations

import argparse
from collections import Counter

from jitopt.cli.common import add_json_option, print_json, stdout
from jitopt.codegen.cache import Cache


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=("info", "clear"), help="show what is kept, or remove it all")
    add_json_option(parser)


def run(options: argparse.Namespace) -> int:
    cache = Cache.default()
    before = cache.size_bytes()
    if options.action == "clear":
        removed = cache.clear()
        if options.json:
            print_json({"folder": str(cache.folder), "removed_files": removed, "removed_bytes": before})
        else:
            stdout().print(f"{removed} files, {before / 1e6:.1f} MB removed from {cache.folder}", soft_wrap=True)
        return 0
    kinds = Counter(path.parent.name for path in cache.folder.glob("*/*.bin"))
    if options.json:
        print_json({
            "folder": str(cache.folder), "bytes": before, "entries": dict(sorted(kinds.items())),
            "writable": cache.writable,
        })  # fmt: skip
        return 0
    entries = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items())) or "empty"
    remark = "" if cache.writable else " (not writable)"
    stdout().print(f"{cache.folder}{remark}: {entries}, {before / 1e6:.1f} MB", soft_wrap=True)
    return 0
