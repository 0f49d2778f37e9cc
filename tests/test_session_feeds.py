"""What a session takes as feeds, and what it says to those it does not take."""

from __future__ import annotations

from collections import UserDict
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

import jitopt
from jitopt import FeedError, JitoptError, ShapeError
from tests.networks import N, floats, pair, passing

X = floats(3, 4)
Y = floats(3, 4, seed=1)


@pytest.fixture(scope="module")
def session() -> Any:
    return jitopt.compile(pair())


def unaligned(array: Any) -> Any:
    raw = np.zeros(array.nbytes + 1, np.uint8)
    out = raw[1:].view(array.dtype).reshape(array.shape)
    out[...] = array
    return out


def read_only(array: Any) -> Any:
    out = array.copy()
    out.flags.writeable = False
    return out


ACCEPTED = {
    "contiguous": lambda a: a,
    "read-only": read_only,
    "strided": lambda a: np.repeat(a, 3, axis=1)[:, ::3],
    "reversed": lambda a: a[::-1, ::-1].copy()[::-1, ::-1],
    "fortran": np.asfortranarray,
    "byte-swapped": lambda a: a.astype(a.dtype.newbyteorder()),
    "byte-swapped and transposed": lambda a: a.T.astype(a.dtype.newbyteorder()).T,
    "unaligned": unaligned,
    "list": lambda a: a.tolist(),
    "tuples": lambda a: tuple(map(tuple, a.tolist())),
    "rows": list,
    "matrix": lambda a: a.view(np.matrix),
    "masked": np.ma.masked_array,
}


@pytest.mark.parametrize("form", ACCEPTED)
def test_arrays_of_any_form_and_lists_are_accepted(session: Any, form: str) -> None:
    fed = ACCEPTED[form](X)
    before = np.array(fed)
    total, out = session.run(None, {"x": fed, "y": ACCEPTED[form](Y)})
    np.testing.assert_array_equal(total, X + Y)
    np.testing.assert_array_equal(out, np.maximum(X + Y, 0))
    np.testing.assert_array_equal(np.array(fed), before)


@pytest.mark.parametrize("wrap", [MappingProxyType, UserDict])
def test_any_mapping_will_do(session: Any, wrap: Any) -> None:
    np.testing.assert_array_equal(session.run(["sum"], wrap({"x": X, "y": Y}))[0], X + Y)


def test_empty_arrays_make_empty_results(session: Any) -> None:
    total, out = session.run(None, {"x": X[:0], "y": Y[:0]})
    assert total.shape == out.shape == (0, 4)


def test_one_array_can_be_fed_twice(session: Any) -> None:
    np.testing.assert_array_equal(session.run(["sum"], {"x": X, "y": X})[0], X + X)


