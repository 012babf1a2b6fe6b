"""What the processes of a native batch share, and what a killed batch leaves of it."""

import errno
import json
import os
import pwd
import shutil
import socket
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_atesor.errors import SetupError
from pytest_atesor.sandbox.interface import SandboxSpec
from pytest_atesor.sandbox.native.engine import NativeEngine
from pytest_atesor.sandbox.native.link import CONNECTED
from pytest_atesor.sandbox.native.session import (
    Restore,
    Session,
    clear_stale,
    find_user,
    make_directory,
    make_owner,
    read_session,
)


@pytest.fixture
def runtime() -> Iterator[Path]:
    """A directory with a short name, as the user's runtime directory is."""
    with tempfile.TemporaryDirectory(prefix="run-") as directory:
        yield Path(directory)


def make_session(directory: Path) -> Session:
    return Session(
        directory=str(directory),
        host="board",
        config=None,
        token="t",  # noqa: S106 - a mark, no secret
        owner="0a1b2c3d",
        work="/home/me/pytest-atesor",
        image="localhost/x:debian",
        image_id="abc",
        podman="5.4.2",
        is_rootless=True,
        options=("--ulimit", "nofile=1:1"),
        unenforced=("memory",),
    )


def test_a_session_is_read_as_it_was_written(tmp_path: Path) -> None:
    session = make_session(tmp_path)
    session.write()
    assert read_session(str(tmp_path)) == session


def test_who_reads_a_session_while_another_is_written_reads_all_of_it(tmp_path: Path) -> None:
    session = make_session(tmp_path)
    session.write()
    with (tmp_path / "session.json").open("rb") as reading:
        replace(session, image_id="def").write()
        assert json.loads(reading.read())["image_id"] == "abc"
    assert read_session(str(tmp_path)).image_id == "def"
    assert [path.name for path in tmp_path.iterdir()] == ["session.json"]


def test_a_sandbox_there_is_created_with_the_limits_that_can_be_enforced_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = tmp_path / "ssh"
    client.write_text(f'#!/bin/sh\necho "$*" >> {tmp_path}/asked\n')
    client.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    spec = SandboxSpec(name="s", image="i", workspace=tmp_path, memory_bytes=4096, pids=7, cpu_weight=512)
    NativeEngine(make_session(tmp_path)).create(spec)
    run = (tmp_path / "asked").read_text().splitlines()[-1]
    assert "podman run --detach" in run
    assert "--pids-limit 7 --cpu-shares 512" in run
    assert "--memory" not in run


def test_trips_and_losses_are_counted_by_all_processes(tmp_path: Path) -> None:
    mine, other = make_session(tmp_path), make_session(tmp_path)
    mine.connection.count()
    other.connection.count()
    before = mine.losses
    other.note_loss()
    assert (mine.trips, mine.losses != before, mine.losses) == (2, True, other.losses)


def test_a_connection_that_cannot_be_looked_for_is_none(runtime: Path) -> None:
    session = make_session(runtime / "session")
    session.restore()
    (runtime / "session" / CONNECTED).touch()
    assert session.is_connected
    shutil.rmtree(session.directory)
    (runtime / "session").symlink_to("x" * 300)  # too long a name for the disk to say anything of it
    assert not session.is_connected


def test_a_directory_that_somebody_removed_is_made_again_and_its_loss_is_one(runtime: Path) -> None:
    session = make_session(runtime / "session")
    session.restore()
    session.note_loss()
    before = session.losses
    session.restore()
    assert session.losses == before
    shutil.rmtree(runtime / "session")
    session.note_loss()
    session.connection.count()
    session.restore()
    assert read_session(session.directory) == session
    assert session.losses not in {before, b""}
    assert (runtime / "session").stat().st_mode & 0o777 == 0o700


def test_a_directory_that_was_made_again_stays_while_its_batch_lives(runtime: Path) -> None:
    with make_directory({"TMPDIR": str(runtime)}) as directory:
        restore = Restore(make_session(directory))
        shutil.rmtree(directory)
        restore()
        changed = replace(make_session(directory), image_id="def")
        restore.change(changed)
        restore()
        clear_stale(runtime)
        assert read_session(str(directory)) == changed
        assert sorted(path.name for path in directory.iterdir()) == ["lock", "losses", "session.json"]
        restore.release()
        clear_stale(runtime)
        assert not directory.exists()


