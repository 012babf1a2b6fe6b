"""One writer per bundle.

A lock of the kernel, freed by its holder's death, and the name of the holder beside it.
"""

import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from filelock import FileLock, Timeout

from pytest_atesor.bundle.files import guard, write_atomic
from pytest_atesor.core.jsontext import format_json
from pytest_atesor.core.text import sanitize_line
from pytest_atesor.errors import BundleError

__all__ = ["BundleLock", "Holder"]


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
        """Give the lock back; a second call does nothing."""
        if self._lock.is_locked:
            self._holder_path.unlink(missing_ok=True)
            self._lock.release()

    @property
    def _holder_path(self) -> Path:
        return self._path.with_name(f"{self._path.name}.holder.json")

    def _describe_holder(self) -> str:
        with suppress(OSError, ValueError, KeyError, TypeError):
            found = json.loads(self._holder_path.read_text("utf-8"))
            return sanitize_line(f"process {found['pid']} on {found['host']} since {found['started_at']}")
        return "another process"