WRONG: dict[str, tuple[Any, type[JitoptError], str]] = {
    "no dictionary": ([X, Y], FeedError, "dictionary by input name, not a list"),
    "none": (None, FeedError, "dictionary by input name, not None"),
    "array": (X, FeedError, "not a ndarray"),
    "missing": ({"x": X}, FeedError, "missing feed 'y'"),
    "nothing": ({}, FeedError, "missing feed 'x', 'y'"),
    "superfluous": ({"x": X, "y": Y, "z": X}, FeedError, "no input is named 'z'"),
    "misnamed": ({"x": X, "yy": Y}, FeedError, "no input is named 'yy', did you mean 'y'?"),
    "name of another type": ({"x": X, "y": Y, 3: X}, FeedError, "no input is named '3'"),
    "float64": ({"x": X, "y": Y.astype(np.float64)}, FeedError, "'y' takes float32, the feed is float64"),
    "int64": ({"x": X.astype(np.int64), "y": Y}, FeedError, "'x' takes float32, the feed is int64"),
    "complex": ({"x": (X + 1j).tolist(), "y": Y}, FeedError, "converts to complex128"),
    "text": ({"x": "abc", "y": Y}, FeedError, "takes float32, a str"),
    "none fed": ({"x": None, "y": Y}, FeedError, "takes float32, None"),
    "ragged": ({"x": [[1.0], [1.0, 2.0]], "y": Y}, FeedError, "does not convert to an array"),
    "objects": ({"x": X.astype(object), "y": Y}, FeedError, "the feed is object"),
    "structured": ({"x": np.zeros(3, [("a", "f4")]), "y": Y}, FeedError, "the feed is"),
    "rank": ({"x": X[0], "y": Y}, ShapeError, r"'x' has rank 2, float32\[n, 4\], the feed has shape \(4,\)"),
    "scalar": ({"x": 1.0, "y": Y}, ShapeError, "rank 2"),
    "rank too high": ({"x": X[None], "y": Y}, ShapeError, "rank 2"),
    "extent": ({"x": X[:, :3], "y": Y}, ShapeError, r"axis 1 of input 'x' must be 4, the feed has shape \(3, 3\)"),
    "shared symbol": ({"x": X, "y": Y[:2]}, ShapeError, r"axis 0 of input 'y' must be n = 3, the feed has shape"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_feeds_raise_one_clear_error(session: Any, case: str) -> None:
    feeds, kind, message = WRONG[case]
    with pytest.raises(kind, match=message) as caught:
        session.run(None, feeds)
    assert type(caught.value) is kind and caught.value.model == "pair"
    np.testing.assert_array_equal(session.run(["sum"], {"x": X, "y": Y})[0], X + Y)


def test_errors_of_names_say_which_there_are(session: Any) -> None:
    with pytest.raises(FeedError) as caught:
        session.run(None, {"x": X})
    assert caught.value.remedy == "inputs are 'x', 'y'"


# element types, on inputs that are outputs ----------------------------------------------------------------------------
TYPES = [
    "float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool",
    "complex64", "complex128",
]  # fmt: skip


def run_one(dtype: str, feed: Any, shape: Any = (N,)) -> Any:
    session = jitopt.compile(passing(x=(dtype, shape)))
    (result,) = session.run(None, {"x": feed})
    assert result.dtype == np.dtype(dtype)
    return result


@pytest.mark.parametrize("dtype", TYPES)
def test_every_element_type_of_numpy_is_taken(dtype: str) -> None:
    array = np.array([0, 1, 1, 0], dtype)
    np.testing.assert_array_equal(run_one(dtype, array), array)
    np.testing.assert_array_equal(run_one(dtype, array.astype(array.dtype.newbyteorder())), array)
    assert run_one(dtype, []).shape == (0,)
    assert run_one(dtype, array[0], shape=()).shape == ()
    assert run_one(dtype, array[0].item(), shape=()) == 0


def test_python_numbers_convert_where_nothing_is_lost() -> None:
    assert run_one("uint8", [0, 255]).tolist() == [0, 255]
    assert run_one("int32", [True, -5]).tolist() == [1, -5]
    assert run_one("int8", np.int64(-128), shape=()) == -128
    assert run_one("float16", [1, 2.5]).tolist() == [1.0, 2.5]
    for dtype, feed in [("uint8", [256]), ("uint8", [-1]), ("int32", [2**40]), ("int64", [2**70]), ("int64", [0.5]),
                        ("bool", [1]), ("float32", [1j])]:  # fmt: skip
        with pytest.raises(FeedError):
            run_one(dtype, feed)


def test_text_is_taken_as_numpy_or_python_strings() -> None:
    for feed in (["a", "bb"], np.array(["a", "bb"]), np.array(["a", "bb"], object)):
        session = jitopt.compile(passing(x=("string", (N,))))
        (result,) = session.run(None, {"x": feed})
        assert result.dtype == object and result.tolist() == ["a", "bb"]


def test_a_rank_nobody_declared_may_be_any() -> None:
    session = jitopt.compile(passing(x=("float32", None)))  # type: ignore[arg-type]
    for shape in ((), (3,), (2, 0, 1)):
        assert session.run(None, {"x": np.ones(shape, np.float32)})[0].shape == shape


def test_extents_that_are_expressions_are_held_against_the_others() -> None:
    session = jitopt.compile(passing(x=("float32", (N,)), y=("float32", (2 * N,))))
    assert [r.shape for r in session.run(None, {"x": [1.0], "y": [1.0, 2.0]})] == [(1,), (2,)]
    with pytest.raises(ShapeError, match=r"axis 0 of input 'y' must be 2\*n = 2"):
        session.run(None, {"x": [1.0], "y": [1.0, 2.0, 3.0]})
