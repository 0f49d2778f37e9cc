"""Formulas against float64 references, compiled and as plain NumPy code; every public one has a case."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from jitopt_kernels import formulas
from jitopt_kernels.simd import load, store
from numba import njit

from tests.kernels.formula_cases import GROUPS, expected, results

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def compiled() -> dict[str, np.ndarray]:
    return {f"{group}: {case}": row for group in GROUPS for case, row in results(group).items()}


@pytest.fixture(scope="module")
def interpreted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, np.ndarray]:
    """The same kernels in a process whose JIT is off."""
    path = tmp_path_factory.mktemp("formulas") / "python.npz"
    command = [sys.executable, "-m", "tests.kernels.formula_cases", str(path)]
    forced = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run(command, env=forced, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    with np.load(path) as saved:
        return dict(saved)


@pytest.mark.parametrize("group", GROUPS)
def test_compiled_formulas_give_what_they_should(group: str, compiled: dict[str, np.ndarray]) -> None:
    for case, want in expected(group).items():
        got = compiled[f"{group}: {case}"]
        if got.dtype.kind == "f":
            want = want.astype(np.float32)
            np.testing.assert_allclose(got, want, rtol=2e-6, atol=5e-7, err_msg=case)
        else:
            np.testing.assert_array_equal(got, want, err_msg=case)


def test_python_gives_what_compiled_code_gives(
    compiled: dict[str, np.ndarray], interpreted: dict[str, np.ndarray]
) -> None:
    assert compiled.keys() == interpreted.keys()
    for case, got in interpreted.items():
        if got.dtype.kind == "f":
            np.testing.assert_allclose(got, compiled[case], rtol=1e-6, atol=5e-7, err_msg=case)
        else:
            np.testing.assert_array_equal(got, compiled[case], err_msg=case)


@pytest.mark.parametrize("group", ["floats", "truths"])
def test_scalars_give_what_registers_give(group: str, compiled: dict[str, np.ndarray]) -> None:
    for case, got in results(group, scalars=True).items():
        np.testing.assert_array_equal(got, compiled[f"{group}: {case}"], err_msg=case)


def test_every_formula_has_a_case() -> None:
    used = {name for cases, _, _ in GROUPS.values() for case in cases for name in re.findall(r"\w+(?=\()", case)}
    assert set(formulas.__all__) <= used


def test_nan_goes_through(compiled: dict[str, np.ndarray]) -> None:
    x = 4  # the place of NaN among the operands
    for case in ("relu(x)", "clip(x, f32(-1), f32(6))", "minimum(x, y)", "maximum(x, y)", "gelu_erf(x)", "silu(x)"):
        assert np.isnan(compiled[f"floats: {case}"][x]), case


def test_products_with_a_sigmoid_far_from_zero() -> None:
    """They are quotients x / (1 + e**-z): 0 where e**-z is infinite, x where it is 0, NaN only for NaN and -inf."""
    x = np.array([-np.inf, -1e30, -200, -88.6, -87, -20, -0.0, 0, 20, 87, 88.6, 200, 1e30, np.inf, np.nan, 1], "f4")
    y = np.empty((3, len(x)), "f4")

    @njit(error_model="numpy")
    def kernel(x: int, y: int) -> None:
        v = load(x, "float32", 16)
        store(y, formulas.silu(v))
        store(y + 64, formulas.gelu_tanh(v))
        store(y + 128, formulas.gelu_sigmoid(v))

    kernel(x.ctypes.data, y.ctypes.data)
    with np.errstate(all="ignore"):
        wide = x.astype("f8")
        inner = 2 * np.sqrt(2 / np.pi) * (wide + 0.044715 * wide**3)
        want = np.stack([wide / (1 + np.exp(-z)) for z in (wide, inner, 1.702 * wide)])
    # z is rounded a few times, and e**-z turns its relative error into one up to 88 times as large.
    np.testing.assert_allclose(y, want, rtol=4 * 88 * 2**-24, atol=1e-35)
    assert np.array_equal(np.signbit(y[:, 1:3]), np.ones((3, 2), bool))
