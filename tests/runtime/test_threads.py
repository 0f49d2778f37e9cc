"""The team: many callers, forks, busy Python threads, idleness, exit."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
import traceback

import numpy as np
import pytest

from jitopt.runtime import platform, threads
from jitopt.runtime.launch import Launch

from .test_driver import chain


def run_often(make_table, kernels, times, nthreads=2, count=1001):
    table = make_table()
    buffers, expected = chain(table, kernels, count=count)
    launch = Launch(table.words(), nthreads)
    for _ in range(times):
        buffers[0][:] = np.arange(count)
        assert launch()
        np.testing.assert_array_equal(buffers[0], expected)


@pytest.fixture
def make_table(table):
    return type(table)


def test_sixteen_callers_get_right_answers_from_one_team(kernels, make_table):
    run_often(make_table, kernels, 1, nthreads=3)
    before, failures = threading.active_count(), []

    def call():
        try:
            run_often(make_table, kernels, 100, nthreads=3)
        except BaseException:
            failures.append(traceback.format_exc())

    callers = [threading.Thread(target=call) for _ in range(16)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert not failures
    assert threading.active_count() <= before


def test_a_busy_python_thread_does_not_change_answers(kernels, make_table):
    stop = threading.Event()

    def spin():
        while not stop.is_set():
            pass

    busy = threading.Thread(target=spin)
    busy.start()
    try:
        run_often(make_table, kernels, 50)
    finally:
        stop.set()
        busy.join()


def test_forked_children_make_their_own_team(kernels, make_table):
    run_often(make_table, kernels, 5)
    children = []
    for _ in range(4):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                assert threads.team_size() == 0
                run_often(make_table, kernels, 50)
                assert threads.team_size() >= 1
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        children.append(child)
    run_often(make_table, kernels, 50)
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0] * 4


def test_a_fork_while_another_thread_runs(kernels, make_table):
    stop = threading.Event()

    def run():
        while not stop.is_set():
            run_often(make_table, kernels, 1, count=20_000)

    other = threading.Thread(target=run)
    other.start()
    try:
        for _ in range(5):
            time.sleep(0.01)
            child = os.fork()
            if child == 0:
                code = 1
                try:
                    run_often(make_table, kernels, 3)
                    code = 0
                finally:
                    os._exit(code)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        stop.set()
        other.join()


def test_an_idle_team_uses_no_cpu(kernels, make_table):
    run_often(make_table, kernels, 1, nthreads=4)
    start = time.process_time()
    time.sleep(0.5)
    assert time.process_time() - start < 0.05


def test_the_team_grows_to_the_largest_run_and_no_further(kernels, make_table):
    for nthreads in (2, 5, 3, 5):
        run_often(make_table, kernels, 1, nthreads=nthreads)
    grown = threads.team_size()
    assert grown >= 4
    run_often(make_table, kernels, 1, nthreads=5)
    assert threads.team_size() == grown


def test_where_threads_cannot_sleep_runs_use_one(kernels, make_table, monkeypatch):
    monkeypatch.setattr(threads, "_team", None)
    monkeypatch.setattr(threads, "this_platform", lambda: platform.Platform("", can_sleep=False))
    run_often(make_table, kernels, 2, nthreads=4)
    assert threads.team_size() == 0


def test_where_no_thread_can_start_runs_use_one(kernels, make_table, monkeypatch, caplog):
    def refuse(_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threads, "_team", None)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    run_often(make_table, kernels, 1, nthreads=4)
    assert "runs use 1 threads, not 4" in caplog.text


EXIT = """
import threading
import numpy as np
from jitopt.runtime import threads
from jitopt.runtime.launch import Launch

table = np.zeros((1, 4), np.int64)
launch = Launch(table, 4)
launch.block[1] = 0  # no step: only the threads are of interest
launch.run()
assert threads.team_size() == 3
threads._leave()
launch.run()  # after the end of the team: alone
assert threads.team_size() == 0 and threading.active_count() == 1
threads._closed = False
launch.run()
print("done")
"""


def test_the_process_ends_promptly_with_a_team(tmp_path):
    start = time.monotonic()
    done = subprocess.run([sys.executable, "-c", EXIT], capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    assert time.monotonic() - start < 20
