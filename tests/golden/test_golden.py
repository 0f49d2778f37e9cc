"""The small model at every level, against files: a refactoring changes none of them, a change shows in their diff."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from jitopt.ir.text import blobs, print_graph
from jitopt.ir.text_parser import parse_graph
from jitopt.lower.text import print_program, program_blobs
from jitopt.lower.text_groups import parse_groups, print_groups
from jitopt.lower.text_parser import parse_program
from jitopt.lower.verifier import verify_program
from jitopt.lower.verifier_groups import verify_groups
from jitopt.runtime.text import print_plan
from jitopt.runtime.text_parser import parse_plan
from jitopt.runtime.verifier import verify_plan
from tests.golden import FOLDER, check_golden
from tests.golden.small import levels, texts

NAMES = tuple(texts())


@pytest.mark.parametrize("name", NAMES)
def test_every_level_is_as_it_was(name: str) -> None:
    check_golden(name, texts()[name])


def test_no_file_is_left_over() -> None:
    assert {p.name for p in FOLDER.glob("small.*") if p.suffix != ".py"} == set(NAMES)


def read(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", [n for n in NAMES if n.endswith(".graph")])
def test_graph_files_read_back(name: str) -> None:
    small = levels("avx2")
    arrays = blobs(small.graph) | blobs(small.optimized)
    assert print_graph(parse_graph(read(name), arrays)) == read(name)


def test_the_lower_levels_read_back_from_files_alone() -> None:
    """Groups are read over the graph of its file; what is read verifies."""
    small = levels("avx2")
    graph = parse_graph(read("small.avx2.graph"), blobs(small.laid_out))
    groups = parse_groups(read("small.avx2.groups"), graph)
    verify_groups(groups, graph)
    assert print_groups(groups, graph) == read("small.avx2.groups")
    program = parse_program(read("small.avx2.program"), program_blobs(small.program))
    verify_program(program)
    assert print_program(program) == read("small.avx2.program")
    plan = parse_plan(read("small.avx2.plan"))
    verify_plan(plan)
    assert print_plan(plan) == read("small.avx2.plan")


def test_texts_do_not_depend_on_the_process() -> None:
    """Hash seeds and addresses differ from process to process; nothing may be ordered by them."""
    program = (
        "import hashlib\nfrom tests.golden.small import texts\n"
        "print(hashlib.sha256(repr(sorted(texts().items())).encode()).hexdigest())"
    )
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True,
        cwd=Path(__file__).resolve().parents[2], env={**os.environ, "PYTHONHASHSEED": "12345"},
    )  # fmt: skip
    assert found.stdout.strip() == hashlib.sha256(repr(sorted(texts().items())).encode()).hexdigest()
