"""Files that a child left: read as a stranger's, without following or waiting for anything."""

import os
from pathlib import Path
from typing import Final

from pytest_atesor.bundle.strangers import open_strangers_file
from pytest_atesor.errors import BadInputError

__all__ = ["read_strangers_file", "read_strangers_tail"]

_SMALL_FILE_BYTES: Final = 4 * 1024 * 1024


def read_strangers_file(path: Path) -> bytes:
    """Return the bytes of a regular file of at most 4 MiB.

    Raises OSError, or BadInputError, whose text goes behind the file's name, when it is anything else.
    """
    with open_strangers_file(path) as file:
        data = file.read(_SMALL_FILE_BYTES + 1)
    if len(data) > _SMALL_FILE_BYTES:
        raise BadInputError(f"it is larger than {_SMALL_FILE_BYTES} bytes")
    return data


def read_strangers_tail(path: Path, size_bytes: int) -> bytes:
    """Return the last bytes of a regular file. Raises OSError, or BadInputError when it is anything else."""
    with open_strangers_file(path) as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - size_bytes))
        return file.read(size_bytes)
