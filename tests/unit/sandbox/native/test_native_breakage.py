"""The preflight on a real machine on which one thing after the other is really broken.

The server runs each command in a mount namespace of its own, in which the thing is missing, full or
read-only; nothing of this machine changes.
"""

import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from pytest_atesor.sandbox.native.preflight import examine_machines

if TYPE_CHECKING:
    from ssh_server import Server

MEANS: Final = r"""
hide() {
    mkdir -p "$bad/path"
    for one in $(echo "$PATH" | tr : ' '); do ln -s -t "$bad/path" "$one"/* 2>/dev/null || true; done
    for one in "$@"; do rm -f "$bad/path/$one"; done
    PATH=$bad/path
}
say_instead() {
    real=$(readlink -f "$(command -v "$1")")
    touch "$bad/$1.real" && mount --bind "$real" "$bad/$1.real"
    printf '#!/bin/sh\n[ "$1" != "%s" ] || { echo "%s"; exit; }\n' "$2" "$3" >"$bad/$1"
    printf 'exec "%s" "$@"\n' "$bad/$1.real" >>"$bad/$1"
    chmod 755 "$bad/$1" && mount --bind "$bad/$1" "$real"
}
small() { mkdir -p "$1" && mount -t tmpfs -o size=64m none "$1"; }
"""


def needs_mounts() -> str:
    """Return why no mount namespace can be had, "" when one can."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        return "only root can have a mount namespace here"
    if shutil.which("podman") is None:
        return "no podman here; apt-get install podman"
    done = subprocess.run(["unshare", "--mount", "true"], capture_output=True, text=True, check=False)  # noqa: S607 - PATH
    return "" if done.returncode == 0 else f"no mount namespace: {done.stderr.strip()}"


pytestmark = pytest.mark.skipif(needs_mounts() != "", reason=needs_mounts() or "-")


def look(server: "Server", breakage: str, **settings: str) -> list[str]:
    """Return the preflight's list for the machine on which that script was run, one "problem; fix" a line."""
    bad = server.directory / "bad"
    bad.mkdir(exist_ok=True)
    inside = bad / "inside"
    inside.write_text(
        f'set -e\nbad={bad}\n{MEANS}\n{breakage}\nset +e\nexec sh -c "$SSH_ORIGINAL_COMMAND"\n',
        encoding="utf-8",
    )
    config = server.directory / "sshd_config"
    plain = config.read_text(encoding="utf-8")
    try:
        config.write_text(f"{plain}ForceCommand exec unshare --mount sh {inside}\n", encoding="utf-8")
        survey = examine_machines({**server.environ, **settings})
    finally:
        config.write_text(plain, encoding="utf-8")
    return [f"{one.line}; {one.fix}" for one in survey.problems]


@pytest.mark.parametrize(
    ("breakage", "words"),
    [
        pytest.param(
            "hide rsync", "board: rsync is not installed there; sudo apt-get install rsync", id="rsync"
        ),
        pytest.param(
            "hide podman",
            "board: podman is not installed there; sudo apt-get install podman uidmap passt",
            id="podman",
        ),
        pytest.param(
            "say_instead podman --version 'podman version 3.4.4'",
            "board: podman 3.4.4 is older than 4; upgrade the distribution, then: sudo apt-get install",
            id="old podman",
        ),
        pytest.param(
            "hide flock", "board: flock is not installed there; sudo apt-get install util-linux", id="flock"
        ),
        pytest.param("say_instead date +%s 1", "s behind; sudo timedatectl set-ntp true", id="clock"),
        pytest.param(
            'mkdir -p "$WORK"; mount -t tmpfs -o ro none "$WORK"',
            "{work} cannot be made or written there; export ATESOR_REMOTE_WORKDIR=pytest-atesor",
            id="read-only",
        ),
        pytest.param(
            'small "$WORK"', " GB are free in {work}, 10 GB are needed; podman image prune", id="full disk"
        ),
        pytest.param(
            "small \"$(podman info --format '{{.Store.GraphRoot}}')\"",
            "/storage, 10 GB are needed; podman image prune --all",
            id="full storage",
        ),
    ],
)
def test_what_is_broken_there_is_said_with_the_command_that_mends_it(
    server: "Server", breakage: str, words: str
) -> None:
    work = server.environ["ATESOR_REMOTE_WORKDIR"]
    found = look(server, f"WORK={work}; {breakage}")
    assert len([one for one in found if words.format(work=work) in one]) == 1, found


@pytest.mark.parametrize(
    ("breakage", "words"),
    [
        pytest.param(
            "rm -f $bad/none; touch $bad/none; for one in /etc/subuid /etc/subgid; do "
            "[ ! -e $one ] || mount --bind $bad/none $one; done",
            "has no range of 65536 ids in /etc/subuid; sudo usermod --add-subuids 100000-165535 ",
            id="no range",
        ),
        pytest.param(
            "hide newuidmap", "newuidmap is not installed there; sudo apt-get install uidmap", id="newuidmap"
        ),
        pytest.param(
            "true", "the login is root's: builds of strangers belong to an ordinary user", id="root"
        ),
    ],
)
def test_what_podman_without_root_needs_is_asked_for(server: "Server", breakage: str, words: str) -> None:
    found = look(server, breakage, ATESOR_NATIVE_ALLOW="virtual,architecture")
    assert [one for one in found if words in one]


@pytest.mark.parametrize(
    ("place", "words"),
    [
        pytest.param("$HOME", "is the home itself", id="home"),
        pytest.param("$HOME/.ssh", "inside ~/.ssh", id="keys"),
        pytest.param("/", "a parent of it", id="parent"),
    ],
)
def test_a_link_to_a_place_that_must_not_be_used_is_seen_through(
    server: "Server", place: str, words: str
) -> None:
    link = Path(server.environ["ATESOR_REMOTE_WORKDIR"]).with_name("link")
    breakage = f'mount -t tmpfs none "$HOME"; mkdir "$HOME/.ssh"; ln -sfn "{place}" {link}'
    found = look(server, breakage, ATESOR_REMOTE_WORKDIR=str(link))
    assert [one for one in found if words in one and "export ATESOR_REMOTE_WORKDIR=" in one], found


def test_a_work_directory_that_cannot_be_made_does_not_hide_that_there_is_no_room_for_it(
    server: "Server", tmp_path: Path
) -> None:
    small = tmp_path / "small"
    breakage = f'small "{small}"; mount -o remount,ro "{small}"'
    found = look(server, breakage, ATESOR_REMOTE_WORKDIR=f"{small}/deep/work")
    assert [one for one in found if f"{small}/deep/work cannot be made" in one]
    assert [one for one in found if f" GB are free in {small}/deep/work, 10 GB are needed" in one]


def test_a_machine_that_cannot_be_read_is_said_so(server: "Server") -> None:
    (problem,) = look(server, "hide nproc")
    assert problem == ("board: its cores and memory cannot be read; ssh board nproc, and see what is wrong")
