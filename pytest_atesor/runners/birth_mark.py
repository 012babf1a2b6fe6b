"""A mark that a child and all its descendants carry, whatever they do: fork, setsid, clear the environment.

It is made of two things that the kernel hands on through fork and exec and that have no effect of their own:

- a number in the soft limit RLIMIT_LOCKS, ignored since Linux 2.4. It tells one child from every other, but
  limits belong to the whole process: what another thread of ours starts in that instant gets the number too;
- the thread's policy for broken memory (PR_MCE_KILL), switched between "default" and "late", which is what
  "default" means unless the administrator chose otherwise. It belongs to the thread alone and settles that.

Both can be read of any process, by anybody, zombies included.
"""

import contextlib
import ctypes
import os
import resource
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import ClassVar, Final, Self, final

__all__ = ["LIMIT_LABEL", "BirthMark", "kill_marked_by"]

LIMIT_LABEL: Final = "Max file locks"
"""How /proc/PID/limits calls the limit that carries the number."""

# The resource module leaves it out because it has no effect; the number is that of <asm-generic/resource.h>.
_RLIMIT_LOCKS: Final = 10
_PR_MCE_KILL: Final = 33
_PR_MCE_KILL_GET: Final = 34
_PR_MCE_KILL_SET: Final = 1
_LATE: Final = 0
_DEFAULT: Final = 2
_PF_MCE_PROCESS: Final = 0x80  # in the flags of /proc/PID/stat: the thread has a policy of its own
_TIME_BITS: Final = 40
_ROUNDS: Final = 5
_REAP_S: Final = 5.0
_REAP_LOOK_S: Final = 0.005
_LIBC: Final = ctypes.CDLL(None, use_errno=True)


class _Limits:
    """One lock for the limits, which belong to this whole process."""

    lock: ClassVar = threading.Lock()


class _Moments:
    """When this process made its last mark, in microseconds: no two of its marks are of the same one."""

    lock: ClassVar = threading.Lock()
    last: ClassVar[int] = 0

    @classmethod
    def take(cls) -> int:
        with cls.lock:
            cls.last = max(time.monotonic_ns() // 1000, cls.last + 1)
            return cls.last


@final
class BirthMark:
    """The mark of one child. Made and given in the same thread."""

    __slots__ = ("_is_late", "_policy", "number")

    def __init__(self) -> None:
        # Unlike that of any other child of any harness on this machine: who marks, and when in microseconds.
        self.number = os.getpid() << _TIME_BITS | _Moments.take() % (1 << _TIME_BITS)
        self._policy: int = _LIBC.prctl(_PR_MCE_KILL_GET, 0, 0, 0, 0)
        # A harness inside a marked child starts out as "late", so its own children are told by "default".
        self._is_late = self._policy == _DEFAULT

    @contextlib.contextmanager
    def given(self) -> Iterator[Self]:
        """Let what this thread starts inside the block carry the mark from its first instruction."""
        with _Limits.lock:
            soft, hard = resource.getrlimit(_RLIMIT_LOCKS)
            with contextlib.suppress(OSError, ValueError):  # somebody's hard limit: sessions must do then
                resource.setrlimit(_RLIMIT_LOCKS, (self.number, hard))
            _set_policy(_LATE if self._is_late else _DEFAULT)
            try:
                yield self
            finally:
                _set_policy(self._policy)
                resource.setrlimit(_RLIMIT_LOCKS, (soft, hard))

    def is_on(self, pid: int) -> bool:
        """Whether that child of ours, of a session other than ours, came out of the marked one.

        Marks given by a harness that ran inside the child count too: nobody else in this process but other
        threads' harnesses give any, and those carry our process id.
        """
        number = _read_number(pid)
        if number == self.number:
            return _has_policy(pid) is self._is_late
        return number is not None and number >> _TIME_BITS not in {0, os.getpid()} and number != _own_number()

    def kill_all(self) -> None:
        """Kill everything that carries the mark, and reap what of it is our child."""
        _kill_where(lambda pid: _read_number(pid) == self.number and _has_policy(pid) is self._is_late)


def kill_marked_by(pid: int) -> None:
    """Kill every process that a harness with that process id marked, and that outlived it.

    The second net behind the guard, which may have been killed before its harness was.
    """
    _kill_where(lambda one: (_read_number(one) or 0) >> _TIME_BITS == pid)


def _kill_where(is_meant: Callable[[int], bool]) -> None:
    """Kill and reap what is meant until nothing of it is left, in a few rounds: it may fork meanwhile."""
    for _ in range(_ROUNDS):
        names = os.listdir("/proc")  # noqa: PTH208 - Path costs ten times as much
        found = [int(name) for name in names if name.isdecimal() and is_meant(int(name))]
        for one in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(one, signal.SIGKILL)
        for one in found:
            with contextlib.suppress(ChildProcessError):  # somebody else's child, who will reap it
                _reap(one)
        if not found:
            return


def _reap(pid: int) -> None:
    """Wait for a killed child, but not for ever: one in an uninterruptible wait may never die."""
    give_up = time.monotonic() + _REAP_S
    while os.waitpid(pid, os.WNOHANG) == (0, 0) and time.monotonic() < give_up:
        time.sleep(_REAP_LOOK_S)


def _set_policy(policy: int) -> None:
    _LIBC.prctl(_PR_MCE_KILL, _PR_MCE_KILL_SET, policy, 0, 0)


def _own_number() -> int | None:
    return _read_number(os.getpid())


def _read_number(pid: int) -> int | None:
    """Return the number in a process's soft limit, None when there is none or the process is gone."""
    for line in _read(f"/proc/{pid}/limits").splitlines():
        if line.startswith(LIMIT_LABEL):
            soft = line.removeprefix(LIMIT_LABEL).split()[0]
            return int(soft) if soft.isdecimal() else None
    return None


def _has_policy(pid: int) -> bool:
    fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return len(fields) > 6 and bool(int(fields[6]) & _PF_MCE_PROCESS)  # noqa: PLR2004 - see proc(5): field 9


def _read(path: str) -> str:
    try:
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - a Path costs more than the read
            return file.readall().decode("ascii", "replace")
    except OSError:
        return ""
