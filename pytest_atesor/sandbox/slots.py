"""Slots: which container names exist, who holds them, where their files are.

A lease is a lock that the kernel holds for the process and frees with its death. It is not inherited by child
processes, so a child that outlives its parent does not keep the slot. Where an engine makes the sandboxes,
the container's name is claimed too, machine-wide: two users have two state directories and one daemon.
Where they are in two network namespaces, only the lock of the other's slot tells whether it lives.
"""

import errno
import fcntl
import os
import pwd
import re
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from filelock import FileLock, Timeout

from pytest_atesor.core.plan import Platform
from pytest_atesor.errors import SetupError

__all__ = [
    "SlotLease",
    "claim_name",
    "container_base",
    "holding_claim",
    "holding_lock",
    "home_directory",
    "lease_slot",
    "network_namespace",
    "slot_directory",
    "slot_name",
    "state_directory",
]

_BASES: Mapping[Platform, str] = {
    Platform.ALPINE: "atesor-ai-sandbox",
    Platform.DEBIAN: "atesor-ai-sandbox-debian",
    Platform.UBUNTU: "atesor-ai-sandbox-debian",
}
_LOOK_S = 0.1
_SAFE_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]{0,127}")


def state_directory(environ: Mapping[str, str]) -> Path:
    """Return where this program keeps its state: ATESOR_STATE_DIR, else the user's XDG state directory.

    Raises SetupError for a user without a home directory.
    """
    if chosen := environ.get("ATESOR_STATE_DIR"):
        return Path(chosen).absolute()
    if (home := environ.get("XDG_STATE_HOME")) and Path(home).is_absolute():
        return Path(home) / "pytest-atesor"
    return home_directory(environ, instead="ATESOR_STATE_DIR") / ".local/state/pytest-atesor"


def home_directory(environ: Mapping[str, str], *, instead: str) -> Path:
    """Return the user's home directory. Raises SetupError naming HOME and the variable ``instead`` of it."""
    if home := environ.get("HOME"):
        return Path(home)
    uid = os.getuid()
    try:
        return Path(pwd.getpwuid(uid).pw_dir)
    except KeyError:
        raise SetupError(f"the user {uid} has no home directory; set {instead} or HOME") from None


def container_base(platform: Platform) -> str:
    """Return the front part of the platform's container names."""
    return _BASES[Platform(platform)]


def slot_name(platform: Platform, number: int) -> str:
    """Return the container name of slot ``number`` (from 1)."""
    return f"{container_base(platform)}-w{number}"


def slot_directory(state: Path, name: str) -> Path:
    """Return the directory of a slot. Raises SetupError for a name that is no container name."""
    if not _SAFE_NAME.fullmatch(name):
        raise SetupError(f"bad container name {name!r}; use letters, digits, '.', '_' and '-'")
    return state / "slots" / name


class SlotLease:
    """A slot that is ours until :meth:`release` or the end of this process."""

    def __init__(
        self, number: int, name: str, directory: Path, lock: FileLock, claim: socket.socket | None = None
    ) -> None:
        self.number = number
        self.name = name
        self.directory = directory
        self._lock = lock
        self._claim = claim

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def release(self) -> None:
        """Give the slot back; the second time does nothing."""
        if self._claim is not None:
            self._claim.close()
        with suppress(OSError):  # of a disk that is gone; this process's death frees it there
            self._lock.release()


def lease_slot(
    state: Path,
    platform: Platform,
    wanted: Iterable[int] = range(1, 1000),
    *,
    is_foreign: Callable[[str], bool] = lambda _name: False,
    engine: str | None = None,
) -> SlotLease:
    """Lease the first free slot among the ``wanted`` numbers.

    ``engine`` is the name of the engine that makes the sandboxes, None without one. ``is_foreign`` says
    whether a container of that name belongs to somebody else; such numbers are skipped.
    Raises SetupError when all are taken.
    """
    for number in wanted:
        name = slot_name(platform, number)
        directory = slot_directory(state, name)
        lock = _try_lock(directory)
        if lock is None:
            continue
        claim = None if engine is None else claim_name(engine, name)
        if (engine is None or claim is not None) and not is_foreign(name):
            return SlotLease(number, name, directory, lock, claim)
        SlotLease(number, name, directory, lock, claim).release()
    raise SetupError(
        f"no free slot for {container_base(platform)} below {state}/slots; "
        "end other batches or use fewer workers"
    )


def claim_name(engine: str, name: str) -> socket.socket | None:
    """Claim a container name among all users of this machine until the socket is closed; None when taken.

    The claim is an abstract socket address: the kernel drops it with our death, and no file can go stale. It
    is seen in one network namespace only (:func:`network_namespace`).
    """
    claim = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        claim.bind(_address(engine, name))
    except OSError as error:
        claim.close()
        if error.errno == errno.EADDRINUSE:
            return None
        raise SetupError(f"the name {name} cannot be claimed ({error})") from error
    return claim


@contextmanager
def holding_claim(engine: str, name: str, on_wait: Callable[[], None]) -> Iterator[None]:
    """Hold the claim of a name that nobody holds for long; ``on_wait`` is called once if it is taken now."""
    claim = claim_name(engine, name)
    if claim is None:
        on_wait()
    while claim is None:
        _wait_for_claim(_address(engine, name))
        claim = claim_name(engine, name)
    with claim:
        claim.listen(socket.SOMAXCONN)
        yield


def _wait_for_claim(address: str) -> None:
    """Return when the claim's holder closes it, in whatever way: nothing else can come."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as waiting:
        try:
            waiting.connect(address)
            waiting.recv(1)
        except ConnectionRefusedError:  # it does not listen yet, or no longer
            time.sleep(_LOOK_S)
        except ConnectionError:
            return


def _address(engine: str, name: str) -> str:
    return f"\0pytest-atesor/{engine}/{name}"[:100]


def network_namespace() -> str:
    """Return what tells this process's network namespace from the others of this machine."""
    try:
        return str(Path("/proc/self/ns/net").readlink())
    except OSError:
        return ""


@contextmanager
def holding_lock(state: Path, name: str) -> Iterator[bool | None]:
    """Hold the lock of a slot of any state directory while entered, and yield whether we do.

    None when there is no lock to be seen from here. Nothing is made.
    """
    try:
        flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(state / "slots" / name / "lock", flags)
    except OSError:
        yield None
        return
    try:
        yield _try_flock(descriptor)
    finally:
        os.close(descriptor)


def _try_flock(descriptor: int) -> bool | None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # this file system has no locks
        return None
    return True


def _try_lock(directory: Path) -> FileLock | None:
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        # thread_local=False: the lease may be given back by another thread than the one that took it
        lock = FileLock(directory / "lock", blocking=False, thread_local=False, is_singleton=False)
        lock.acquire()
    except Timeout:
        return None
    except OSError as error:
        raise SetupError(
            f"the slot directory {directory} cannot be used ({error}); set ATESOR_STATE_DIR"
        ) from error
    return lock
