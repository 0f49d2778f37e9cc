"""What users install: the sdist, and the wheel built from it, each in a fresh environment.

Nothing is fetched: they are built by the build and setuptools of the extra `test`, and the fresh environments see the
running one's packages behind their own, so that Numba and the others are there.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from collections.abc import Iterator
from email.parser import Parser
from importlib import metadata
from pathlib import Path

import pytest

import jitopt

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = {"jitopt": ROOT / "jitopt", "jitopt_kernels": ROOT / "kernels" / "jitopt_kernels"}
LEAVE_OUT = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "build", "dist")
PROGRAM = """
import numpy as np, jitopt, jitopt_kernels, pathlib, sys
home = pathlib.Path(sys.prefix).resolve()
assert all(home in pathlib.Path(m.__file__).resolve().parents for m in (jitopt, jitopt_kernels)), jitopt.__file__
graph = jitopt.Graph("small")
x = graph.input("x", "float32", (jitopt.symbol("n"), 5))
graph.output(graph.add("Relu", [graph.add("Neg", [x])]), "y")
session = jitopt.compile(graph)
(y,) = session.run(None, {"x": np.array([[-1, 2, -3, 4, -5]], np.float32)})
assert y.tolist() == [[1, 0, 3, 0, 5]], y
data = pathlib.Path(jitopt.__file__).parent / "data" / "digits.onnx"
print(len(jitopt.load_graph(data).nodes), "operators", jitopt.__version__)
"""


def sources() -> Iterator[str]:
    """Every file of the two packages that must be installed, as a wheel names it."""
    for name, folder in PACKAGES.items():
        for path in folder.rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                yield f"{name}/{path.relative_to(folder).as_posix()}"


def run(*command: str | Path, cwd: Path) -> str:
    """Standard output of a command that must succeed, without what may lead it to this checkout."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    done = subprocess.run(
        [*map(str, command)], cwd=cwd, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The sdist and the wheel built from what the sdist holds, by kind."""
    pytest.importorskip("build", reason="building needs the package build, of the extra 'test'")
    if int(metadata.version("setuptools").partition(".")[0]) < 77:
        pytest.skip("building needs setuptools 77, of the extra 'test'")
    folder = tmp_path_factory.mktemp("packaging")
    shutil.copytree(ROOT, folder / "checkout", ignore=LEAVE_OUT)
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder / "dist", folder / "checkout", cwd=folder)
    (sdist,), (wheel,) = (folder / "dist").glob("*.tar.gz"), (folder / "dist").glob("*.whl")
    return {"sdist": sdist, "wheel": wheel}


def test_the_wheel_holds_the_two_packages_and_nothing_else(built: dict[str, Path]) -> None:
    with zipfile.ZipFile(built["wheel"]) as wheel:
        names = {name for name in wheel.namelist() if not name.endswith("/")}
        (info,) = {name.partition("/")[0] for name in names} - PACKAGES.keys()
        described = Parser().parsestr(wheel.read(f"{info}/METADATA").decode())
        tags = Parser().parsestr(wheel.read(f"{info}/WHEEL").decode())
        licence = wheel.read(f"{info}/licenses/LICENSE")
    assert info.endswith(".dist-info")
    assert {name for name in names if not name.startswith(info)} == set(sources())
    assert {"jitopt/py.typed", "jitopt_kernels/py.typed", "jitopt/data/digits.onnx"} <= names
    assert f"{info}/licenses/NOTICE" in names and licence == (ROOT / "LICENSE").read_bytes()
    assert tags["Root-Is-Purelib"] == "true" and tags["Tag"] == "py3-none-any"
    assert described["Name"] == "jitopt" and described["License-Expression"] == "Apache-2.0"
    assert described["Requires-Python"] == ">=3.11"
    assert {"test", "bench", "dev"} <= set(described.get_all("Provides-Extra", []))


def test_the_sdist_holds_what_building_needs(built: dict[str, Path]) -> None:
    with tarfile.open(built["sdist"]) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    library = {name.replace("jitopt_kernels/", "kernels/jitopt_kernels/", 1) for name in sources()}
    assert library | {"pyproject.toml", "README.md", "LICENSE", "NOTICE"} <= names


@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_what_is_installed_compiles_and_runs(kind: str, built: dict[str, Path], tmp_path: Path) -> None:
    home = tmp_path / "fresh"
    venv.create(home, symlinks=True)
    python = home / "bin" / "python"
    own = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=tmp_path).strip()
    # The folder only, after the environment's own: an editable install's hooks in it are not run.
    Path(own, "running.pth").write_text(sysconfig.get_path("purelib") + "\n")
    pip = (python, "-m", "pip", "install", "--no-index", "--no-deps", "--no-build-isolation", "--ignore-installed")
    run(*pip, "--no-warn-script-location", built[kind], cwd=tmp_path)
    assert f"24 operators {jitopt.__version__}" in run(python, "-c", PROGRAM, cwd=tmp_path)
    assert "target" in run(home / "bin" / "jitopt", "info", cwd=tmp_path)
