"""What happens to a child when the harness itself is killed: a guard process kills the child's whole tree.

The kernel's parent-death signal would reach the child alone and leave what it started, and needs one more
program in front of every child. The guard is a shell that waits at a pipe whose other end only we hold. When
we die, in whatever way, the pipe ends; the guard reads from a file in memory which child it had to care for,
and kills that child's process group and every process with its birth mark.
"""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import ClassVar, Final

from pytest_atesor.runners.birth_mark import LIMIT_LABEL

__all__ = ["guarding"]

_SHELL: Final = "/bin/sh"
_NOTE: Final = 3
_SCRIPT: Final = f"""\
cd /
read -r nothing
read -r mark group <&{_NOTE}
# Anything but a mark would be a pattern for everybody's processes, and group 1 is everybody.
case $mark in '' | 0 | *[!0-9]*) exit 0 ;; esac
case $group in '' | 0 | 1 | *[!0-9]*) ;; *) kill -KILL -- "-$group" ;; esac
for round in 1 2 3 4 5; do
    found=$(grep -ls "^{LIMIT_LABEL}  *$mark " /proc/[0-9]*/limits)
    [ -n "$found" ] || exit 0
    for file in $found; do
        file=${{file#/proc/}}
        kill -KILL "${{file%/limits}}"
    done
done
"""


class _Idle:
    """The guard that waits for the next child; one is kept, because starting a shell costs a millisecond."""

    lock: ClassVar = threading.Lock()
    guard: ClassVar["_Guard | None"] = None


@contextlib.contextmanager
def guarding(mark: int) -> Iterator[Callable[[int], None]]:
    """Have all with that birth-mark number killed should this process die inside the block, in any way.

    Start the child inside, and tell its process group to the function that the block gets: a group is killed
    in one step, however fast it forks. A guard that cannot be started (no memory, no shell) is done without.
    """
    guard = _take()
    if guard is None:
        yield _do_without
        return
    guard.note(mark)
    try:
        yield lambda group: guard.note(mark, group)
    finally:
        _give_back(guard)


class _Guard:
    """A guard process, our end of its pipe, and the file that tells it what to do."""

    __slots__ = ("memory", "owner", "pid", "started_ns", "writer")

    def __init__(self, pid: int, writer: int, memory: int) -> None:
        self.pid = pid
        self.writer = writer
        self.memory = memory
        self.owner = os.getpid()
        self.started_ns = time.monotonic_ns()

    def note(self, mark: int = 0, group: int = 0) -> None:
        """Name the birth mark and the process group of the child to care for; without any there is none.

        The guard sleeps on: waking it for each child would cost more than all else here.
        """
        _note(self.memory, mark, group)

    def is_alive(self) -> bool:
        """Say whether it would do its work; one that was killed is reaped."""
        try:
            return os.waitpid(self.pid, os.WNOHANG) == (0, 0)
        except ChildProcessError:
            return False

    def end(self) -> None:
        """End the guard; it kills nothing."""
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        self.close()

    def close(self) -> None:
        """Close our side."""
        os.close(self.writer)
        os.close(self.memory)


def _note(memory: int, mark: int = 0, group: int = 0) -> None:
    os.pwrite(memory, f"{mark:<20} {group:<10}\n".encode(), 0)


def _take() -> _Guard | None:
    """Return the guard that waits, else a new one; None when none can be started."""
    with _Idle.lock:
        guard, _Idle.guard = _Idle.guard, None
    if guard is not None and guard.owner == os.getpid():
        if guard.is_alive():
            return guard
        guard.close()
    return _start()


def _give_back(guard: _Guard) -> None:
    surplus: _Guard | None = guard
    guard.note()
    with _Idle.lock:
        # Of several the oldest stays, so that a crowd of threads leaves things as it found them.
        if _Idle.guard is None or guard.started_ns < _Idle.guard.started_ns:
            surplus, _Idle.guard = _Idle.guard, guard
    if surplus is not None:
        surplus.end()


def _start() -> _Guard | None:
    with contextlib.ExitStack() as ours, contextlib.ExitStack() as theirs:
        try:
            reader, writer = os.pipe()
            theirs.callback(os.close, reader)
            ours.callback(os.close, writer)
            memory = os.memfd_create("atesor-guard")
            ours.callback(os.close, memory)
            _note(memory)  # before there is a guard: we may be killed at any time
            pid = _spawn(reader, memory)
        except OSError:
            return None
        ours.pop_all()
    return _Guard(pid, writer, memory)


def _spawn(pipe: int, memory: int) -> int:
    null = [(os.POSIX_SPAWN_OPEN, descriptor, os.devnull, os.O_WRONLY, 0) for descriptor in (1, 2)]
    return os.posix_spawn(
        _SHELL,
        ["atesor-guard", "-c", _SCRIPT, "atesor-guard"],
        {"PATH": os.defpath},
        file_actions=[
            (os.POSIX_SPAWN_DUP2, pipe, 0),
            (os.POSIX_SPAWN_DUP2, memory, _NOTE),
            *null,
        ],
        setsid=True,
    )


def _do_without(_group: int) -> None:
    """Protect nothing."""
