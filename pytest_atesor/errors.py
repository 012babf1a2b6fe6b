"""The errors that a user can cause or meet, one exit code per leaf.

Each message is one line of three parts: what failed, the value and where it came from, what to do next. The
entry points print it after ``atesor: error:`` and end with ``exit_code``; no traceback is shown. An
exception that is not an :class:`AtesorError` is a defect of this project and keeps its traceback.
"""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar, Final

__all__ = [
    "AtesorError",
    "BadInputError",
    "BundleError",
    "SandboxError",
    "SetupError",
    "UsageError",
    "explaining_paths",
]

_OF_PATHS: Final = frozenset({errno.ENAMETOOLONG, errno.EACCES})
_SHOWN_CHARACTERS: Final = 100


class AtesorError(Exception):
    """Base of every expected error; its text is one line, ready for the user."""

    exit_code: ClassVar[int] = 1


class UsageError(AtesorError):
    """A bad flag, worker count, shard value, package name or platform."""

    exit_code: ClassVar[int] = 2


class BadInputError(AtesorError):
    """A missing or invalid package list, manifest or RunSpec."""


class SetupError(AtesorError):
    """The machine cannot run the batch: engine, emulation, image or space is missing."""


class BundleError(AtesorError):
    """A bundle cannot be written, read or locked."""


class SandboxError(AtesorError):
    """A sandbox failed while a case ran in it; the package is not to blame."""


@contextmanager
def explaining_paths() -> Iterator[None]:
    """Turn what the system has against a path that the user named into the BadInputError that says so.

    A mere look at such a path fails, where it is longer than any name or leads through somebody's directory.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in _OF_PATHS or error.filename is None:
            raise
        name = str(error.filename)
        shown = name if len(name) <= _SHOWN_CHARACTERS else f"{name[:_SHOWN_CHARACTERS]}..."
        raise BadInputError(f"cannot look at {shown}: {error.strerror}; check the path") from error
