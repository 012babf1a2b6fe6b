"""Files that the sandbox's own packages brought: a build that only copies them has built nothing.

What dpkg has recorded of them lies where only root can write. Without such records (another distribution)
nothing is known and nothing is found.
"""

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

from pytest_atesor.porter.scan import Artifact, Scan, set_aside
from pytest_atesor.porter.shell import Shell
from pytest_atesor.porter.tree import open_inside

__all__ = ["set_packaged_aside"]

_AT_ONCE = 500  # digests in one command line, and in the tail of its output
_LOOK_UP = "cd /var/lib/dpkg/info 2>/dev/null || exit 0\ngrep -hoF {patterns} -- *.md5sums | sort -u || :\n"


def set_packaged_aside(scan: Scan, root: Path, shell: Shell) -> Scan:
    """Return ``scan`` without the products below ``root`` that are files of the sandbox's packages.

    Raises SandboxError.
    """
    digests = {one.path: digest for one in scan.products if (digest := _digest(root, one))}
    wanted = sorted(set(digests.values()))
    known: set[str] = set()
    for start in range(0, len(wanted), _AT_ONCE):
        known |= _look_up(shell, wanted[start : start + _AT_ONCE])
    return set_aside(scan, frozenset(path for path, digest in digests.items() if digest in known))


def _digest(root: Path, artifact: Artifact) -> str:
    try:
        with open_inside(root, artifact.path) as handle, os.fdopen(os.dup(handle), "rb") as stream:
            # dpkg records MD5; nothing is secured by it.
            return hashlib.file_digest(stream, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
    except OSError:
        return ""


def _look_up(shell: Shell, digests: Sequence[str]) -> frozenset[str]:
    patterns = " ".join(f"-e {digest}" for digest in digests)
    done = shell.script(_LOOK_UP.format(patterns=patterns))
    return frozenset(done.tail.decode("ascii", "replace").split()) & frozenset(digests)
