"""``atesor resources``: the examples, profiles and schemas that the wheel brings, copied for the user."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from importlib import resources as packaged
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from pytest_atesor.errors import BadInputError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from importlib.resources.abc import Traversable

__all__ = ["copy_resources", "list_resources", "resources"]

_FOLDERS: Final = ("examples", "profiles")


@click.group(name="resources", help="Examples, profiles and schemas that come with this program.")
def resources() -> None:
    """Group of the resource commands."""


@resources.command(name="copy", help="Copy them to DIRECTORY; files that you changed are kept.")
@click.argument("directory", metavar="[DIRECTORY]", default="atesor-resources")
@click.option("--force", is_flag=True, help="Replace changed files too.")
def _copy(directory: str, *, force: bool) -> int:
    if not directory.strip():
        raise UsageError("an empty directory was named; name one, or none for atesor-resources")
    written = copy_resources(Path(directory), list_resources(), force=force)
    click.echo(f"{directory}: {written} file{'s' * (written != 1)} written")
    return 0


def list_resources() -> dict[str, bytes]:
    """Return every shipped file by its path below the target directory; schemas are the program's own."""
    package = packaged.files("pytest_atesor")
    files: dict[str, bytes] = {}
    for folder in _FOLDERS:
        files.update(_walk(package / "resources" / folder, folder))
    for file in (package / "core" / "schemas").iterdir():
        if file.name.endswith(".schema.json"):
            files[f"schemas/{file.name}"] = file.read_bytes()
    return dict(sorted(files.items()))


def copy_resources(directory: Path, files: Mapping[str, bytes], *, force: bool) -> int:
    """Write the files that are missing or, with ``force``, changed; return how many.

    Nothing is written when any is in the way. Raises BadInputError with all conflicts. No symlink below
    ``directory`` is followed.
    """
    if directory.exists() and not directory.is_dir():
        raise BadInputError(f"{directory} is a file, not a directory; choose another place")
    conflicts = [path for path, data in files.items() if not _is_free(directory, path, data, force=force)]
    if conflicts:
        shown = ", ".join(conflicts)
        advice = "remove them, or copy elsewhere" if force else "copy elsewhere, or replace files by --force"
        raise BadInputError(f"{directory} has files that were changed or are links: {shown}; {advice}")
    written = 0
    for path, data in files.items():
        target = directory / path
        try:
            if not target.is_file() or target.read_bytes() != data:
                target.parent.mkdir(parents=True, exist_ok=True)
                _write(target, data)
                written += 1
        except OSError as error:
            raise BadInputError(f"cannot write {target}: {error.strerror}; choose another place") from None
    return written


def _is_free(directory: Path, path: str, data: bytes, *, force: bool) -> bool:
    target = directory / path
    parents = [directory / parent for parent in Path(path).parents]
    if target.is_symlink() or any(parent.is_symlink() for parent in parents if parent != directory):
        return False
    if any(parent.exists() and not parent.is_dir() for parent in parents):
        return False
    if not target.exists():
        return True
    try:
        return target.is_file() and (force or target.read_bytes() == data)
    except OSError:
        return False


def _write(target: Path, data: bytes) -> None:
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=".atesor-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        Path(name).chmod(0o644)
        Path(name).replace(target)
    except BaseException:
        with suppress(OSError):
            Path(name).unlink()
        raise


def _walk(folder: Traversable, path: str) -> Iterator[tuple[str, bytes]]:
    for entry in folder.iterdir():
        below = f"{path}/{entry.name}"
        if entry.is_dir():
            yield from _walk(entry, below)
        else:
            yield below, entry.read_bytes()
