"""Downloaded files of all slots, kept on the host by content: what one case downloaded serves the others.

``sha256/<2 digits>/<digest>`` below the pool's directory. No sandbox sees it. What comes in is a copy, named
by the digest that is computed here; what goes out is a copy again, whose digest is computed again. Nothing
here says that a file is wanted or good: who asks for a digest has it from a signed list.

There are no locks: a file appears whole, under the only name that it can have, or not at all.
"""

import contextlib
import errno
import hashlib
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

__all__ = ["LARGEST_BYTES", "MOST_BYTES", "DownloadPool"]

LARGEST_BYTES: Final = 512 * 1024**2
"""The size of the largest file that is kept."""

MOST_BYTES: Final = 4 * 1024**3
"""How much is kept; of more, what was used longest ago goes first."""

_SPARE_BYTES: Final = 2 * 1024**3  # the cases' own files need the disk more than we do
_UNIT: Final = 1024**2
_UNITS_BETWEEN_TRIMS: Final = 64
_KEPT_SHARE: Final = 0.9
_STALE_S: Final = 24 * 3600.0
_NEW: Final = ".new-"
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CREATE: Final = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_NOT_HERE: Final = frozenset({errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM})
_CHUNK: Final = 1024**2


class _Found(NamedTuple):
    used_ns: int
    size_bytes: int
    path: str


class DownloadPool:
    """The files below ``root``, which is made when the first one is kept.

    At most ``most_bytes`` are kept, and nothing is kept or handed out where less than ``spare_bytes`` of the
    disk would be free.
    The bound is held each time that about 64 MiB were added, so it may be passed by as much.
    """

    def __init__(self, root: Path, *, most_bytes: int = MOST_BYTES, spare_bytes: int = _SPARE_BYTES) -> None:
        self._root = root
        self._files = root / "sha256"
        self._most_bytes = most_bytes
        self._spare_bytes = spare_bytes

    def is_empty(self) -> bool:
        """Say whether nothing was ever kept, or nothing that can be read."""
        try:
            return not self._files.is_dir()
        except OSError:
            return True

    def has(self, digest: str) -> bool:
        """Say whether there is a file of that SHA-256 (64 lower-case hexadecimal digits)."""
        try:
            return self._path(digest).is_file()
        except OSError:
            return False

    def require_room(self, directory: Path, size_bytes: int) -> None:
        """Raise OSError where ``size_bytes`` more on the disk of ``directory`` leave too little of it."""
        if shutil.disk_usage(directory).free - size_bytes < self._spare_bytes:
            raise OSError(errno.ENOSPC, "little room is left on the disk", str(directory))

    def hand_out(self, digest: str, target: Path) -> int | None:
        """Write a copy of the file with that SHA-256 as the new file ``target``; return its size in bytes.

        None, and no file, when there is none; one that is not what its name says is removed. Raises OSError
        when the copy cannot be written, or the disk has too little room for it and a copy of it.
        """
        path = self._path(digest)
        try:
            source = os.open(path, _READ)
        except OSError:
            return None
        with _closing(source):
            self.require_room(target.parent, 2 * os.fstat(source).st_size)
            with _closing(os.open(target, _CREATE, 0o644)) as copy:
                is_right = False
                try:
                    size = _copy(source, copy, LARGEST_BYTES) if _is_regular(source) else 0
                    is_right = _is_regular(source) and _digest(copy) == digest
                finally:
                    if not is_right:
                        target.unlink(missing_ok=True)
                os.fchmod(copy, 0o644)
        with contextlib.suppress(OSError):
            if is_right:
                os.utime(path)  # what was used longest ago goes first
            else:
                path.unlink()
        return size if is_right else None

    def keep(self, source: int) -> int:
        """Keep a copy of the open regular file ``source``; return how many bytes were added, 0 for none.

        The file may be a stranger's, and be changed while it is read. Raises OSError.
        """
        size = os.fstat(source).st_size
        if not _is_regular(source) or size > LARGEST_BYTES:
            return 0
        self._root.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.require_room(self._root, size)
        handle, name = tempfile.mkstemp(prefix=_NEW, dir=self._root)
        new = Path(name)
        try:
            with _closing(handle):
                size = _copy(source, handle, LARGEST_BYTES)
                target = self._path(_digest(handle))
            if size > LARGEST_BYTES or target.is_file():
                return 0
            target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            new.replace(target)
        finally:
            new.unlink(missing_ok=True)
        if self._note(size):
            self.trim()
        return size

    def trim(self) -> None:
        """Remove what was used longest ago, until there is room again; nothing below the bound."""
        found = sorted(self._entries())
        total = sum(one.size_bytes for one in found)
        if total > self._most_bytes:
            for one in found:
                if total <= self._most_bytes * _KEPT_SHARE:
                    break
                Path(one.path).unlink(missing_ok=True)
                total -= one.size_bytes
        for left in self._root.glob(f"{_NEW}*"):  # of a process that was killed
            with contextlib.suppress(OSError):
                if time.time() - left.lstat().st_mtime > _STALE_S:
                    left.unlink()

    def _path(self, digest: str) -> Path:
        return self._files / digest[:2] / digest

    def _note(self, size_bytes: int) -> bool:
        """Note what was added, in a file of all processes with a byte per MiB; say if it is time to trim."""
        with (self._root / "grown").open("ab") as grown:
            grown.write(b"." * (size_bytes // _UNIT + 1))
            is_due = grown.tell() >= _UNITS_BETWEEN_TRIMS
            if is_due:
                grown.truncate(0)
        return is_due

    def _entries(self) -> Iterator[_Found]:
        for directory in self._files.glob("??"):
            with contextlib.suppress(OSError), os.scandir(directory) as listed:
                for one in listed:
                    with contextlib.suppress(OSError):  # a rival has removed it
                        facts = one.stat(follow_symlinks=False)
                        if not stat.S_ISDIR(facts.st_mode):
                            yield _Found(facts.st_mtime_ns, facts.st_size, one.path)


@contextlib.contextmanager
def _closing(handle: int) -> Iterator[int]:
    try:
        yield handle
    finally:
        os.close(handle)


def _is_regular(handle: int) -> bool:
    return stat.S_ISREG(os.fstat(handle).st_mode)


def _copy(source: int, target: int, most: int) -> int:
    """Copy an open file, sharing blocks where the file system can; return its size, ``most`` + 1 for more."""
    left = most + 1
    with contextlib.suppress(_Elsewhere):
        while left > 0 and (count := _copy_in_kernel(source, target, left)):
            left -= count
    while left > 0 and (chunk := os.read(source, min(_CHUNK, left))):
        left -= len(chunk)
        view = memoryview(chunk)
        while view:
            view = view[os.write(target, view) :]
    return most + 1 - left


class _Elsewhere(Exception):  # noqa: N818 - no error: the other way goes on where this one stands
    """The kernel does not copy between these two files."""


def _copy_in_kernel(source: int, target: int, most: int) -> int:
    try:
        return os.copy_file_range(source, target, most)
    except OSError as error:
        if error.errno in _NOT_HERE:
            raise _Elsewhere from None
        raise


def _digest(handle: int) -> str:
    os.lseek(handle, 0, os.SEEK_SET)
    with os.fdopen(os.dup(handle), "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