@pytest.mark.parametrize("what", ["a-link", "open", "a-file"])
def test_what_somebody_else_put_in_the_directory_s_place_is_not_used(runtime: Path, what: str) -> None:
    place, other = runtime / "session", runtime / "other"
    other.mkdir(mode=0o700)
    if what == "a-link":
        place.symlink_to(other)
    elif what == "a-file":
        place.touch(mode=0o600)
    else:
        place.mkdir()
        place.chmod(0o755)
    with pytest.raises(SetupError, match="session is not ours any more; remove it"):
        make_session(place).restore()
    assert not any(other.iterdir())


@pytest.mark.parametrize("text", ["", "[]", '{"host": "x"}'], ids=["empty", "list", "half"])
def test_what_is_no_session_is_refused_in_one_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "session.json").write_text(text, encoding="utf-8")
    with pytest.raises(SetupError, match="is no session of a native batch"):
        read_session(str(tmp_path))


def test_the_directory_is_private_and_goes_with_the_batch(runtime: Path) -> None:
    with make_directory({"TMPDIR": str(runtime)}) as directory:
        assert directory.stat().st_mode & 0o077 == 0
    assert not directory.exists()


@pytest.mark.parametrize("name", ["l" * 60, "\u00e4" * 30], ids=["letters", "bytes"])
def test_a_place_whose_path_is_too_long_for_a_socket_is_passed_over(runtime: Path, name: str) -> None:
    long = runtime / name
    long.mkdir()
    with make_directory({"TMPDIR": str(long), "XDG_RUNTIME_DIR": str(runtime)}) as directory:
        assert directory.parent == Path("/tmp")  # noqa: S108 - where else
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(f"{directory}/control.{'x' * 16}")
    assert not any(long.iterdir())


def test_a_place_that_has_no_sockets_is_passed_over(runtime: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Refused(socket.socket):
        def bind(self, address: object) -> None:
            if Path(str(address)).is_relative_to(runtime):
                raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))
            super().bind(str(address))

    monkeypatch.setattr(socket, "socket", Refused)
    with make_directory({"TMPDIR": str(runtime)}) as directory:
        assert directory.parent == Path("/tmp")  # noqa: S108 - where else
        assert [path.name for path in directory.iterdir()] == ["lock"]
    assert not any(runtime.iterdir())


def test_where_no_directory_can_be_made_every_place_is_named(runtime: Path) -> None:
    file, long = runtime / "f", f"/{'l' * 60}"
    file.touch()
    with pytest.raises(SetupError) as caught, make_directory({"TMPDIR": long}, common=str(file)):
        pass
    said = str(caught.value)
    assert said.startswith(
        "no directory for the connection can be made in "
        f"{long} ([Errno 36] too long for a socket below it), {file} ([Errno 20] Not a directory: "
    )
    assert said.endswith("); set TMPDIR to one that can be written, of at most 55 bytes")


def test_what_a_killed_batch_left_goes_and_what_a_living_one_has_stays(runtime: Path) -> None:
    left = runtime / "atesor-native-dead"
    left.mkdir()
    (left / "lock").touch()
    with make_directory({"TMPDIR": str(runtime)}) as living:
        assert not left.exists()
        clear_stale(living.parent)
        assert living.exists()


def test_a_user_without_an_account_has_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    assert find_user() == pwd.getpwuid(os.getuid()).pw_name
    monkeypatch.setattr(os, "getuid", lambda: 2_000_000_011)
    assert find_user() == "2000000011"


def test_owners_differ_by_user_machine_and_state(tmp_path: Path) -> None:
    assert (
        len({
            make_owner(tmp_path, "a", "x"),
            make_owner(tmp_path, "b", "x"),
            make_owner(tmp_path, "a", "y"),
            make_owner(tmp_path / "z", "a", "x"),
        })
        == 4
    )
