"""The input files of a batch on disk: read once, inside their tree, wherever symlinks lead."""

import os
import stat
from pathlib import Path
from typing import Final

from pytest_atesor.core.inputs import InputText
from pytest_atesor.errors import BadInputError

__all__ = ["TreeReader", "read_input"]

_LARGEST_BYTES: Final = 64 * 1024 * 1024


class TreeReader:
    """Reads RunSpecs inside a manifest's directory and fragments inside the profile root; an InputReader."""

    def __init__(self, manifest: Path, profile_root: Path) -> None:
        self._cases = manifest.parent
        self._profiles = profile_root
        self._real = {root: Path(os.path.realpath(root)) for root in (self._cases, self._profiles)}

    def read_case(self, path: str) -> InputText:
        """Read a RunSpec by its path relative to the manifest. Raises BadInputError."""
        return self._read(self._cases, path, "the manifest's directory")

    def read_import(self, path: str) -> InputText:
        """Read a fragment by its path relative to the profile root. Raises BadInputError."""
        return self._read(self._profiles, path, "the profile root")

    def _read(self, root: Path, path: str, called: str) -> InputText:
        found = root / path
        real = Path(os.path.realpath(found))
        if not real.is_relative_to(self._real[root]):
            raise BadInputError(f"{found} leads out of {called} {root}, to {real}; keep the inputs inside it")
        return _read(found, str(real))


def read_input(path: Path) -> InputText:
    """Return a file that a user named. Raises BadInputError when it is none, or has more than 64 MiB."""
    try:
        return _read(path, os.path.realpath(path))
    except ValueError:
        raise BadInputError(f"{str(path)!a} is no path; check it") from None


def _read(path: Path, identity: str) -> InputText:
    try:
        # Not to be waited for: a pipe or device in place of a file is refused, not read.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            os.close(descriptor)
            raise BadInputError(f"{path} is no file; name a file")
        with os.fdopen(descriptor, "rb") as file:
            if status.st_size > _LARGEST_BYTES:
                raise BadInputError(
                    f"{path} has {status.st_size} bytes; an input has at most {_LARGEST_BYTES}"
                )
            data = file.read()
    except FileNotFoundError:
        raise BadInputError(f"{path} does not exist; check the path") from None
    except OSError as error:
        raise BadInputError(f"{path} cannot be read ({error.strerror}); check it") from None
    return InputText(path=str(path), identity=identity, data=data)
