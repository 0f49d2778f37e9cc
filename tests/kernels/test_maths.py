"""The maths functions: at most 2 ulp (pow 4) over every exponent on every target, exact at the special values."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import llvmlite.binding as llvm
import numpy as np
import pytest
from jitopt_kernels import simd
from jitopt_kernels.targets import TARGETS
from numba import njit

from tests.kernels.registers import evaluate, mapped, mapped2
from tests.kernels.sweep import REFERENCES

ROOT = Path(__file__).parents[2]
BOUNDS = dict.fromkeys(REFERENCES, 2.0) | {"pow": 4.0, "sqrt": 0.5, "reciprocal": 0.5}
MANTISSAS = 1024
HOST = llvm.get_host_cpu_features()
RUNNABLE = [name for name, target in TARGETS.items() if target.runs_on(HOST)]


@pytest.fixture(scope="module", params=RUNNABLE)
def errors(request: pytest.FixtureRequest) -> dict[str, list[float]]:
    """What `tests.kernels.sweep` finds in a process whose Numba compiles for the target."""
    target = TARGETS[request.param]
    forced = {"NUMBA_CPU_NAME": target.cpu, "NUMBA_CPU_FEATURES": target.features}
    command = [sys.executable, "-m", "tests.kernels.sweep", str(MANTISSAS)]
    done = subprocess.run(command, env=os.environ | forced, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_every_exponent_is_within_the_bound(errors: dict[str, list[float]]) -> None:
    beyond = {name: found for name, found in errors.items() if not found[0] <= BOUNDS[name]}
    assert not beyond, f"(error in ulp, argument, result, exact): {beyond}"
    assert errors.keys() == BOUNDS.keys()


INF, NAN, TINY = np.inf, np.nan, 1.401298464324817e-45
ARGUMENTS = (0.0, -0.0, INF, -INF, NAN, TINY, -TINY, 1.0)
EXACT = {
    "exp": (1, 1, INF, 0, NAN, 1, 1, np.e),
    "expm1": (0, -0.0, INF, -1, NAN, TINY, -TINY, np.e - 1),
    "log": (-INF, -INF, INF, NAN, NAN, -149 * np.log(2), NAN, 0),
    "log1p": (0, -0.0, INF, NAN, NAN, TINY, -TINY, np.log(2)),
    "tanh": (0, -0.0, 1, -1, NAN, TINY, -TINY, np.tanh(1)),
    "sigmoid": (0.5, 0.5, 1, 0, NAN, 0.5, 0.5, 1 / (1 + np.exp(-1))),
    "erf": (0, -0.0, 1, -1, NAN, TINY, -TINY, 0.8427007929497149),
    "sqrt": (0, -0.0, INF, NAN, NAN, 2.0**-74.5, NAN, 1),
    "reciprocal": (INF, -INF, 0, -0.0, NAN, INF, -INF, 1),
    "sin": (0, -0.0, NAN, NAN, NAN, TINY, -TINY, np.sin(1)),
    "cos": (1, 1, NAN, NAN, NAN, 1, 1, np.cos(1)),
    "tan": (0, -0.0, NAN, NAN, NAN, TINY, -TINY, np.tan(1)),
    "atan": (0, -0.0, np.pi / 2, -np.pi / 2, NAN, TINY, -TINY, np.pi / 4),
    "sinh": (0, -0.0, INF, -INF, NAN, TINY, -TINY, np.sinh(1)),
    "asinh": (0, -0.0, INF, -INF, NAN, TINY, -TINY, np.arcsinh(1)),
    "atanh": (0, -0.0, NAN, NAN, NAN, TINY, -TINY, INF),
}


def test_special_values() -> None:
    x = np.array(ARGUMENTS, np.float32)
    for (name, values), got in zip(EXACT.items(), evaluate([f"{name}(x)" for name in EXACT], x, x), strict=True):
        want = np.array(values, np.float32)
        np.testing.assert_array_max_ulp(got, want, 1)
        assert (np.signbit(got) == np.signbit(want))[~np.isnan(want)].all(), f"{name}: {got}"


def test_powers_of_special_values() -> None:
    values = np.array(
        [0, -0.0, 1, -1, 2, -2, 3, 0.5, -0.5, INF, -INF, NAN, 1e38, TINY, 33554432, -33554433], np.float32
    )
    base, power = (np.ascontiguousarray(grid.ravel()) for grid in np.meshgrid(values, values))
    got = mapped2(simd.pow, "float32")(base, power)
    with np.errstate(all="ignore"):
        want = np.power(base, power)
    np.testing.assert_array_max_ulp(got, want, 1)
    assert (np.signbit(got) == np.signbit(want))[~np.isnan(want)].all()


@pytest.mark.parametrize(("function", "want"), [(simd.fmod, np.fmod), (simd.mod, np.mod)])
def test_float_remainders_are_exact(function: object, want: np.ufunc) -> None:
    random = np.random.default_rng(3)
    sizes = 10.0 ** random.uniform(-44, 38, (2, 8192)) * random.choice([-1, 1], (2, 8192))
    a, b = np.ascontiguousarray(sizes.astype(np.float32))
    a[:64], b[:64] = (
        np.repeat(np.array([0, -0.0, INF, -INF, NAN, 7.5, -7.5, 1e38]), 8),
        np.tile([0, -0.0, INF, -INF, NAN, 2, -2, TINY], 8),
    )
    with np.errstate(all="ignore"):
        exact = want(a, b)
    got = mapped2(function, "float32")(a, b)
    np.testing.assert_array_equal(got, exact)
    assert (np.signbit(got) == np.signbit(exact))[~np.isnan(exact)].all()


def test_results_do_not_depend_on_the_lanes() -> None:
    x = np.random.default_rng(0).standard_normal(512).astype(np.float32) * 4
    mixed = njit(lambda v: simd.exp(simd.tanh(v)) + simd.erf(v) * simd.sigmoid(v))
    four, eight, sixteen = (mapped(mixed, "float32", lanes=lanes)(x).tobytes() for lanes in (4, 8, 16))
    assert four == eight == sixteen
