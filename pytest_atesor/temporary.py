"""What a file is called while it is written, beside the one whose place it takes."""

import os
from typing import Final

__all__ = ["temporary_name"]

_TOKEN: Final = os.urandom(6).hex()


def temporary_name(name: str) -> str:
    """Return a name, hidden, that no other process writes ``name`` under.

    The process id alone would not do: processes in containers have equal ones and may share the directory.
    """
    return f".{name}.{os.getpid()}-{_TOKEN}.tmp"
