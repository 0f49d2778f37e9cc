"""Work in a process of its own: on chosen CPUs, with its own memory, and able to crash alone."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import textwrap
from collections.abc import Callable, Collection, Iterator, Mapping
from multiprocessing.connection import Connection
from typing import Any

PATIENCE = 600.0  # seconds a child may take
REASON = 200  # characters of an error that are kept


class ChildFailed(Exception):
    """The work raised, crashed or took too long; the message is one line that says which."""


def in_child(
    function: Callable[..., Any], *arguments: Any, cpus: Collection[int] = (),
    environment: Mapping[str, str] | None = None, seconds: float = PATIENCE,
) -> Any:  # fmt: skip
    """What `function(*arguments)` returns in a new process that runs on `cpus` only (all, where none are given).

    The process has the CPUs and the environment from its first instruction on, so that every library it loads sees
    them; what it prints goes to standard error. Raises ChildFailed.
    """
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(sender, function, arguments))
    with _changed(cpus, environment or {}):
        process.start()
    sender.close()
    try:
        if not receiver.poll(seconds):
            raise ChildFailed(f"took longer than {seconds:g} s")
        good, found = receiver.recv()
    except EOFError:
        process.join()
        raise ChildFailed(f"the process ended with status {process.exitcode}") from None
    finally:
        if process.is_alive():
            process.join(1.0)
            process.kill()
        process.join()
        receiver.close()
    if not good:
        raise ChildFailed(found)
    return found


def _work(sender: Connection, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    os.dup2(2, 1)
    try:
        sender.send((True, function(*arguments)))
    except Exception as error:
        sender.send((False, textwrap.shorten(f"{type(error).__name__}: {error}", REASON, placeholder=" ...")))


@contextlib.contextmanager
def _changed(cpus: Collection[int], environment: Mapping[str, str]) -> Iterator[None]:
    """This thread's CPUs and the environment for a while: a process inherits both."""
    before, allowed = dict(os.environ), os.sched_getaffinity(0)
    os.environ.update(environment)
    if cpus:
        os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)
        os.environ.clear()
        os.environ.update(before)
