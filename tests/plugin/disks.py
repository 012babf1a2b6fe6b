"""Small disks of memory for tests, seen by nobody else.

A mount below a shared one appears in every other mount namespace too, such as those of running sandboxes, and
keeps its place busy there. So the place is made a mount of its own first, a private one.
"""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

AS_ROOT = [] if os.geteuid() == 0 else ["sudo", "--non-interactive"]


def mount(*arguments: object) -> None:
    """Call mount as root; what it says of a failure goes to the test's output."""
    subprocess.run([*AS_ROOT, "mount", *map(str, arguments)], check=True)


@contextmanager
def memory_disk(place: Path, size: str) -> Iterator[Path]:
    """Mount a file system of ``size`` in memory at an existing directory, writable for this user."""
    mount("--bind", place, place)
    try:
        mount("--make-private", place)
        mount("-t", "tmpfs", "-o", f"size={size},uid={os.getuid()},mode=755", "atesor-test", place)
        try:
            yield place
        finally:
            subprocess.run([*AS_ROOT, "umount", "--lazy", str(place)], check=True)
    finally:
        subprocess.run([*AS_ROOT, "umount", "--lazy", str(place)], check=True)
