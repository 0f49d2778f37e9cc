"""Is an answer right? The one rule by which tests, the guard and `jitopt verify` compare arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

RELATIVE_TOLERANCE = 1e-4


@dataclass(frozen=True)
class Comparison:
    """What `compare` found; true in a condition when the answer is within tolerance.

    `max_error` is max|actual - expected| over the finite elements, in the values' own unit; `tolerance` the largest
    error allowed; `scale` is max|expected|. `reason` is empty when `ok` and says what is wrong otherwise.
    """

    ok: bool
    max_error: float
    tolerance: float
    scale: float
    reason: str = ""

    def __bool__(self) -> bool:
        return self.ok

    @property
    def scaled_error(self) -> float:
        """The error on the expected values' own scale: max_error / max|expected|; 0 when there is no error."""
        if self.max_error == 0.0:
            return 0.0
        return self.max_error / self.scale if self.scale else float("inf")

    @property
    def tolerances(self) -> float:
        """The error counted in tolerances; infinite where shapes, dtypes or special values already differ."""
        if not self.tolerance:
            return 0.0 if self.ok else float("inf")
        return self.max_error / self.tolerance


@lru_cache
def rounding(dtype: np.dtype[np.generic]) -> float:
    """The unit in the last place at 1 of a floating dtype coarser than float32 (float16: 2**-10); 0 for any other."""
    steps = 2.0 ** -np.arange(24)
    if dtype.kind not in "fV" or dtype.names is not None or np.float64(0.5).astype(dtype).astype(np.float64) != 0.5:
        return 0.0  # extension dtypes have integers among them
    held = (1 + steps).astype(dtype).astype(np.float64) == 1 + steps
    return 0.0 if held[-1] else float(np.min(steps[held]))


def tolerance(expected: npt.ArrayLike) -> float:
    """The largest error allowed against `expected`: 1e-4 * max(1, max|expected|), 0 for integers.

    It is no less than a unit in the last place at max|expected|, `rounding(dtype) * max|expected|`: in float16 and what
    is coarser than it, the nearest number but one is already more than 1e-4 away.
    """
    array = np.asarray(expected)
    if not _is_inexact(array):
        return 0.0
    scale = _scale(array)
    return max(RELATIVE_TOLERANCE * max(1.0, scale), rounding(array.dtype) * scale)


def all_finite(values: npt.ArrayLike) -> bool:
    """Whether none of the elements is NaN or infinite."""
    array = np.asarray(values)
    return not _is_inexact(array) or bool(np.all(np.isfinite(_wide(array))))


def compare(actual: npt.ArrayLike, expected: npt.ArrayLike, *, least: float = 0.0) -> Comparison:
    """Compare one output with its reference.

    Right means: the same shape and dtype; for floating point NaN and each infinity in the same places and
    max|actual - expected| <= `tolerance(expected)` elsewhere; for integers, booleans and strings equality. Values
    computed from coarser ones carry their rounding: an error up to `least * max(1, max|expected|)` is none, either.
    """
    a, b = np.asarray(actual), np.asarray(expected)
    scale = _scale(b)
    allowed = max(tolerance(b), least * max(1.0, scale))

    def wrong(reason: str, error: float = float("inf")) -> Comparison:
        return Comparison(False, error, allowed, scale, reason)

    if a.shape != b.shape:
        return wrong(f"shape {a.shape}, expected {b.shape}")
    if a.dtype != b.dtype and not (_is_text(a) and _is_text(b)):
        return wrong(f"dtype {a.dtype}, expected {b.dtype}")
    if a.size == 0:
        return Comparison(True, 0.0, allowed, scale)
    if not _is_inexact(b):
        different = np.argwhere(a != b)
        if len(different):
            where = tuple(int(i) for i in different[0])
            first = f"the first at {where}: {a[where]}, expected {b[where]}"
            return wrong(f"{len(different)} of {b.size} elements differ, {first}", _max_difference(a, b))
        return Comparison(True, 0.0, allowed, scale)
    return _compare_inexact(_wide(a), _wide(b), allowed, scale)


def compare_all(actual: Sequence[npt.ArrayLike], expected: Sequence[npt.ArrayLike]) -> Comparison:
    """Compare several outputs in order; the result is the first wrong one, else the one with the most tolerances."""
    if len(actual) != len(expected):
        return Comparison(False, float("inf"), 0.0, 0.0, f"{len(actual)} outputs, expected {len(expected)}")
    results = [compare(a, b) for a, b in zip(actual, expected, strict=True)]
    for index, result in enumerate(results):
        if not result:
            reason = f"output {index}: {result.reason}"
            return Comparison(False, result.max_error, result.tolerance, result.scale, reason)
    return max(results, key=lambda result: result.tolerances, default=Comparison(True, 0.0, 0.0, 0.0))


def _compare_inexact(
    a: npt.NDArray[np.inexact], b: npt.NDArray[np.inexact], allowed: float, scale: float
) -> Comparison:
    for name, special in (("NaN", np.isnan), ("+inf", _plus_infinity), ("-inf", _minus_infinity)):
        ours, theirs = special(a), special(b)
        if not np.array_equal(ours, theirs):
            where = tuple(int(i) for i in np.argwhere(ours != theirs)[0])
            reason = f"{name} in other places: at {where} {a[where]}, expected {b[where]}"
            return Comparison(False, float("inf"), allowed, scale, reason)
    finite = np.isfinite(b)
    error = np.abs(np.where(finite, a, 0) - np.where(finite, b, 0))
    worst = np.unravel_index(int(np.argmax(error)), error.shape)
    max_error = float(error[worst])
    if max_error <= allowed:
        return Comparison(True, max_error, allowed, scale)
    place = tuple(int(i) for i in worst)
    reason = f"error {max_error:.3g} > {allowed:.3g} at {place}: {a[place]}, expected {b[place]}"
    return Comparison(False, max_error, allowed, scale, reason)


def _scale(array: npt.NDArray[np.generic]) -> float:
    """max|array| over finite elements; 0 for an empty array, booleans and strings."""
    if array.size == 0 or _is_text(array) or array.dtype == np.bool_:
        return 0.0
    magnitude = np.abs(_wide(array))
    return float(np.max(magnitude, initial=0.0, where=np.isfinite(magnitude)))


def _max_difference(a: npt.NDArray[np.generic], b: npt.NDArray[np.generic]) -> float:
    return float("inf") if _is_text(b) or b.dtype == np.bool_ else float(np.max(np.abs(_wide(a) - _wide(b))))


def _is_inexact(array: npt.NDArray[np.generic]) -> bool:
    """Floating point or complex, including the extension dtypes (bfloat16, float8) NumPy itself does not know."""
    return array.dtype.kind in "fcV" and array.dtype.names is None


def _is_text(array: npt.NDArray[np.generic]) -> bool:
    return array.dtype.kind in "OUST"


def _wide(array: npt.NDArray[np.generic]) -> npt.NDArray[np.inexact]:
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def _plus_infinity(array: npt.NDArray[np.inexact]) -> npt.NDArray[np.bool_]:
    return np.asarray(np.isinf(array) & (array.real > 0), np.bool_)


def _minus_infinity(array: npt.NDArray[np.inexact]) -> npt.NDArray[np.bool_]:
    return np.asarray(np.isinf(array) & (array.real < 0), np.bool_)
