"""The input files of a batch on disk: read once, inside their tree, wherever symlinks lead."""

import os
import stat
from pathlib import Path
from typing import Final

from pytest_atesor.core.inputs import InputText
from pytest_atesor.errors import BadInputError

__all__ = ["TreeReader", "read_input"]

_LARGEST_BYTES: Final = 64 * 1024 * 1024
_MISSING: Final = "check the path"


class TreeReader:
    """Reads RunSpecs inside a manifest's directory and fragments inside the profile root; an InputReader."""

    def __init__(self, manifest: Path, profile_root: Path) -> None:
        self._cases = manifest.parent
        self._profiles = profile_root
        self._real = {
            root: os.path.join(os.path.realpath(root), "")  # noqa: PTH118 - with its slash at the end
            for root in (self._cases, self._profiles)
        }
        self._directories: dict[str, str] = {}

    def read_case(self, path: str) -> InputText:
        """Read a RunSpec by its path relative to the manifest. Raises BadInputError."""
        return self._read(self._cases, path, "the manifest's directory")

    def read_import(self, path: str) -> InputText:
        """Read a fragment by its path relative to the profile root. Raises BadInputError."""
        missing = f"imports count from the profile root {self._profiles} (--atesor-profile-root)"
        return self._read(self._profiles, path, "the profile root", missing)

    def _read(self, root: Path, path: str, called: str, missing: str = _MISSING) -> InputText:
        # Ten thousand times: Path takes longer than the disk.
        found = path if root == Path() else os.path.join(root, path)  # noqa: PTH118 - for the reason above
        real = self._resolve(found)
        if not (real + os.sep).startswith(self._real[root]):
            raise BadInputError(f"{found} leads out of {called} {root}, to {real}; keep the inputs inside it")
        return _read(found, real, missing=missing)

    def _resolve(self, path: str) -> str:
        """Return where a path really leads; directories are looked at once."""
        directory, name = os.path.split(path)
        if os.path.islink(path):  # noqa: PTH114 - the same
            return os.path.realpath(path)
        if directory not in self._directories:
            self._directories[directory] = os.path.realpath(directory)
        return os.path.join(self._directories[directory], name)  # noqa: PTH118 - the same


def read_input(path: Path, largest_bytes: int = _LARGEST_BYTES) -> InputText:
    """Return a file that a user named. Raises BadInputError when it is none, or is too large."""
    try:
        return _read(path, os.path.realpath(path), largest_bytes)
    except ValueError:
        raise BadInputError(f"{str(path)!a} is no path; check it") from None


def _read(
    path: Path | str, identity: str, largest_bytes: int = _LARGEST_BYTES, missing: str = _MISSING
) -> InputText:
    try:
        # Not to be waited for: a pipe or device in place of a file is refused, not read.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            os.close(descriptor)
            raise BadInputError(f"{path} is no file; name a file")
        with os.fdopen(descriptor, "rb") as file:
            if status.st_size > largest_bytes:
                raise BadInputError(
                    f"{path} has {status.st_size} bytes; an input has at most {largest_bytes}"
                )
            data = file.read()
    except FileNotFoundError:
        raise BadInputError(f"{path} does not exist; {missing}") from None
    except OSError as error:
        raise BadInputError(f"{path} cannot be read ({error.strerror}); check it") from None
    return InputText(path=str(path), identity=identity, data=data)
