"""The errors that a user can cause or meet, one exit code per leaf.

Each message is one line of three parts: what failed, the value and where it came from, what to do next. The
entry points print it after ``atesor: error:`` and end with ``exit_code``; no traceback is shown. An
exception that is not an :class:`AtesorError` is a defect of this project and keeps its traceback.
"""

from typing import ClassVar

__all__ = [
    "AtesorError",
    "BadInputError",
    "BundleError",
    "SandboxError",
    "SetupError",
    "UsageError",
]


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
