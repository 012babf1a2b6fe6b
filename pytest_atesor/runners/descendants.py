"""Every process that came out of one child, however it tried to get away, and none that did not.

While a child runs, this process is a child subreaper: whatever loses its parent below us becomes our own
child, so a daemon that forked twice and called setsid is found, and reaped, without a look at the rest of
the machine. Its session or its birth mark tells such an orphan from a process that somebody else in this
program started.
"""

import contextlib
import ctypes
import os
import threading
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from typing import ClassVar, Final, final

import psutil

from pytest_atesor.core.text import sanitize_line
from pytest_atesor.runners.birth_mark import BirthMark

__all__ = [
    "Family",
    "adopting_orphans",
    "child_pids",
    "name_process",
    "reap_survivors",
    "remember_survivors",
    "signal_orphans",
]

_PR_SET_CHILD_SUBREAPER: Final = 36
_PR_GET_CHILD_SUBREAPER: Final = 37
_LOOKS: Final = 100
_LIBC: Final = ctypes.CDLL(None, use_errno=True)
_SURVIVORS: Final[set[int]] = set()


class _Adoption:
    """How many children are waited for: the subreaper flag is this whole process's, so its count is too."""

    lock: ClassVar = threading.Lock()
    users: ClassVar[int] = 0
    before: ClassVar[int] = 0


@contextlib.contextmanager
def adopting_orphans() -> Iterator[None]:
    """Be the one to whom orphans below us fall, until the last user leaves; then as it was before.

    Not for longer: the engines' own daemons, started between two children, belong to init.
    """
    with _Adoption.lock:
        _Adoption.users += 1
        if _Adoption.users == 1:
            _Adoption.before = _get_subreaper()
            _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, ctypes.c_ulong(1), 0, 0, 0)
    try:
        yield
    finally:
        with _Adoption.lock:
            _Adoption.users -= 1
            if _Adoption.users == 0:
                _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, ctypes.c_ulong(_Adoption.before), 0, 0, 0)


def child_pids() -> frozenset[int]:
    """Return the ids of this process's children, zombies included."""
    found: set[int] = set()
    try:
        for thread in os.listdir("/proc/self/task"):  # noqa: PTH208 - Path costs ten times as much, once per child
            with (
                contextlib.suppress(ProcessLookupError),  # the thread ended meanwhile
                open(f"/proc/self/task/{thread}/children", "rb", buffering=0) as file,  # noqa: PTH123 - the same
            ):
                found.update(map(int, file.readall().split()))
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


@final
class Family:
    """The descendants of one child of ours, known by birth mark or session; the others are never touched.

    ``before`` are the children that this process had before it started the child.
    """

    __slots__ = ("_before", "_leader", "_mark", "_ours")

    def __init__(self, leader: int, mark: BirthMark, before: AbstractSet[int]) -> None:
        self._leader = leader
        self._mark = mark
        self._before = set(before)
        self._ours: set[int] = set()

    def reap(self) -> frozenset[int]:
        """Reap the orphans of this family that ended; return those that live. The child is left alone."""
        living: frozenset[int] = frozenset()
        for _ in range(_LOOKS):  # bounded for fork bombs: what keeps making orphans is alive and returned
            living, reaped = self._reap_once()
            if not reaped:
                break  # else: one that died after the look at our children left its own to us
        return living

    def _reap_once(self) -> tuple[frozenset[int], bool]:
        """Return the orphans that live, and whether any was reaped."""
        present = child_pids()
        self._before &= present  # the number of one that ended may come back as one of ours
        self._ours &= present
        orphans = [
            pid for pid in present - self._before - {self._leader} if pid in self._ours or self._is_ours(pid)
        ]
        self._ours.update(orphans)
        living = frozenset(pid for pid in orphans if not _reap(pid))
        return living, len(living) < len(orphans)

    def _is_ours(self, pid: int) -> bool:
        try:
            session = os.getsid(pid)
        except OSError:
            return False
        if session in {self._leader, os.getsid(0)}:  # it left our session, and nobody gets back into that
            return session == self._leader
        return self._mark.is_on(pid)


def signal_orphans(
    pids: Iterable[int], signal_number: int, told: AbstractSet[int] = frozenset()
) -> frozenset[int]:
    """Signal orphans of ours with their process groups, each group once; return the groups.

    Those of the groups in ``told`` get nothing: some programs count their signals. The groups are of the
    child's making: it started in a session of its own, and groups do not cross sessions.
    """
    groups: set[int] = set()
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            group = os.getpgid(pid)
            if group == os.getpgrp():
                os.kill(pid, signal_number)
            elif group not in told and group not in groups:
                groups.add(group)
                os.killpg(group, signal_number)
    return frozenset(groups)


def remember_survivors(pids: Iterable[int]) -> None:
    """Keep children of ours that SIGKILL did not end in time for :func:`reap_survivors`."""
    _SURVIVORS.update(pids)


def reap_survivors() -> frozenset[int]:
    """Reap the survivors that have ended since; return those that live.

    A process of a sandbox that nobody reaps keeps the sandbox's PID 1, and with it the sandbox, from ending.
    """
    _SURVIVORS.difference_update([pid for pid in _SURVIVORS if _reap(pid)])
    return frozenset(_SURVIVORS)


def _get_subreaper() -> int:
    flag = ctypes.c_int(0)
    _LIBC.prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(flag), 0, 0, 0)
    return flag.value


def _reap(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True
