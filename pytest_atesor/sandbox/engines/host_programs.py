"""Programs of this machine that make sandboxes without an engine: where they are, and one way to run them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_atesor.errors import SandboxError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["OWN_MOUNTS", "find_program", "has_program", "run_program"]

OWN_MOUNTS: Final = ("unshare", "--mount", "--propagation", "private", "--")
"""In front of a command line: what it mounts and unmounts is seen by itself and its children only."""

_ADMIN_PATH: Final = "/usr/local/sbin:/usr/sbin:/sbin"
_QUICK_S: Final = 60.0


def has_program(name: str) -> bool:
    """Tell whether a program is installed, administrators' programs included."""
    return _look_up(name) is not None


def find_program(name: str) -> str:
    """Return the path of a program; its bare name when it is not installed, for the error to name it."""
    return _look_up(name) or name


def run_program(
    argv: Sequence[str],
    *,
    text: str = "",
    cwd: Path | None = None,
    pass_fds: Sequence[int] = (),
    timeout_s: float = _QUICK_S,
) -> str:
    """Run a program with ``text`` as its input and return its output. Raises SandboxError, its last line."""
    name = Path(argv[0]).name
    try:
        ended = subprocess.run(
            argv,
            input=text.encode(),
            capture_output=True,
            cwd=cwd,
            pass_fds=pass_fds,
            timeout=timeout_s,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SandboxError(f"host: {name} cannot be run ({error})") from error
    if ended.returncode != 0:
        lines = [line for line in ended.stderr.decode(errors="replace").splitlines() if line.strip()]
        raise SandboxError(f"host: {name} failed: {lines[-1] if lines else f'exit code {ended.returncode}'}")
    return ended.stdout.decode(errors="replace")


def _look_up(name: str) -> str | None:
    return shutil.which(name) or shutil.which(name, path=_ADMIN_PATH)
