"""The files that a batch is planned from, as text handed in by whoever may read the disk."""

import posixpath
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from pytest_atesor.core.documents import Document
from pytest_atesor.core.jsontext import JsonPath, show_value
from pytest_atesor.core.schema import locate
from pytest_atesor.errors import BadInputError

__all__ = ["InputReader", "InputText", "check_relative", "read_named"]

_LONGEST_PART_BYTES: Final = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class InputText:
    """One file: its path as shown to the user, what tells it from all others on the disk, and its bytes."""

    path: str
    identity: str
    data: bytes


class InputReader(Protocol):
    """Reads the files that a manifest names.

    Both methods raise BadInputError for what is missing or outside.
    """

    def read_case(self, path: str) -> InputText:
        """Read a RunSpec by its path relative to the manifest; it stays inside the manifest's directory."""

    def read_import(self, path: str) -> InputText:
        """Read a fragment by its path relative to the profile root; it stays inside that."""


def read_named(
    read: Callable[[str], InputText], path: str, at: JsonPath, where: str, document: Document
) -> InputText:
    """Return the file that a document, which stands in ``where``, names at ``at``.

    Raises BadInputError with that place for a path that leads out, and for what cannot be read.
    """
    try:
        return read(check_relative(path))
    except ValueError as error:
        reason = f"{show_value(path)} is refused: {error}"
    except BadInputError as error:
        reason = str(error)
    raise BadInputError(f"{locate(at, where, document.marks)}: {reason}")


def check_relative(path: str) -> str:
    """Return a relative POSIX path that stays inside its root, normalized. Raises ValueError with the reason.

    Symlinks are not seen here: the reader checks where the path really leads.
    """
    if not path or not path.isprintable() or "\\" in path:
        raise ValueError("it is empty or has characters that no path needs")
    normal = posixpath.normpath(path)
    if posixpath.isabs(normal):
        raise ValueError("it is absolute; write it relative")
    if normal == ".." or normal.startswith("../"):
        raise ValueError("it leads out of its directory")
    if normal == ".":
        raise ValueError("it names no file")
    if any(len(part.encode()) > _LONGEST_PART_BYTES for part in normal.split("/")):
        raise ValueError(f"it has a name of more than {_LONGEST_PART_BYTES} bytes, which no file may have")
    return normal
