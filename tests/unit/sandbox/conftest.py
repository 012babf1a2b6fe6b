"""A place where no program may run, as the temporary directory of a hardened machine is."""

import os
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest


class ClosedPlace(NamedTuple):
    """A directory that is mounted noexec for what runs behind ``argv``."""

    argv: tuple[str, ...]
    path: Path


@pytest.fixture
def closed_place(tmp_path: Path) -> ClosedPlace:
    path = tmp_path / "closed"
    path.mkdir()
    own = ("--propagation=private",) if os.geteuid() == 0 else ("--user", "--map-root-user")
    mount = 'mount -t tmpfs -o noexec none "$0" && exec "$@"'
    argv = ("unshare", "--mount", *own, "sh", "-c", mount, str(path))
    if subprocess.run([*argv, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("needs a mount namespace of its own")
    return ClosedPlace(argv, path)
