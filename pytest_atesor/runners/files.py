"""Files that a child left: read as a stranger's, without following or waiting for anything."""

import os
import stat
from pathlib import Path
from typing import BinaryIO, Final

from pytest_atesor.errors import BadInputError

__all__ = ["read_strangers_file", "read_strangers_tail"]

_SMALL_FILE_BYTES: Final = 4 * 1024 * 1024


def read_strangers_file(path: Path) -> bytes:
    """Return the bytes of a regular file of at most 4 MiB.

    Raises OSError, or BadInputError, whose text goes behind the file's name, when it is anything else.
    """
    with _open(path) as file:
        data = file.read(_SMALL_FILE_BYTES + 1)
    if len(data) > _SMALL_FILE_BYTES:
        raise BadInputError(f"it is larger than {_SMALL_FILE_BYTES} bytes")
    return data


def read_strangers_tail(path: Path, size_bytes: int) -> bytes:
    """Return the last bytes of a regular file. Raises OSError, or BadInputError when it is anything else."""
    with _open(path) as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - size_bytes))
        return file.read(size_bytes)


def _open(path: Path) -> BinaryIO:
    # A link could point at anybody's file, and a FIFO would block us.
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise BadInputError("it is no regular file")
    return os.fdopen(descriptor, "rb")
