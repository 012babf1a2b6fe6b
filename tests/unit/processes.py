"""Looks at processes that may end at any moment: gone, or a zombie, is an answer too, and no error."""

import contextlib
import os
import select
import signal
import time
from collections.abc import Iterable, Iterator
from typing import Final

import psutil

LIMIT_S: Final = 120.0
"""For what happens within milliseconds, except on a machine that stands still for a while."""


def is_alive(pid: int) -> bool:
    """Say whether a process runs; a zombie, whose parent has not looked yet, does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def read_command(process: psutil.Process) -> list[str]:
    """Return the command line; there is none when the process has ended."""
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:
        return []


def find_children(word: str) -> list[psutil.Process]:
    """Return the living children of this process with that word in their command line."""
    return [one for one in psutil.Process().children() if word in read_command(one)]


@contextlib.contextmanager
def watching(pids: Iterable[int]) -> Iterator[list[int]]:
    """Hold these processes, which live now, by a pidfd each; kill at the end what has not ended."""
    descriptors = [os.pidfd_open(pid) for pid in pids]
    try:
        yield descriptors
    finally:
        for descriptor in descriptors:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            os.close(descriptor)


def have_ended(descriptors: Iterable[int], limit_s: float = LIMIT_S) -> bool:
    """Wait until every process behind these pidfds has ended; say whether all did in time."""
    give_up = time.monotonic() + limit_s
    poll = select.poll()
    waiting = set(descriptors)
    for descriptor in waiting:
        poll.register(descriptor, select.POLLIN)
    while waiting and (left_s := give_up - time.monotonic()) > 0:
        for descriptor, _ in poll.poll(left_s * 1000):
            poll.unregister(descriptor)
            waiting.discard(descriptor)
    return not waiting
