"""What a command promised to leave: taken out of its working directory, and listed with size and digest.

Whatever the command can bring about, with links, modes or special files, is told as a fault of its own. Only
what fails by this machine's doing, such as a full disk, is raised.
"""

import errno
import hashlib
import os
import posixpath
import shutil
import stat
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from pytest_atesor.core.plan import Json
from pytest_atesor.core.text import sanitize_line

__all__ = ["Listing", "collect_outputs", "describe_fault", "list_artifacts", "remove_tree"]

_MOST_ARTIFACTS: Final = 20_000
_MACHINES_OWN: Final = frozenset({
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EIO,
    errno.EROFS,
    errno.ENOMEM,
    errno.EMFILE,
    errno.ENFILE,
})
_ABSENT: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})


class Listing(NamedTuple):
    """What was collected, as ``result.json`` says it, and what of it cannot be read."""

    artifacts: list[Json]
    notes: list[Json]
    faults: tuple[str, ...]


def collect_outputs(promised: Iterable[str], work: Path, artifacts: Path) -> tuple[str, ...]:
    """Take what was promised out of ``work`` to ``artifacts`` and return what is not as promised.

    What a promised link leads to is copied. Raises OSError when the machine fails.
    """
    outputs = dict.fromkeys(map(posixpath.normpath, promised))
    found = {name: _find_fault(work, name) for name in outputs}
    faults = [f"the output {name} {fault}" for name, fault in found.items() if fault]
    whole = [
        name
        for name, fault in found.items()
        if not fault and not any(other != name and Path(name).is_relative_to(other) for other in outputs)
    ]
    linked = [Path(name) for name, fault in found.items() if not fault and _leads_elsewhere(work, name)]
    copied = [name for name in whole if any(link.is_relative_to(name) for link in linked)]
    followed = {work / part for link in linked for part in (link, *link.parents)}
    # First what is copied, while everything that links lead to still stands in its place.
    for name in (*copied, *(name for name in whole if name not in copied)):
        target = artifacts / name
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            if name in copied:
                _copy(work / name, target, followed)
            else:
                _move(work / name, target)
        except OSError as error:
            faults.append(f"the output {name} cannot be collected: {describe_fault(error, work)}")
    return tuple(faults)


def list_artifacts(root: Path) -> Listing:
    """Return what was collected into the attempt in ``root``. Raises OSError when the machine fails."""
    artifacts: list[Json] = []
    notes: list[Json] = []
    faults: list[str] = []
    for path in _walk(root / "artifacts", faults):
        if len(artifacts) >= _MOST_ARTIFACTS:
            notes.append(f"only the first {_MOST_ARTIFACTS} artifacts are listed")
            break
        try:
            size_bytes = path.stat().st_size
            sha256 = _digest(path)
        except OSError as error:
            faults.append(_tell_unreadable(error, root / "artifacts"))
            continue
        artifacts.append({
            "path": sanitize_line(path.relative_to(root).as_posix(), 4096),
            "size_bytes": size_bytes,
            "type": "output",
            "sha256": sha256,
        })
    return Listing(artifacts, notes, tuple(faults))


def describe_fault(error: OSError, root: Path) -> str:
    """Return what failed, and where below ``root``, by the command's doing; the machine's own is raised."""
    if error.errno in _MACHINES_OWN:
        raise error
    why = error.strerror or str(error)
    place = Path(os.fsdecode(error.filename)) if isinstance(error.filename, str | bytes) else root
    return f"{place.relative_to(root)}: {why}" if place != root and place.is_relative_to(root) else why


def remove_tree(root: Path) -> None:
    """Remove a directory with all below it, whatever the modes are; what cannot be removed stays."""
    if root.is_symlink():
        return
    folders = [str(root)]
    for folder in folders:  # which grows
        with suppress(OSError):
            os.chmod(folder, stat.S_IRWXU)  # noqa: PTH101 - this is done for every case, and paths are slow
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                    else:
                        os.unlink(entry.path)  # noqa: PTH108 - the same
    for folder in reversed(folders):
        with suppress(OSError):
            os.rmdir(folder)  # noqa: PTH106 - the same


def _find_fault(work: Path, name: str) -> str:
    """Return what is wrong with an output, empty when it is there."""
    try:
        mode = (work / name).stat().st_mode
    except OSError as error:
        why = describe_fault(error, work / name)
        return "is missing" if error.errno in _ABSENT else f"is not usable: {why}"
    if not Path(os.path.realpath(work / name)).is_relative_to(os.path.realpath(work)):
        return "leads out of the working directory"
    return "" if stat.S_ISREG(mode) or stat.S_ISDIR(mode) else "is neither a file nor a directory"


def _leads_elsewhere(work: Path, name: str) -> bool:
    return os.path.realpath(work / name) != os.path.normpath(Path(os.path.realpath(work)) / name)


def _move(source: Path, target: Path) -> None:
    """Rename an output, or copy what may not be moved, such as what lies in a read-only directory."""
    try:
        source.rename(target)
    except OSError as error:
        if error.errno in _MACHINES_OWN:
            raise
        _copy(source, target, ())


def _copy(source: Path, target: Path, followed: Collection[Path]) -> None:
    """Copy a file or directory. Of the links in it only those in ``followed`` become what they lead to."""
    if not source.is_dir():
        _copy_file(source, target)
        return
    folders = [(source, target)]
    for real, copy in folders:  # which grows
        copy.mkdir()
        with os.scandir(real) as entries:
            for entry in entries:
                place = copy / entry.name
                if entry.is_symlink() and real / entry.name not in followed:
                    place.symlink_to(os.readlink(entry))  # noqa: PTH115 - the same bytes
                elif entry.is_dir():
                    folders.append((real / entry.name, place))
                else:
                    _copy_file(real / entry.name, place)
    for real, copy in reversed(folders):
        shutil.copystat(real, copy)


def _copy_file(source: Path, target: Path) -> None:
    if not stat.S_ISREG(source.stat().st_mode):
        raise OSError(errno.EINVAL, "it is neither a file nor a directory", str(source))
    shutil.copy2(source, target)


def _walk(root: Path, faults: list[str]) -> Iterator[Path]:
    """Yield the regular files below a directory in order; what cannot be listed is one more fault."""
    folders = [root]
    while folders:
        folder = folders.pop()
        try:
            with os.scandir(folder) as entries:
                found = sorted(entries, key=lambda entry: entry.name)
            below = [folder / entry.name for entry in found if entry.is_dir(follow_symlinks=False)]
            files = [folder / entry.name for entry in found if entry.is_file(follow_symlinks=False)]
        except FileNotFoundError:
            continue  # nothing was collected
        except OSError as error:
            faults.append(_tell_unreadable(error, root))
            continue
        folders += reversed(below)
        yield from files


def _tell_unreadable(error: OSError, artifacts: Path) -> str:
    return f"an output cannot be read: {describe_fault(error, artifacts)}"


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
