"""Feeds as the executor gets them: used in place where they can be, converted where nothing is lost, shapes read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jitopt.errors import FeedError, ShapeError
from jitopt.ir.dims import symbol
from jitopt.ir.dtypes import BY_NAME
from jitopt.ir.types import OptionalType, SequenceType, TensorType
from jitopt.lower.program import INPUT, Buffer, Port
from jitopt.runtime.feeds import bind_extents, check_names, read_feeds, shapes_of

N, M = symbol("n"), symbol("m")


def port(name: str, dtype: str = "float32", shape: Any = (N,)) -> Port:
    type = TensorType(BY_NAME[dtype], shape)
    return Port(name, type, Buffer(name, INPUT, 0, type=type))


def read(feed: Any, dtype: str = "float32", shape: Any = (N,)) -> Any:
    (found,) = read_feeds([port("x", dtype, shape)], {"x": feed}, "model")
    return found


def test_a_fitting_array_is_used_in_place() -> None:
    array = np.arange(4, dtype=np.float32)
    assert np.shares_memory(read(array), array) and read(array).ctypes.data == array.ctypes.data
    array.flags.writeable = False
    assert np.shares_memory(read(array), array)


@pytest.mark.parametrize("change", [lambda a: a[::2], lambda a: a[::-1], lambda a: a.astype(">f4")])
def test_others_are_copied_into_contiguous_native_arrays(change: Any) -> None:
    array = change(np.arange(8, dtype=np.float32))
    found = read(array)
    assert found.flags.carray and found.dtype == np.float32 and not np.shares_memory(found, array)
    np.testing.assert_array_equal(found, array)


def test_zero_rank_stays_zero_rank() -> None:
    for feed in (np.float32(2), np.array(2, np.float32), 2, 2.0, np.float64(2)):
        found = read(feed, shape=())
        assert isinstance(found, np.ndarray) and found.shape == () and found == 2


def test_feeds_come_in_the_ports_order() -> None:
    ports = [port("b"), port("a")]
    found = read_feeds(ports, {"a": np.zeros(1, np.float32), "b": np.ones(1, np.float32)}, "model")
    assert [a[0] for a in found] == [1, 0]


def test_sequences_and_optionals() -> None:
    tensor = TensorType(BY_NAME["int64"], (N,))
    sequence = Port("s", SequenceType(tensor), Buffer("s", INPUT, 0))
    optional = Port("o", OptionalType(tensor), Buffer("o", INPUT, 0))
    parts, given = read_feeds([sequence, optional], {"s": [[1, 2], np.array([3])], "o": [4]}, "model")
    assert [p.tolist() for p in parts] == [[1, 2], [3]] and given.tolist() == [4]
    parts, absent = read_feeds([sequence, optional], {"s": (), "o": None}, "model")
    assert parts == [] and absent is None
    with pytest.raises(FeedError, match=r"'s\[0\]' takes int64"):
        read_feeds([sequence, optional], {"s": [[0.5]], "o": None}, "model")


def test_types_numpy_lacks_cannot_be_fed() -> None:
    with pytest.raises(FeedError, match="bfloat16, which NumPy cannot hold"):
        read([1.0], "bfloat16")


# extents ------------------------------------------------------------------------------------------------------------
def test_symbols_take_their_values_from_the_shapes() -> None:
    ports = [port("x", shape=(N, M)), port("y", shape=(M, N * 2)), port("z", shape=None), port("w", shape=(3,))]
    shapes = [(2, 5), (5, 4), (9, 9, 9), (3,)]
    assert bind_extents(ports, shapes, "model") == {"n": 2, "m": 5}
    assert bind_extents(ports[2:], shapes[2:], "model") == {}
    assert shapes_of([np.zeros((2, 0)), None, [1]]) == ((2, 0), None, None)


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ([(2, 5), (5,)], "'y' has rank 2, the shape given is"),
        ([(2, 5), (4, 4)], r"axis 0 of input 'y' must be m = 5"),
        ([(2, 5), (5, 5)], r"axis 1 of input 'y' must be 2\*n = 4"),
    ],
)
def test_extents_must_agree(shapes: Any, message: str) -> None:
    with pytest.raises(ShapeError, match=message) as caught:
        bind_extents([port("x", shape=(N, M)), port("y", shape=(M, N * 2))], shapes, "model")
    assert caught.value.model == "model"


def test_an_extent_that_no_input_tells_is_an_error() -> None:
    with pytest.raises(ShapeError, match="no input has 'n' as an extent"):
        bind_extents([port("y", shape=(N * 2,))], [(4,)], "model")


# names --------------------------------------------------------------------------------------------------------------
def test_names() -> None:
    ports = [port("image"), port("mask")]
    check_names(ports, {"mask": 0, "image": 0}, "model")
    for given, text in (
        ({"image": 0}, "missing shape 'mask'"),
        ({"image": 0, "masc": 0}, "missing shape 'mask'; no input is named 'masc', did you mean 'mask'?"),
        ({"image": 0, "mask": 0, "q": 0}, "no input is named 'q'"),
        (("image", "mask"), "shapes must be a dictionary by input name, not a tuple"),
    ):
        with pytest.raises(FeedError) as caught:
            check_names(ports, given, "model", "shape")
        assert caught.value.message == text and caught.value.remedy == "inputs are 'image', 'mask'"
    with pytest.raises(FeedError) as caught:
        check_names([], {"x": 0}, "model")
    assert caught.value.remedy == "inputs are none"
