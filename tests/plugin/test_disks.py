"""What :mod:`disks` asks of a machine."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

import disks
import pytest


@pytest.mark.parametrize(
    "sudo",
    [
        pytest.param("echo 'sudo: a password is required' >&2; exit 1", id="wants-a-password"),
        pytest.param(None, id="is-not-there"),
    ],
)
@pytest.mark.parametrize(
    "disk",
    [
        pytest.param(partial(disks.memory_disk, size="64k"), id="of-memory"),
        pytest.param(partial(disks.journaled_disk, image=Path("image")), id="journaled"),
    ],
)
def test_who_may_not_mount_skips_what_needs_a_disk(
    disk: Callable[[Path], AbstractContextManager[Path]],
    sudo: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(disks, "AS_ROOT", ["sudo", "--non-interactive"])
    programs = tmp_path / "bin"
    programs.mkdir()
    if sudo is not None:
        (programs / "sudo").write_text(f"#!/bin/sh\n{sudo}\n")
        (programs / "sudo").chmod(0o755)
    monkeypatch.setenv("PATH", str(programs))
    with pytest.raises(pytest.skip.Exception, match="sudo without a password"), disk(tmp_path):
        pass
