"""Programs that run inside the sandbox, with nothing but its Python's standard library."""

from pathlib import Path

__all__ = ["RESULT_MARK", "read_program"]

RESULT_MARK = "@source-result "
"""What a program's answer starts with, before one JSON document. The programs stand alone and repeat it."""


def read_program(name: str) -> bytes:
    """Return the source text of one of these programs, such as "unpack.py"."""
    return Path(__file__).with_name(name).read_bytes()
