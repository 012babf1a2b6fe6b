"""One writer per bundle, and nobody who still works for a dead one.

Locks of the kernel, freed by their holder's death. The writer's has the name of its holder beside it; the
workers share one, so that whoever takes the bundle over can wait until the last of them is gone.
"""

import fcntl
import json
import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from filelock import FileLock, Timeout

from pytest_atesor.bundle.files import guard, write_atomic
from pytest_atesor.core.jsontext import format_json
from pytest_atesor.core.text import sanitize_line
from pytest_atesor.errors import BundleError

__all__ = ["BundleLock", "Holder", "WorkerPresence", "wait_for_workers"]

_PATIENCE_S: Final = 30.0  # a worker without its controller gives its case ten seconds to end
_POLL_S: Final = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Who holds a bundle: shown to whoever is refused. ``started_at`` is UTC wall clock."""

    host: str
    pid: int
    started_at: str


class BundleLock:
    """Take the lock on entering, give it back on leaving. Children do not inherit it.

    A dead holder frees it.
    """

    def __init__(self, path: Path, holder: Holder) -> None:
        self._path = path
        self._holder = holder
        self._lock = FileLock(path, timeout=0, thread_local=False)

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.release()

    def acquire(self) -> None:
        """Take the lock at once. Raises BundleError naming the holder when another process has it."""
        with guard("lock", self._path):
            try:
                self._lock.acquire()
            except Timeout:
                raise BundleError(
                    f"{self._path.parent} is in use by {self._describe_holder()}; wait for it or stop it"
                ) from None
        try:
            write_atomic(self._holder_path, format_json(asdict(self._holder)), durable=False)
        except BundleError:
            self._lock.release()
            raise

    def release(self) -> None:
        """Give the lock back, also on a disk that refuses everything; a second call does nothing."""
        if self._lock.is_locked:
            with suppress(OSError):  # who is refused later hears an older name, or none
                self._holder_path.unlink()
            with suppress(OSError):  # of a disk that is gone; this process's death frees it there
                self._lock.release()

    @property
    def _holder_path(self) -> Path:
        return self._path.with_name(f"{self._path.name}.holder")

    def _describe_holder(self) -> str:
        with suppress(OSError, ValueError, KeyError, TypeError):
            found = json.loads(self._holder_path.read_text("utf-8"))
            return sanitize_line(f"process {found['pid']} on {found['host']} since {found['started_at']}")
        return "another process"


class WorkerPresence:
    """A worker's share of the workers' lock, from :meth:`take` until :meth:`release` or its death.

    Children do not inherit it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = -1

    def take(self) -> None:
        """Take the share. Raises BundleError when somebody takes the bundle over."""
        with guard("lock", self._path):
            self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                self.release()
                raise BundleError(f"{self._path.parent} was taken over by another process") from None

    def release(self) -> None:
        """Give the share back; a second call does nothing."""
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            with suppress(OSError):  # it is closed all the same
                os.close(descriptor)


def wait_for_workers(path: Path, on_wait: Callable[[], None], patience_s: float = _PATIENCE_S) -> None:
    """Wait until no worker has a share of the lock at ``path``; ``on_wait`` is called once when one has.

    Raises BundleError when that takes more than ``patience_s`` seconds.
    """
    with guard("lock", path):
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return  # there never was a worker
    give_up = time.monotonic() + patience_s
    try:
        while not _try_exclusive(descriptor):
            on_wait()
            on_wait = _nothing
            if time.monotonic() >= give_up:
                raise BundleError(
                    f"a worker of the former run of {path.parent} does not end; find it with `fuser {path}`"
                )
            time.sleep(_POLL_S)
    finally:
        os.close(descriptor)


def _try_exclusive(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _nothing() -> None:
    pass
