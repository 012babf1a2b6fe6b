"""The products as they were when they were scanned, out of the sandbox's reach, for reports and zips to take.

They are named by their content, so whatever runs in the sandbox afterwards can neither change nor forge them.
"""

import contextlib
import hashlib
import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from pytest_atesor.porter.scan import Artifact
from pytest_atesor.porter.tree import open_inside

__all__ = ["forget_artifacts", "keep_artifacts"]

_LARGEST = 512 * 1024 * 1024
_ALL = 2 * 1024**3
_CHUNK = 1024 * 1024


def keep_artifacts(artifacts: Iterable[Artifact], root: Path, kept: Path) -> int:
    """Copy ``artifacts`` below ``root`` into the new directory ``kept``; return how many bytes those are.

    What changed since it was scanned is left out, as is what goes beyond 512 MiB alone or 2 GiB together.
    Raises OSError when nothing can be written.
    """
    forget_artifacts(kept)
    kept.mkdir(parents=True)
    used = 0
    for one in artifacts:
        target = kept / one.sha256
        if target.exists() or one.size_bytes > _LARGEST or used + one.size_bytes > _ALL:
            continue
        if _copy(root, one, target):
            used += one.size_bytes
    return used


def forget_artifacts(kept: Path) -> None:
    """Remove the directory with all that was kept; absent is fine."""
    shutil.rmtree(kept, ignore_errors=True)


def _copy(root: Path, artifact: Artifact, target: Path) -> bool:
    digest = hashlib.sha256()
    with contextlib.ExitStack() as held:
        try:
            handle = held.enter_context(open_inside(root, artifact.path))
        except OSError:  # gone, or no regular file any more
            return False
        source = held.enter_context(os.fdopen(os.dup(handle), "rb"))
        copy = held.enter_context(target.open("xb"))
        left = artifact.size_bytes + 1  # one more: a file that has grown has another digest
        while left > 0 and (chunk := source.read(min(_CHUNK, left))):
            digest.update(chunk)
            copy.write(chunk)
            left -= len(chunk)
        target.chmod(os.fstat(handle).st_mode & 0o755 | 0o600)
    is_same = digest.hexdigest() == artifact.sha256
    if not is_same:
        target.unlink()
    return is_same
