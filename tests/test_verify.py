"""The comparison rule: what passes, what does not, and what the report says."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest

from jitopt.verify import RELATIVE_TOLERANCE, all_finite, compare, compare_all, rounding, tolerance

FLOATS = np.array([[0.5, -2.0, 3.0], [10.0, 0.0, -0.25]], np.float32)


def test_equal_arrays_are_right_without_error() -> None:
    result = compare(FLOATS.copy(), FLOATS)
    assert result and result.ok and result.reason == ""
    assert (result.max_error, result.scaled_error, result.tolerances) == (0.0, 0.0, 0.0)
    assert result.scale == 10.0
    assert result.tolerance == pytest.approx(1e-3)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 250.0])
@pytest.mark.parametrize(("share", "ok"), [(0.5, True), (0.98, True), (1.1, False), (50.0, False)])
def test_tolerance_follows_the_outputs_scale_but_never_falls_below_1e_4(scale: float, share: float, ok: bool) -> None:
    expected = np.linspace(-1.0, 1.0, 7) * scale
    actual = expected.copy()
    actual[3] += share * RELATIVE_TOLERANCE * max(1.0, scale)
    result = compare(actual, expected)
    assert result.ok is ok
    assert result.tolerances == pytest.approx(share)
    assert result.scaled_error == pytest.approx(share * RELATIVE_TOLERANCE * max(1.0, scale) / scale)
    assert ok or "at (3,)" in result.reason


def test_tolerance_ignores_non_finite_values_and_is_zero_for_integers() -> None:
    assert tolerance(np.array([np.inf, -np.inf, np.nan, 5.0])) == pytest.approx(5e-4)
    assert tolerance(np.array([np.nan])) == RELATIVE_TOLERANCE
    assert tolerance(np.zeros((0, 3), np.float32)) == RELATIVE_TOLERANCE
    assert tolerance(np.array([100, 200])) == 0.0


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
def test_special_values_must_stand_in_the_same_places(special: float) -> None:
    expected = FLOATS.copy()
    expected[1, 1] = special
    assert compare(expected.copy(), expected)
    for wrong in (0.0, np.nan, np.inf, -np.inf):
        actual = expected.copy()
        actual[1, 1] = wrong
        same = math.isnan(wrong) == math.isnan(special) if math.isnan(special) else wrong == special
        result = compare(actual, expected)
        assert result.ok is same
        assert same or "(1, 1)" in result.reason
        extra = compare(actual, FLOATS)
        assert extra.ok is (wrong == 0.0)


def test_shape_and_dtype_must_agree() -> None:
    assert "shape (3, 2), expected (2, 3)" in compare(FLOATS.T, FLOATS).reason
    assert "shape" in compare(FLOATS[0, 0], FLOATS[0:1, 0]).reason
    result = compare(FLOATS.astype(np.float64), FLOATS)
    assert not result and "dtype float64, expected float32" in result.reason
    assert result.max_error == math.inf


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.int32, np.bool_])
def test_integers_and_booleans_must_be_equal(dtype: type) -> None:
    expected = np.array([[0, 1], [1, 0]], dtype)
    assert compare(expected.copy(), expected)
    actual = expected.copy()
    actual[1, 0] = 0
    result = compare(actual, expected)
    assert not result and "1 of 4 elements differ, the first at (1, 0)" in result.reason


def test_unsigned_differences_do_not_wrap_around() -> None:
    assert compare(np.array([0], np.uint8), np.array([255], np.uint8)).max_error == 255.0


def test_strings_are_compared_whatever_their_storage() -> None:
    expected = np.array(["a", "bb"], dtype=object)
    assert compare(np.array(["a", "bb"]), expected)
    assert not compare(np.array(["a", "bc"]), expected)


def test_empty_arrays_and_scalars() -> None:
    assert compare(np.zeros((0, 4), np.float32), np.zeros((0, 4), np.float32))
    assert not compare(np.zeros((0, 4), np.float32), np.zeros((4, 0), np.float32))
    assert compare(np.float32(1.0), np.float32(1.0))
    assert "at ()" in compare(np.float32(2.0), np.float32(1.0)).reason


def test_complex_values() -> None:
    expected = np.array([3.0 + 4.0j, 0.0])
    assert compare(expected + 4e-4j, expected)
    assert not compare(expected + 6e-4j, expected)


def test_half_precision_differences_are_taken_in_double() -> None:
    expected = np.array([60000.0, 1.0], np.float16)
    assert compare(np.array([-60000.0, 1.0], np.float16), expected).max_error == 120000.0


def test_compare_all_reports_the_first_wrong_output_or_the_largest_error() -> None:
    near = FLOATS + np.float32(4e-4)
    assert compare_all([FLOATS, near], [FLOATS, FLOATS]).max_error == pytest.approx(4e-4, rel=1e-2)
    result = compare_all([near, FLOATS + 1, FLOATS + 2], [FLOATS] * 3)
    assert not result and result.reason.startswith("output 1: error 1 ")
    assert "1 outputs, expected 2" in compare_all([FLOATS], [FLOATS, FLOATS]).reason
    assert compare_all([], [])


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn])
def test_a_unit_in_the_last_place_of_a_coarse_dtype_is_no_error(dtype: type) -> None:
    unit = float(ml_dtypes.finfo(dtype).eps)
    assert rounding(np.dtype(dtype)) == unit
    expected = np.array([1.5, 100.0, -0.25], dtype)
    largest = expected.astype(np.float64)
    largest[1] += unit * 64  # between 64 and 128
    assert compare(largest.astype(dtype), expected)
    largest[1] += unit * 64
    assert not compare(largest.astype(dtype), expected)
    assert tolerance(expected) == unit * float(expected[1])
    assert tolerance(np.array([1e-2], dtype)) == pytest.approx(max(RELATIVE_TOLERANCE, 1e-2 * unit), rel=0.1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.int8, ml_dtypes.int4, ml_dtypes.uint4])
def test_other_dtypes_have_no_rounding_to_allow_for(dtype: type) -> None:
    assert rounding(np.dtype(dtype)) == 0.0


def test_what_was_computed_from_coarse_values_may_be_as_far_off_as_they_are() -> None:
    assert compare(FLOATS + np.float32(5e-3), FLOATS, least=1e-3)
    assert not compare(FLOATS + np.float32(2e-2), FLOATS, least=1e-3)


def test_finite_means_every_element() -> None:
    assert all_finite(FLOATS) and all_finite(np.array([1, 2])) and all_finite(["text"]) and all_finite(np.zeros(0))
    for special in (np.nan, np.inf, -np.inf):
        assert not all_finite([1.0, special]) and not all_finite(np.array([special, 1], ml_dtypes.bfloat16))
