"""Processes of an engine that are in the way: clients that were stopped, and what it forgot of a container.

A stopped ``podman exec`` keeps its container's lock; a stopped runtime reaps no command that it started, and
so PID 1 of the sandbox cannot end. Who removes or empties a sandbox ends such clients first: what they wait
for is about to be killed.

An engine whose own process behind a container was killed may remove the container and leave its processes.
They are found by their control group, which has the container's id in its name.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

__all__ = ["end_leftovers", "ending_stopped_clients"]

_STOPPED: Final = frozenset({b"T", b"t"})
_DEAD: Final = frozenset({b"Z", b"X"})
_DEATH_S: Final = 10.0
_ROUND_S: Final = 0.02
_LOOK_S: Final = 0.5


@contextlib.contextmanager
def ending_stopped_clients(programs: Collection[str], name: str) -> Iterator[None]:
    """Kill, inside the block, stopped processes of these programs (base names) that name the sandbox.

    They are looked for again and again: a signal takes its time to stop a process, and may come later.
    """
    is_over = threading.Event()

    def watch() -> None:
        _end_stopped(programs, name)
        while not is_over.wait(_LOOK_S):
            _end_stopped(programs, name)

    watcher = threading.Thread(target=watch, daemon=True, name=f"stopped clients of {name}")
    watcher.start()
    try:
        yield
    finally:
        is_over.set()
        watcher.join()


def _end_stopped(programs: Collection[str], name: str) -> None:
    for pid in _iter_stopped():
        with contextlib.suppress(OSError):
            words = [os.fsdecode(word) for word in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")]
            if os.path.basename(words[0]) in programs and name in words:  # noqa: PTH119 - a word, no path
                os.kill(pid, signal.SIGKILL)


def end_leftovers(container: str) -> None:
    """Kill what is left of a container that its engine has removed, by its whole id; done when nothing is.

    What cannot be killed for want of rights, or within ten seconds, is left.
    """
    give_up = time.monotonic() + _DEATH_S
    while (left := _find_leftovers(container.encode())) and time.monotonic() < give_up:
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                try:
                    os.kill(pid, signal.SIGKILL)
                except PermissionError:
                    return
        time.sleep(_ROUND_S)


def _find_leftovers(container: bytes) -> list[int]:
    found = []
    for pid, name, state in _iter_processes():
        with contextlib.suppress(OSError):
            # podman's monitor may be in a group of its own
            file = "cmdline" if name == b"conmon" else "cgroup"
            if state not in _DEAD and container in Path(f"/proc/{pid}/{file}").read_bytes():
                found.append(pid)
    return found


def _iter_stopped() -> Iterator[int]:
    return (pid for pid, _, state in _iter_processes() if state in _STOPPED)


def _iter_processes() -> Iterator[tuple[int, bytes, bytes]]:
    """Yield number, name and state of each process."""
    for entry in os.scandir("/proc"):
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):
                head, _, tail = Path(entry.path, "stat").read_bytes().rpartition(b") ")
                yield int(entry.name), head.partition(b" (")[2], tail[:1]
