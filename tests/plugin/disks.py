"""Small disks for tests, seen by nobody else: of memory, or of a file system that gives itself up.

A mount below a shared one appears in every other mount namespace too, such as those of running sandboxes, and
keeps its place busy there. So the place is made a mount of its own first, a private one.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

AS_ROOT = [] if os.geteuid() == 0 else ["sudo", "--non-interactive"]


def require_mounts() -> None:
    """Skip the test unless root's rights can be had without a password, and reach as far as mounting."""
    probe = [*AS_ROOT, "unshare", "--mount", "true"]
    try:
        may_mount = subprocess.run(probe, stdin=subprocess.DEVNULL, check=False).returncode == 0
    except OSError:  # no sudo
        may_mount = False
    if not may_mount:
        pytest.skip("needs root, or sudo without a password, and the right to mount")


def mount(*arguments: object) -> None:
    """Call mount as root; what it says of a failure goes to the test's output."""
    subprocess.run([*AS_ROOT, "mount", *map(str, arguments)], check=True)


@contextmanager
def memory_disk(place: Path, size: str) -> Iterator[Path]:
    """Mount a file system of ``size`` in memory at an existing directory, writable for this user."""
    require_mounts()
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


@contextmanager
def journaled_disk(place: Path, image: Path) -> Iterator[Path]:
    """Mount ext4 from a new file ``image`` at an existing directory; see :func:`give_up_disk`."""
    require_mounts()
    make = shutil.which("mkfs.ext4", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    if make is None:
        pytest.skip("needs mkfs.ext4")
    with image.open("wb") as file:
        file.truncate(16 << 20)
    owner = f"root_owner={os.getuid()}:{os.getgid()}"
    subprocess.run([make, "-q", "-E", owner, str(image)], check=True)
    mount("--bind", place, place)
    try:
        mount("--make-private", place)
        if subprocess.run([*AS_ROOT, "mount", "-o", "loop", str(image), str(place)], check=False).returncode:
            pytest.skip("needs a loop device")
        try:
            yield place
        finally:
            subprocess.run([*AS_ROOT, "umount", "--lazy", str(place)], check=True)
    finally:
        subprocess.run([*AS_ROOT, "umount", "--lazy", str(place)], check=True)


def give_up_disk(place: Path) -> None:
    """Let a journaled disk end as one does whose device fails: read-only, with the files still open."""
    mount("-o", "remount,abort", place)
