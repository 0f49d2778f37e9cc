"""What the README says is so: its code runs, its commands exist, its numbers are those of the results file."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest

from jitopt.cli.main import COMMANDS

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text("utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def test_the_code_runs_from_top_to_bottom(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(BLOCKS) >= 2 and "onnx" not in BLOCKS[0].lower()
    namespace: dict[str, object] = {}
    for number, block in enumerate(BLOCKS):
        exec(compile(block, f"README block {number}", "exec"), namespace)
    printed = capsys.readouterr().out
    for words in ("(4, 16, 32, 32)", "Conv + Relu", "def kernel(args", "without sharing", "compiling cost"):
        assert words in printed


def test_the_two_commands_stand_word_for_word() -> None:
    for command in (
        "python3 -m venv .venv && .venv/bin/pip install -q . && .venv/bin/jitopt demo",
        ".venv/bin/pip install -q '.[test]' && .venv/bin/pytest",
    ):
        assert f"\n    {command}\n" in README


def test_commands_and_links_exist() -> None:
    named = re.findall(r"^    jitopt ([a-z-]+)", README, re.MULTILINE)
    assert set(named) == set(COMMANDS)
    for link in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / link).exists(), link


def test_the_tables_are_those_of_the_results() -> None:
    tables = pytest.importorskip("bench.tables")
    results = json.loads((ROOT / "bench" / "results.json").read_text("utf-8"))
    assert tables.rewrite(README, results) == README, "run python -m bench.report --read"
    with pytest.raises(ValueError, match="nonsense"):
        tables.rewrite("<!-- bench:nonsense -->\n<!-- end -->", results)


def test_the_picture_is_drawn_from_the_results() -> None:
    picture = pytest.importorskip("bench.picture")
    results = json.loads((ROOT / "bench" / "results.json").read_text("utf-8"))
    assert (ROOT / "docs" / "resnet50.svg").read_text("utf-8") == picture.waterfall(results)


def test_the_least_python_is_the_declared_one() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    least = project["requires-python"].removeprefix(">=")
    assert f"Python ({least} or newer)" in README
