"""Every process that came out of one child, however it tried to get away, and none that did not.

While a child runs, this process is a child subreaper: whatever loses its parent below us becomes our own
child, so a daemon that forked twice and called setsid is found, and reaped, without a look at the rest of
the machine. To tell such an orphan from a process that somebody else in this program started, the child
carries a birth mark: a number in the soft limit RLIMIT_LOCKS, which the kernel has ignored since Linux 2.4
and hands on through fork, exec, setsid and an emptied environment.
"""

import contextlib
import ctypes
import os
import resource
import threading
import time
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from typing import ClassVar, Final, final

import psutil

from pytest_atesor.core.text import sanitize_line

__all__ = [
    "BIRTH_MARK_LABEL",
    "Family",
    "adopting_orphans",
    "child_pids",
    "giving_birth_mark",
    "make_birth_mark",
    "name_process",
    "signal_orphan",
]

BIRTH_MARK_LABEL: Final = "Max file locks"
"""How /proc/PID/limits calls the limit that carries the mark."""

_RLIMIT_LOCKS: Final = (
    10  # <asm-generic/resource.h>; the resource module leaves it out because it has no effect
)
_PR_SET_CHILD_SUBREAPER: Final = 36
_PR_GET_CHILD_SUBREAPER: Final = 37
_LIBC: Final = ctypes.CDLL(None, use_errno=True)
_MARKER_BITS: Final = 40


class _Process:
    """What is this whole process's and not one run's: the subreaper flag with its count, and the limits."""

    lock: ClassVar = threading.Lock()
    users: ClassVar[int] = 0
    before: ClassVar[int] = 0


@contextlib.contextmanager
def adopting_orphans() -> Iterator[None]:
    """Be the one to whom orphans below us fall, until the last user leaves; then as it was before.

    Not for longer: the engines' own daemons, started between two children, belong to init.
    """
    with _Process.lock:
        _Process.users += 1
        if _Process.users == 1:
            _Process.before = _get_subreaper()
            _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, ctypes.c_ulong(1), 0, 0, 0)
    try:
        yield
    finally:
        with _Process.lock:
            _Process.users -= 1
            if _Process.users == 0:
                _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, ctypes.c_ulong(_Process.before), 0, 0, 0)


def child_pids() -> frozenset[int]:
    """Return the ids of this process's children, zombies included."""
    found: set[int] = set()
    try:
        for thread in os.listdir("/proc/self/task"):  # noqa: PTH208 - Path costs ten times as much, once per child
            with contextlib.suppress(ProcessLookupError):  # the thread ended meanwhile
                found.update(map(int, _read(f"/proc/self/task/{thread}/children").split()))
    except FileNotFoundError:  # a kernel without CONFIG_PROC_CHILDREN, or a thread that ended in between
        return frozenset(process.pid for process in psutil.Process().children())
    return frozenset(found)


def name_process(pid: int) -> str:
    """Return ``name (pid)`` of a process, as one sanitized line."""
    try:
        name = psutil.Process(pid).name()
    except psutil.Error:
        name = "?"
    return f"{sanitize_line(name, 60) or '?'} ({pid})"


def make_birth_mark() -> int:
    """Return a number unlike that of any other child of any harness on this machine: who marks, and when."""
    return os.getpid() << _MARKER_BITS | time.monotonic_ns() // 1000 % (1 << _MARKER_BITS)


@contextlib.contextmanager
def giving_birth_mark(mark: int) -> Iterator[None]:
    """Let what is started inside the block carry the mark from its first instruction.

    Marked afterwards, a child could have forked already. Another thread's child of the same moment is
    marked too, but stays in our session, by which :class:`Family` tells it.
    """
    with _Process.lock:
        soft, hard = resource.getrlimit(_RLIMIT_LOCKS)
        with contextlib.suppress(OSError, ValueError):  # a hard limit of somebody's: sessions must do then
            resource.setrlimit(_RLIMIT_LOCKS, (mark, hard))
        try:
            yield
        finally:
            resource.setrlimit(_RLIMIT_LOCKS, (soft, hard))


@final
class Family:
    """The descendants of one child of ours, known by birth mark or session; the others are never touched.

    ``before`` are the children that this process had before it started the child.
    """

    __slots__ = ("_before", "_leader", "_mark", "_ours")

    def __init__(self, leader: int, mark: int, before: AbstractSet[int]) -> None:
        self._leader = leader
        self._mark = mark
        self._before = set(before)
        self._ours: set[int] = set()

    def reap(self) -> frozenset[int]:
        """Reap the orphans of this family that ended; return those that live. The child is left alone."""
        present = child_pids()
        self._before &= present  # the number of one that ended may come back as one of ours
        self._ours &= present
        living: set[int] = set()
        for pid in present - self._before - {self._leader}:
            if pid in self._ours or self._is_ours(pid):
                self._ours.add(pid)
                if not _reap(pid):
                    living.add(pid)
        return frozenset(living)

    def _is_ours(self, pid: int) -> bool:
        try:
            session = os.getsid(pid)
        except OSError:
            return False
        if session in {self._leader, os.getsid(0)}:  # it left our session, and nobody gets back into that
            return session == self._leader
        mark = _read_mark(pid)
        if mark is None or mark == self._mark:
            return mark is not None
        # A harness that ran inside the child gave marks of its own; in this process only runs of ours do.
        return mark >> _MARKER_BITS not in {0, os.getpid()} and mark != _read_mark(os.getpid())


def signal_orphan(pid: int, signal_number: int) -> None:
    """Signal an orphan of ours and the process group it is in.

    Its group is of the child's making: the child started in a session of its own, and groups do not cross
    sessions.
    """
    with contextlib.suppress(ProcessLookupError, PermissionError):
        group = os.getpgid(pid)
        if group != os.getpgrp():
            os.killpg(group, signal_number)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal_number)


def _get_subreaper() -> int:
    flag = ctypes.c_int(0)
    _LIBC.prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(flag), 0, 0, 0)
    return flag.value


def _reap(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True


def _read_mark(pid: int) -> int | None:
    """Return the soft RLIMIT_LOCKS of a process or zombie, None when it has none or is gone."""
    try:
        limits = _read(f"/proc/{pid}/limits")
    except OSError:
        return None
    for line in limits.splitlines():
        if line.startswith(BIRTH_MARK_LABEL):
            soft = line.removeprefix(BIRTH_MARK_LABEL).split()[0]
            return int(soft) if soft.isdecimal() else None
    return None


def _read(path: str) -> str:
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - the same
        return file.readall().decode("ascii", "replace")
