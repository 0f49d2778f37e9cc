"""Imports point one way, and the heavy packages are loaded only where they are needed.

    jitopt_kernels <- ir <- ops <- onnx_io <- passes <- lower <- codegen <- runtime <- session, cli and the rest

Every import statement of every file counts: relative ones, those inside functions, those under TYPE_CHECKING, and
names given to `import_module` or `__import__`.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
LAYERS = (
    "jitopt.errors", "jitopt.ir", "jitopt.ops", "jitopt.onnx_io", "jitopt.passes", "jitopt.lower", "jitopt.codegen",
    "jitopt.runtime", "jitopt",
)  # fmt: skip
NUMBA_USERS = ("jitopt.codegen.worker", "jitopt.codegen.emitter", "jitopt_kernels")


def modules() -> dict[str, Path]:
    """Every module of both packages by its dotted name."""
    found = {}
    for base in (ROOT / "jitopt", ROOT / "kernels" / "jitopt_kernels"):
        for path in sorted(base.rglob("*.py")):
            parts = path.relative_to(base.parent).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()


def imported(tree: ast.AST, module: str, *, package: bool) -> Iterator[tuple[str, int]]:
    """Dotted names a module imports, with line numbers; `from a import b` gives a.b, a module or a name in one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                home = module.split(".")
                home = home[: len(home) - node.level + package]
                base = ".".join([*home, *([node.module] if node.module else [])])
            yield from ((f"{base}.{alias.name}" if alias.name != "*" else base, node.lineno) for alias in node.names)
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in ("import_module", "__import__") and isinstance(node.args[0].value, str):
                yield node.args[0].value, node.lineno


def imports_of(module: str) -> list[tuple[str, int]]:
    path = MODULES[module]
    tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    return list(imported(tree, module, package=path.name == "__init__.py"))


IMPORTS = {module: imports_of(module) for module in MODULES}
ALL = [(module, name, line) for module, found in IMPORTS.items() for name, line in found]


def within(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")


def layer(name: str) -> int:
    return next(i for i, package in enumerate(LAYERS) if within(name, package))


def offenders(message: str, wrong: list[tuple[str, str, int]]) -> str:
    return f"{message}:\n" + "\n".join(
        f"  {MODULES[m].relative_to(ROOT)}:{line} imports {name}" for m, name, line in wrong
    )


def test_relative_and_nested_imports_are_seen() -> None:
    source = "def f():\n  from ..ir import graph\n  from . import x\nimport a.b\nimport_module('c')\nfrom d import *"
    found = [name for name, _ in imported(ast.parse(source), "jitopt.ops.shape", package=False)]
    assert sorted(found) == ["a.b", "c", "d", "jitopt.ir.graph", "jitopt.ops.x"]
    (name, _), = imported(ast.parse("from .x import y"), "jitopt.ops", package=True)  # fmt: skip
    assert name == "jitopt.ops.x.y"


def test_imports_point_one_way() -> None:
    wrong = [
        (m, name, line)
        for m, name, line in ALL
        if within(m, "jitopt") and within(name, "jitopt") and layer(name) > layer(m)
    ]
    assert not wrong, offenders("a lower layer imports a higher one", wrong)


def test_the_kernel_library_knows_nothing_of_jitopt() -> None:
    wrong = [(m, name, line) for m, name, line in ALL if within(m, "jitopt_kernels") and within(name, "jitopt")]
    assert not wrong, offenders("the kernel library is below everything", wrong)


@pytest.mark.parametrize(
    ("package", "users"),
    [
        ("onnx", ("jitopt.onnx_io",)),
        ("google", ("jitopt.onnx_io",)),
        ("numba", NUMBA_USERS),
        ("llvmlite.ir", ("jitopt_kernels.simd",)),
        ("llvmlite", ("jitopt_kernels.simd", "jitopt.codegen", "jitopt.runtime")),
    ],
)
def test_heavy_packages_have_few_users(package: str, users: tuple[str, ...]) -> None:
    wrong = [
        (m, name, line) for m, name, line in ALL if within(name, package) and not any(within(m, user) for user in users)
    ]
    assert not wrong, offenders(f"only {', '.join(users)} may import {package}", wrong)


def needs_numba(module: str, seen: set[str]) -> bool:
    """Whether importing a module of the kernel library loads Numba or llvmlite."""
    seen.add(module)
    for name, _ in IMPORTS[module]:
        if within(name, "numba") or within(name, "llvmlite"):
            return True
        target = name if name in MODULES else name.rpartition(".")[0]
        if target in MODULES and target not in seen and needs_numba(target, seen):
            return True
    return False


def test_jitopt_uses_only_those_kernel_modules_that_load_without_numba() -> None:
    wrong = []
    for m, name, line in ALL:
        if not within(m, "jitopt") or not within(name, "jitopt_kernels") or m in NUMBA_USERS:
            continue
        target = name if name in MODULES else name.rpartition(".")[0]
        if needs_numba(target, set()):
            wrong.append((m, name, line))
    assert not wrong, offenders("kernels are named by string here and resolved in the worker", wrong)


@pytest.mark.parametrize(
    "statement", ["import jitopt", "import jitopt.ops, jitopt.passes, jitopt.lower, jitopt.codegen"]
)
def test_importing_loads_neither_numba_nor_onnx(statement: str) -> None:
    program = f"{statement}\nimport sys\nprint([m for m in ('numba', 'onnx', 'onnxruntime') if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    assert found.stdout.strip() == "[]"
