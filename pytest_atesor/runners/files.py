"""Small files that a child left: read as a stranger's, without following or waiting for anything."""

import os
import stat
from pathlib import Path
from typing import Final

from pytest_atesor.errors import BadInputError

__all__ = ["read_strangers_file"]

_SMALL_FILE_BYTES: Final = 4 * 1024 * 1024


def read_strangers_file(path: Path) -> bytes:
    """Return the bytes of a regular file of at most 4 MiB.

    Raises OSError, or BadInputError, whose text goes behind the file's name, when it is anything else.
    """
    # A link could point at anybody's file, and a FIFO would block us.
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise BadInputError("it is no regular file")
        with open(descriptor, "rb", closefd=False) as file:
            data = file.read(_SMALL_FILE_BYTES + 1)
    finally:
        os.close(descriptor)
    if len(data) > _SMALL_FILE_BYTES:
        raise BadInputError(f"it is larger than {_SMALL_FILE_BYTES} bytes")
    return data
