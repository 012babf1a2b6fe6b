"""Files that strangers left in a bundle: opened without following a link or waiting for anything."""

import os
import stat
from pathlib import Path
from typing import BinaryIO

from pytest_atesor.errors import BadInputError

__all__ = ["open_strangers_file"]


def open_strangers_file(path: Path) -> BinaryIO:
    """Open a regular file for reading. Raises OSError, or BadInputError when it is anything else.

    A link could point at anybody's file, a FIFO would block us, and a directory can be opened but not read.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise BadInputError("it is no regular file")
    return os.fdopen(descriptor, "rb")
