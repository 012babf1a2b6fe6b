"""Files that the sandbox's own packages brought: a build that only copies them has built nothing.

What dpkg or apk has recorded of them lies where only root can write. Without such records nothing is known
and nothing is found.
"""

import base64
import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

from pytest_atesor.porter.scan import Artifact, Scan, set_aside
from pytest_atesor.porter.shell import Shell
from pytest_atesor.porter.tree import open_inside

__all__ = ["set_packaged_aside"]

_CHUNK = 1024 * 1024
_AT_ONCE = 400  # digests of each kind in one command line, and in the tail of its output
_LOOK_UP = """
if cd /var/lib/dpkg/info 2>/dev/null; then set -- ./*.md5sums; else set -- /lib/apk/db/installed; fi
[ -f "$1" ] || exit 0
grep -hoF {patterns} -- "$@" | sort -u || :
"""


def set_packaged_aside(scan: Scan, shell: Shell) -> Scan:
    """Return ``scan`` without the products that are files of the sandbox's packages.

    Raises SandboxError.
    """
    digests = {one.path: found for one in scan.products if (found := _digests(scan.root, one))}
    wanted = sorted(set(digests.values()))
    known: set[str] = set()
    for start in range(0, len(wanted), _AT_ONCE):
        known |= _look_up(shell, wanted[start : start + _AT_ONCE])
    return set_aside(scan, frozenset(path for path, found in digests.items() if known & set(found)))


def _digests(root: Path, artifact: Artifact) -> tuple[str, ...]:
    """Return what dpkg and apk call a file's content, () when it is gone."""
    md5, sha1 = (
        hashlib.new(name, usedforsecurity=False) for name in ("md5", "sha1")
    )  # nothing is secured by them
    try:
        with open_inside(root, artifact.path) as handle, os.fdopen(os.dup(handle), "rb") as stream:
            left = artifact.size_bytes
            while left > 0 and (chunk := stream.read(min(_CHUNK, left))):
                md5.update(chunk)
                sha1.update(chunk)
                left -= len(chunk)
    except OSError:
        return ()
    return md5.hexdigest(), f"Q1{base64.b64encode(sha1.digest()).decode()}"


def _look_up(shell: Shell, digests: Sequence[tuple[str, ...]]) -> frozenset[str]:
    asked = [one for both in digests for one in both]
    done = shell.script(_LOOK_UP.format(patterns=" ".join(f"-e {one}" for one in asked)))
    return frozenset(done.tail.decode("ascii", "replace").split()) & frozenset(asked)
