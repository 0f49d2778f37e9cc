"""The native driver: order, flags, barriers, stamps, termination, floating-point state."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from jitopt.codegen.cache import Cache
from jitopt.runtime import driver as driver_module
from jitopt.runtime import threads
from jitopt.runtime.driver import driver_object, ticks_per_second
from jitopt.runtime.launch import Launch, RunOptions
from jitopt.runtime.steps import BARRIER, ONE_THREAD

THREADS = pytest.mark.parametrize("nthreads", [1, 2, 3, 8])


def chain(table, kernels, length=40, count=1001):
    """A chain of steps over two buffers, each of which reads what other shares of the last one wrote."""
    buffers = [np.arange(count), np.zeros(count, np.int64)]
    expected = buffers[0].copy()
    for step in range(length):
        x, y = buffers[step % 2], buffers[(step + 1) % 2]
        table.add(kernels["reverse"], x, y, count, flags=BARRIER)
        expected = expected[::-1] * 3 + np.arange(count)
    return buffers, expected


@THREADS
def test_dependent_steps_with_barriers_give_the_same_bits(nthreads, kernels, table):
    buffers, expected = chain(table, kernels)
    launch = Launch(table.words(), nthreads)
    for _ in range(100):
        buffers[0][:] = np.arange(len(buffers[0]))
        assert launch()
        np.testing.assert_array_equal(buffers[0], expected)


@THREADS
def test_every_share_once_and_single_steps_on_the_caller(nthreads, kernels, table):
    shared, single = np.zeros((8, 2), np.int64), np.zeros((8, 2), np.int64)
    table.add(kernels["count_shares"], shared)
    table.add(kernels["count_shares"], single, flags=ONE_THREAD)
    table.add(kernels["count_shares"], shared, flags=BARRIER)
    assert Launch(table.words(), nthreads)()
    assert shared.tolist() == [[2, nthreads]] * nthreads + [[0, 0]] * (8 - nthreads)
    assert single.tolist() == [[1, 1]] + [[0, 0]] * 7


def test_an_empty_table_runs(table):
    for nthreads in (1, 2):
        assert Launch(table.words(), nthreads)()


@pytest.mark.parametrize(
    "bad", [np.zeros((2, 3), np.int64), np.zeros((2, 4), np.int32), np.zeros((2, 8), np.int64)[:, ::2]]
)
def test_what_is_no_table_is_refused(bad):
    with pytest.raises(ValueError, match="not a step table"):
        Launch(bad)


def test_fewer_than_one_thread_is_refused(table):
    with pytest.raises(ValueError, match="nthreads is 0"):
        Launch(table.words(), 0)


def test_more_threads_than_the_most_are_cut_down(table):
    table.add(0)
    assert Launch(table.words(), 10_000).nthreads == threads.MAX_THREADS


def test_a_run_of_single_steps_wakes_nobody(kernels, table):
    for _ in range(2):
        table.add(kernels["count_shares"], np.zeros((8, 2), np.int64), flags=ONE_THREAD)
    assert Launch(table.words(), 4).nthreads == 1


@pytest.mark.parametrize("nthreads", [1, 2, 3])
def test_terminate_ends_a_run_at_the_next_step_for_all(nthreads, kernels, table):
    options, shared = RunOptions(), np.zeros((8, 2), np.int64)
    table.add(kernels["count_shares"], shared, flags=BARRIER)
    table.add(kernels["ask_to_stop"], options.terminate_address, flags=ONE_THREAD)
    table.add(kernels["count_shares"], shared, flags=BARRIER)
    launch = Launch(table.words(), nthreads)
    assert not launch(options)
    assert options.terminate
    assert shared[:nthreads].tolist() == [[1, nthreads]] * nthreads
    assert not launch(options)  # still set: nothing begins
    assert shared[:nthreads].tolist() == [[1, nthreads]] * nthreads
    assert launch(RunOptions())  # the kernel sets the other options' flag
    options.terminate = False
    assert launch()
    assert shared[:nthreads].tolist() == [[5, nthreads]] * nthreads


def test_terminate_from_another_thread(kernels, table):
    chain(table, kernels, length=4000, count=4000)  # runs for tens of milliseconds at least
    launch, options = Launch(table.words(), 2), RunOptions()
    timer = threading.Timer(0.005, setattr, (options, "terminate", True))
    timer.start()
    ended = [launch(options) for _ in range(20)]
    timer.join()
    assert not ended[-1]
    assert launch()


def test_stamps_of_each_slot(kernels, table):
    chain(table, kernels, length=5)
    words = table.words()
    words[:, 3] = [4, 3, 2, 1, 0]
    for nthreads in (1, 2):
        stamps = np.zeros((5, 2), np.int64)
        launch = Launch(words, nthreads)
        launch(stamps=stamps)
        in_order = stamps[::-1].ravel()
        assert (np.diff(in_order) >= 0).all() and in_order[0] > 0
        before = stamps.copy()
        launch()
        np.testing.assert_array_equal(stamps, before)


def test_the_clock_has_a_plausible_rate():
    assert 1e6 < ticks_per_second() < 1e11


@pytest.mark.parametrize("nthreads", [1, 2])
@pytest.mark.parametrize("flush", [True, False])
def test_denormals_and_the_callers_state(flush, nthreads, kernels, table):
    smallest = np.finfo(np.float32).tiny
    x, y = np.full(8, smallest), np.full((2, 8), 7, np.float32)
    table.add(kernels["halve"], x, y)
    assert Launch(table.words(), nthreads, flush_denormals=flush)()
    half = np.float32(0) if flush else smallest / 2
    assert (y[:nthreads] == half).all()
    assert (x * np.float32(0.5) == smallest / 2).all() and smallest / 2 > 0  # NumPy keeps its denormals


def test_the_object_comes_from_the_cache_the_second_time(tmp_path, monkeypatch):
    cache = Cache(tmp_path / "cache")
    first = driver_module._cached_object(cache)
    monkeypatch.setattr(driver_module, "driver_object", lambda: pytest.fail("compiled again"))
    assert driver_module._cached_object(cache) == first


def test_the_object_needs_the_c_library_alone():
    from jitopt.codegen.symbols import read_symbols

    assert read_symbols(driver_object()).undefined <= {"syscall"}
