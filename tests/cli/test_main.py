"""Exit status, one-line errors, and how little is loaded before a command is known."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import jitopt
from jitopt.cli.common import compiling
from jitopt.cli.main import COMMANDS

from .conftest import Command


def test_version_and_help(command: Command) -> None:
    version = command("--version")
    assert version.status == 0 and version.out.strip() == f"jitopt {jitopt.__version__}"
    overview = command("--help")
    assert overview.status == 0 and all(name in overview.out for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(command: Command, name: str) -> None:
    explained = command(name, "--help")
    assert explained.status == 0 and f"usage: jitopt {name}" in explained.out


@pytest.mark.parametrize(
    ("words", "status", "expected"),
    [
        ((), 2, "COMMAND"),
        (("fly",), 2, "fly"),
        (("run",), 2, "MODEL"),
        (("run", "m.onnx", "--bogus"), 2, "--bogus"),
        (("run", "missing.onnx"), 1, "missing.onnx"),
        (("verify", "missing.onnx"), 1, "missing.onnx"),
        (("optimize", "missing.onnx", "out.onnx"), 1, "missing.onnx"),
        (("inspect", "missing.onnx", "--level", "plan"), 1, "missing.onnx"),
        (("inspect", "missing.onnx", "--level", "soup"), 2, "soup"),
        (("bench", "missing.onnx", "--runs", "0"), 2, "--runs"),
        (("bench", "missing.onnx", "--threads", "-3"), 2, "--threads"),
        (("bench-kernel", "conv", "--shape", "1,2,3"), 2, "--shape"),
        (("bench-kernel", "gemm", "--shape", "a,b"), 2, "--shape"),
        (("bench-kernel", "reduce", "--shape", "4,4", "--op", "Reducesum"), 1, "Reducesum"),
        (("cache", "burn"), 2, "burn"),
    ],
)
def test_a_mistake_costs_one_line(command: Command, words: tuple[str, ...], status: int, expected: str) -> None:
    command(*words).failed_plainly(status, expected)


def test_files_that_are_no_models(command: Command, tmp_path: Path, digits: Path) -> None:
    for name, content in (("empty", b""), ("text", b"Once upon a time\n"), ("cut", digits.read_bytes()[:5000])):
        path = tmp_path / f"{name}.onnx"
        path.write_bytes(content)
        command("run", path).failed_plainly(1, path.name)
    command("run", tmp_path).failed_plainly(1, tmp_path.name)


def test_inputs_that_do_not_fit(command: Command, tmp_path: Path, digits: Path) -> None:
    np.save(tmp_path / "flat.npy", np.zeros((1, 64), np.float32))
    np.save(tmp_path / "wide.npy", np.zeros((1, 1, 8, 9), np.float32))
    np.save(tmp_path / "double.npy", np.zeros((1, 1, 8, 8)))
    np.savez(tmp_path / "several.npz", a=np.zeros(2))
    (tmp_path / "text.npy").write_text("no array")
    command("run", digits, "--input", f"picture={tmp_path}/flat.npy").failed_plainly(2, "picture", "'image'")
    command("run", digits, "--input", "image").failed_plainly(2, "NAME=VALUE")
    command("run", digits, "--input", f"image={tmp_path}/none.npy").failed_plainly(1, "none.npy")
    command("run", digits, "--input", f"image={tmp_path}/text.npy").failed_plainly(2, "text.npy")
    command("run", digits, "--input", f"image={tmp_path}/several.npz").failed_plainly(2, "several")
    for name in ("flat", "wide", "double"):
        command("run", digits, "--input", f"image={tmp_path}/{name}.npy").failed_plainly(1, "image")
    command("run", digits, "--shape", "image=1,x,8,8").failed_plainly(2, "--shape image")


def test_options_of_compile_that_do_not_exist(command: Command, digits: Path) -> None:
    command("run", digits, "--disable", "fold-batchnrm").failed_plainly(2, "fold-batchnorm")
    command("run", digits, "--precision", "sloppy").failed_plainly(2, "sloppy")
    outcome = command("run", digits, "--target", "z80")
    outcome.failed_plainly(outcome.status, "z80")
    assert outcome.status in (1, 2)


def test_an_output_folder_that_cannot_be(command: Command, tmp_path: Path, digits: Path) -> None:
    (tmp_path / "file").write_text("")
    outcome = command("run", digits, "--output-dir", tmp_path / "file" / "folder")
    assert outcome.status == 1 and "Traceback" not in outcome.err and "file" in outcome.err


def test_help_loads_little() -> None:
    program = (
        "import sys; from jitopt.cli import main; main(['--help']);"
        "print([m for m in ('numba', 'onnx', 'onnxruntime', 'rich', 'numpy') if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


def test_it_runs_as_a_module_and_survives_a_closed_pipe(digits: Path) -> None:
    line = f"{sys.executable} -m jitopt inspect {digits} --level program | head -n 1"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", line], capture_output=True, text=True, check=False)
    assert done.stdout.startswith("program") and not done.stderr


def test_progress_is_drawn_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    with compiling() as progress:
        assert progress is None
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stderr", terminal)
    with compiling("compiling kernels") as progress:
        assert progress is not None
        progress(2, 7, "key", 0.5)
    assert "compiling kernels" in terminal.getvalue() and "2/7" in terminal.getvalue()
