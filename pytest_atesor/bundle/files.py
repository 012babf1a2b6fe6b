"""Files that are whole or absent.

Atomic replacement, exclusive directories, and clear words for a failing disk.
"""

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from pytest_atesor.errors import BundleError
from pytest_atesor.temporary import temporary_name

__all__ = [
    "check_file_writable",
    "check_writable",
    "explain_os_error",
    "guard",
    "sync_directory",
    "write_atomic",
]

_ADVICE: Final = {
    errno.ENOSPC: "no space is left on the device; free some and resume the batch",
    errno.EDQUOT: "the disk quota is used up; free some space and resume the batch",
    errno.EROFS: "the file system is read-only; choose another output root",
    errno.EACCES: "permission is denied; check the owner and mode",
    errno.EPERM: "it is not permitted; check the owner and mode",
    errno.ENOTDIR: "a part of the path is not a directory; remove it or choose another place",
    errno.EEXIST: "something stands there already; remove it or choose another place",
    errno.EISDIR: "a directory stands there; remove it or choose another place",
    errno.ENAMETOOLONG: "the path is too long; choose a shorter output root",
    errno.EMFILE: "too many files are open; raise the limit (ulimit -n)",
    errno.ESTALE: "the network file system has lost it; mount it again and resume the batch",
    errno.EIO: "the device reports an I/O error; check the disk",
}

_OF_READING: Final = {
    errno.ENOTDIR: "a part of the path is not a directory; check the path",
    errno.EISDIR: "a directory stands there; check the path",
    errno.ENAMETOOLONG: "the path is too long; check it",
}

_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


def explain_os_error(error: OSError, doing: str, path: Path) -> BundleError:
    """Return the one-line error for a failed file operation: what, where, why, and what to do."""
    known = {**_ADVICE, **_OF_READING} if doing == "read" else _ADVICE
    why = known.get(error.errno or 0, error.strerror or str(error))
    return BundleError(f"cannot {doing} {path}: {why}")


@contextmanager
def guard(doing: str, path: Path) -> Iterator[None]:
    """Turn an OSError of the block into the BundleError that explains it."""
    try:
        yield
    except OSError as error:
        raise explain_os_error(error, doing, path) from error


def write_atomic(path: Path, text: str, *, durable: bool = True) -> None:
    """Replace ``path`` by ``text`` as UTF-8: a reader sees the old file or the new one, whole.

    ``durable`` also survives a power cut. Raises BundleError; the old file then stands as it was.
    """
    # Strings and descriptors: this is done for every attempt, and paths and file objects are slow.
    parent, name = os.path.split(path)
    temporary = f"{parent}/{temporary_name(name)}"
    with guard("write", path):
        try:
            _write_whole(temporary, text.encode("utf-8"), durable=durable)
            os.replace(temporary, path)  # noqa: PTH105 - the same
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(temporary)  # noqa: PTH108 - the same
            raise
        if durable:
            sync_directory(parent)


def _write_whole(path: str, data: bytes, *, durable: bool) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
    try:
        written = os.write(descriptor, data)
        while written < len(data):
            # The disk took a part: it takes the rest too, or tells the reason.
            written += os.write(descriptor, data[written:])
        if durable:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_directory(path: str | Path) -> None:
    """Make the entries of a directory survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def check_writable(path: Path, purpose: str) -> None:
    """Check that files can be made in the directory ``path``, or where it would be made, and leave none.

    Raises BundleError naming ``purpose``. A full disk is not seen here.
    """
    place = path
    while not os.path.lexists(place) and place != place.parent:
        place = place.parent
    if not place.is_dir():
        raise BundleError(f"cannot use {path} as {purpose}: {place} is not a directory; choose another place")
    if not os.access(place, os.W_OK | os.X_OK):
        raise BundleError(f"cannot use {path} as {purpose}: {place} is not writable; choose another place")
    if place != path:
        _try_place(place, path, purpose)


def _try_place(place: Path, path: Path, purpose: str) -> None:
    """Make something in a directory and remove it: of a file system such as /proc, root may write all."""
    try:
        # A name of its own: processes in containers may share the directory and have equal process ids.
        Path(tempfile.mkdtemp(prefix=".atesor.", suffix=".tmp", dir=place)).rmdir()
    except OSError as error:
        if error.errno not in _FULL:
            raise BundleError(
                f"cannot use {path} as {purpose}: nothing can be made in {place}; choose another place"
            ) from error


def check_file_writable(path: Path, purpose: str) -> None:
    """Check that the file ``path`` can be written, and leave it as it is. Raises BundleError."""
    if path.is_dir():
        raise BundleError(f"cannot use {path} as {purpose}: it is a directory; choose another place")
    if path.exists():
        if not os.access(path, os.W_OK):
            raise BundleError(f"cannot use {path} as {purpose}: it is not writable; choose another place")
        return
    check_writable(path.parent, f"the directory of {purpose}")
    if path.parent.is_dir():
        _try_place(path.parent, path, purpose)
