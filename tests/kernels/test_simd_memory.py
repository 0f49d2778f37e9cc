"""Loads and stores: every dtype, masked tails up to a guard page, gathers, scalars, the ABI's words."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from jitopt_kernels.abi import INDEX_OUT_OF_RANGE, STATUS_WORDS, float_word, report, share, word
from jitopt_kernels.simd import (
    DTYPES,
    gather,
    load,
    load_masked,
    load_scalar,
    load_splat,
    prefetch,
    store,
    store_masked,
    store_scalar,
    tail_mask,
)
from numba import njit, types

from tests.kernels.guarded import guarded
from tests.kernels.registers import NAMES, special_values

WORD = types.int64


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    return a.dtype == b.dtype and a.tobytes() == b.tobytes()


@pytest.mark.parametrize("name", NAMES)
def test_load_and_store_keep_every_bit(name: str) -> None:
    size = DTYPES[name].size

    @njit(types.void(WORD, WORD, WORD), error_model="numpy")
    def copies(x: int, y: int, step: int) -> None:
        store(y, load(x, name, 8))
        store(y + step, load_splat(x + size, name, 8))
        for i in range(8):
            store_scalar(y + 2 * step + i * size, load_scalar(x + (7 - i) * size, name))

    x, y = special_values(name)[:8].copy(), np.zeros((3, 8), name)
    copies(x.ctypes.data, y.ctypes.data, 8 * size)
    assert _same(y, np.stack([x, np.repeat(x[1], 8), x[::-1]]))


@pytest.mark.parametrize(("name", "lanes"), [*((name, 8) for name in NAMES), *product(("float32", "bool"), (4, 16))])
def test_masked_tails_touch_nothing_beyond(name: str, lanes: int) -> None:
    @njit(types.void(WORD, WORD, WORD, WORD), error_model="numpy")
    def tail(x: int, y: int, whole: int, count: int) -> None:
        mask = tail_mask(count, lanes)
        value = load_masked(x, mask, name)
        store_masked(y, value, mask)
        store(whole, value)

    values = special_values(name)
    for count in range(lanes + 1):
        source, target, whole = guarded(values[:count]), guarded(np.zeros(count, name)), np.ones(lanes, name)
        tail(source.ctypes.data, target.ctypes.data, whole.ctypes.data, count)
        assert _same(source, target)
        assert _same(whole[:count], source) and not whole[count:].view(np.uint8).any()


def test_a_store_leaves_the_lanes_beside_it_alone() -> None:
    @njit(types.void(WORD, WORD, WORD), error_model="numpy")
    def tail(x: int, y: int, count: int) -> None:
        store_masked(y, load(x, "float32", 8), tail_mask(count, 8))

    x = np.arange(8, dtype=np.float32)
    for count in (-3, 0, 1, 5, 8, 9, 1 << 40):
        y = np.full(8, 7, np.float32)
        tail(x.ctypes.data, y.ctypes.data, count)
        assert (y == np.where(np.arange(8) < count, x, 7)).all()


@pytest.mark.parametrize("offsets", ["int32", "int64"])
@pytest.mark.parametrize("name", ["float32", "int64", "bool", "int8"])
def test_gather(name: str, offsets: str) -> None:
    @njit(types.void(WORD, WORD, WORD), error_model="numpy")
    def pick(x: int, index: int, y: int) -> None:
        prefetch(x)
        store(y, gather(x, load(index, offsets, 8), name))

    x, y = special_values(name)[:64].copy(), np.zeros(8, name)
    index = np.array([0, 63, 5, 5, 31, 2, 62, 1])
    bytes_ = (index * x.itemsize).astype(offsets)
    pick(x.ctypes.data, bytes_.ctypes.data, y.ctypes.data)
    assert _same(y, x[index])


def test_words() -> None:
    @njit(types.float32(WORD, WORD), error_model="numpy")
    def read(args: int, index: int) -> float:
        return float_word(word(args, index))

    words = np.zeros(4, np.int64)
    words.view(np.float32)[::2] = 1.5, -0.0, np.inf, np.pi
    words.view(np.int32)[1::2] = -1  # the high halves do not matter
    assert [read(words.ctypes.data, i) for i in range(4)] == [1.5, 0.0, np.inf, np.float32(np.pi)]


def test_shares_cover_the_range_once_and_evenly() -> None:
    @njit(types.UniTuple(WORD, 2)(WORD, WORD, WORD, WORD), error_model="numpy")
    def split(total: int, grain: int, tid: int, threads: int) -> tuple[int, int]:
        return share(total, grain, tid, threads)

    for total in (0, 1, 7, 64, 1000):
        for grain in (1, 8, 48):
            for threads in (1, 2, 3, 8, 70):
                shares = [split(total, grain, t, threads) for t in range(threads)]
                assert [i for low, high in shares for i in range(low, high)] == list(range(total))
                assert all(low % grain == 0 for low, high in shares if low < high)
                grains = [-(-(high - low) // grain) for low, high in shares]
                assert max(grains) - min(grains) <= 1


def test_only_the_first_error_is_recorded() -> None:
    @njit(types.void(WORD, WORD, WORD), error_model="numpy")
    def fail(args: int, code: int, value: int) -> None:
        report(args, code, value)

    status, args = np.zeros(STATUS_WORDS, np.int64), np.zeros(8, np.int64)
    args[0] = status.ctypes.data
    fail(args.ctypes.data, INDEX_OUT_OF_RANGE, -17)
    fail(args.ctypes.data, INDEX_OUT_OF_RANGE, 99)
    assert status.tolist() == [1, args.ctypes.data, INDEX_OUT_OF_RANGE, -17]
