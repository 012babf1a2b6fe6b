"""What happens to a child when the harness itself is killed: a guard process kills the child's whole tree.

The kernel's parent-death signal would reach the child alone and leave what it started, and needs one more
program in front of every child. The guard is a shell that reads from a pipe whose other end only we hold:
when we die, in whatever way, the read ends, and it kills the child's process group and every process with
its birth mark.
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
_SCRIPT: Final = f"""\
cd /
mark= group=
while read -r word number; do
    case $word in
        mark) mark=$number group= ;;
        group) group=$number ;;
        *) mark= group= ;;
    esac
done
[ -n "$mark" ] || exit 0
[ -z "$group" ] || kill -KILL -- "-$group"
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
    if guard is not None and not guard.tell("mark", mark):
        guard.end()  # it was killed while it was idle
        guard = _start()
        if guard is not None:
            guard.tell("mark", mark)
    if guard is None:
        yield _do_without
        return
    try:
        yield guard.protect
    finally:
        _give_back(guard)


class _Guard:
    """A guard process and our end of its pipe."""

    __slots__ = ("owner", "pid", "started_ns", "writer")

    def __init__(self, pid: int, writer: int) -> None:
        self.pid = pid
        self.writer = writer
        self.owner = os.getpid()
        self.started_ns = time.monotonic_ns()

    def tell(self, word: str, number: int = 0) -> bool:
        """Write a line; False when the guard is dead."""
        try:
            os.write(self.writer, f"{word} {number}\n".encode())
        except BrokenPipeError:
            return False
        return True

    def protect(self, group: int) -> None:
        """Name the process group of the child."""
        self.tell("group", group)

    def end(self) -> None:
        """End the guard; it kills nothing."""
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.writer)


def _take() -> _Guard | None:
    with _Idle.lock:
        guard, _Idle.guard = _Idle.guard, None
    if guard is not None and guard.owner == os.getpid():
        return guard
    return _start()


def _give_back(guard: _Guard) -> None:
    surplus: _Guard | None = guard
    alive = guard.tell("done")
    with _Idle.lock:
        # Of several the oldest stays, so that a crowd of threads leaves things as it found them.
        if alive and (_Idle.guard is None or guard.started_ns < _Idle.guard.started_ns):
            surplus, _Idle.guard = _Idle.guard, guard
    if surplus is not None:
        surplus.end()


def _start() -> _Guard | None:
    try:
        reader, writer = os.pipe()
    except OSError:
        return None
    null = [(os.POSIX_SPAWN_OPEN, descriptor, os.devnull, os.O_WRONLY, 0) for descriptor in (1, 2)]
    try:
        pid = os.posix_spawn(
            _SHELL,
            ["atesor-guard", "-c", _SCRIPT, "atesor-guard"],
            {"PATH": os.defpath},
            file_actions=[(os.POSIX_SPAWN_DUP2, reader, 0), *null],
            setsid=True,
        )
    except OSError:
        os.close(writer)
        return None
    finally:
        os.close(reader)
    return _Guard(pid, writer)


def _do_without(_group: int) -> None:
    """Protect nothing."""
