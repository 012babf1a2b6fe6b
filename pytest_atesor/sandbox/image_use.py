"""Who uses an engine's images: while a batch does, nobody removes one, for it may be the batch's.

A batch has no sandbox between two cases, so the engine itself does not know. Those who share a state
directory know by a lock there, the other users of this machine by an abstract socket address, as with slots.
Which image it is does not matter: what is left over is removed when the next one is made.
"""

import fcntl
import os
import socket
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pytest_atesor.errors import SetupError

__all__ = ["removing_images", "using_images"]

_SOCKETS: Final = Path("/proc/net/unix")


@contextmanager
def using_images(engine: str, state: Path) -> Iterator[None]:
    """Keep the images of that engine from being removed while entered. Raises SetupError."""
    with _open_lock(engine, state) as lock, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as mark:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH)  # whoever removes images is done in a moment
            mark.bind(f"\0{_prefix(engine)}{uuid.uuid4().hex}")
        except OSError as error:
            raise SetupError(
                f"the use of {engine}'s images cannot be made known ({error}); set ATESOR_STATE_DIR"
            ) from error
        yield


@contextmanager
def removing_images(engine: str, state: Path) -> Iterator[bool]:
    """Say whether no batch uses images of that engine; none of this state directory begins while entered."""
    with _open_lock(engine, state) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_free = f"@{_prefix(engine)}" not in _SOCKETS.read_text(encoding="utf-8", errors="replace")
        except OSError:  # taken, or there is no telling
            is_free = False
        yield is_free


@contextmanager
def _open_lock(engine: str, state: Path) -> Iterator[int]:
    file = state / "images" / f"{engine}.used"
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise SetupError(f"the lock {file} cannot be made ({error}); set ATESOR_STATE_DIR") from error
    try:
        yield lock
    finally:
        os.close(lock)


def _prefix(engine: str) -> str:
    return f"pytest-atesor/{engine}/images/"
