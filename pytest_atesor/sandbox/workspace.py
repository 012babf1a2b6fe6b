"""A slot's workspace between two cases: whatever the last one did to it, the next one finds it as new.

Downloaded packages are all that stays. They are taken over file by file into new directories, and only plain
files that no ordinary user could have written; a root inside may have left anything else in their place. The
directory itself is looked at from outside, because its owner, mode and access list outlive what is in it.

Root of this machine empties it from outside, before there is a new sandbox, which a container's client
takes ten times as long for. For everybody else files of the sandbox's users are out of reach, and root inside
does it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
import subprocess
from typing import TYPE_CHECKING, Final

from pytest_atesor.errors import SandboxError
from pytest_atesor.sandbox.engines.store import remove_tree

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["EMPTY", "LAY_OUT", "empty_workspace", "replace_workspace", "settle_workspace"]

_MODE: Final = 0o755
_RETIRED: Final = "retired-"
_ACCESS_LISTS: Final = frozenset({"system.posix_acl_access", "system.posix_acl_default"})

_EMPTY_S: Final = 300.0

# By number: the builder is the image's and no user of this machine. So is the file mode.
LAY_OUT: Final = "umask 022 && mkdir -p src cache/apt/archives/partial && chown 1000:1000 src"
"""Root's script, run in the workspace, that makes the directories which are missing."""

# On a full disk nothing can be made before something was removed. A path that leads through a link is no
# cache of ours.
EMPTY: Final = f"""\
set -e
find . -mindepth 1 -maxdepth 1 ! -name cache -exec rm -rf -- {{}} +
kept=cache/apt/archives
if [ -L cache ] || [ -L cache/apt ] || [ -L $kept ] || ! [ -d $kept ]; then
    rm -rf cache
else
    find cache -mindepth 1 -maxdepth 1 ! -name apt -exec rm -rf -- {{}} +
    find cache/apt -mindepth 1 -maxdepth 1 ! -name archives -exec rm -rf -- {{}} +
    find $kept -mindepth 1 -maxdepth 1 \\
        ! \\( -type f -name '*.deb' -user root ! -perm /022 -links 1 \\) -exec rm -rf -- {{}} +
    mv cache old
fi
{LAY_OUT}
if [ -d old ]; then
    find old/apt/archives -name '*.deb' -exec sh -c 'mv -- "$@" "$0"' $kept {{}} +
    rm -rf old
fi
"""
"""Root's script, run in a workspace that nobody uses, that leaves nothing but downloaded packages."""


def settle_workspace(directory: Path) -> None:
    """Make sure that the workspace of the slot in ``directory`` is as we made it; else make a new one.

    Raises SandboxError when none can be made.
    """
    for left in directory.glob(f"{_RETIRED}*"):
        with contextlib.suppress(SandboxError):
            remove_tree(left)
    try:
        is_as_made = _is_as_made(directory / "workspace")
    except OSError as error:
        raise SandboxError(f"{directory}/workspace cannot be looked at ({error}); remove it") from error
    if not is_as_made:
        replace_workspace(directory)


def empty_workspace(directory: Path) -> bool:
    """Empty the workspace of the slot in ``directory`` from outside; False where only root inside can.

    Nobody may use the workspace: the sandbox must be gone with all its processes.
    """
    workspace = directory / "workspace"
    if os.geteuid() != 0 or not _is_made_by_us(workspace / "cache"):
        return False
    try:
        ended = subprocess.run(
            ["sh", "-c", EMPTY],  # noqa: S607 - PATH
            cwd=workspace,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_EMPTY_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return ended.returncode == 0


def _is_made_by_us(cache: Path) -> bool:
    """Say whether root inside is root here: what it made belongs to us."""
    try:
        found = cache.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()


def replace_workspace(directory: Path) -> None:
    """Give the slot in ``directory`` a new, empty workspace. Raises SandboxError.

    What of the old one cannot be removed now gets another name, and is tried again each time.
    """
    workspace = directory / "workspace"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        if workspace.is_symlink() or workspace.exists():
            aside = directory / f"{_RETIRED}{secrets.token_hex(8)}"
            workspace.rename(aside)
            with contextlib.suppress(SandboxError):
                remove_tree(aside)
        workspace.mkdir()
        workspace.chmod(_MODE)  # whatever our own umask is, the builder must get in
    except OSError as error:
        raise SandboxError(f"the workspace {workspace} cannot be made ({error}); remove it") from error


def _is_as_made(workspace: Path) -> bool:
    try:
        found = workspace.lstat()
    except FileNotFoundError:
        return False
    is_ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
    return is_ours and stat.S_IMODE(found.st_mode) == _MODE and not _has_access_list(workspace)


def _has_access_list(workspace: Path) -> bool:
    try:
        return not _ACCESS_LISTS.isdisjoint(os.listxattr(workspace))
    except OSError as error:
        if error.errno == errno.ENOTSUP:
            return False
        raise
